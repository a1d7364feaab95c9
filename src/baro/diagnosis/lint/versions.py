"""API versions: deprecated, not served, gone; and the classic DRA that no server knows any more.

Without a target a beta version is deprecated. With one it is an error: since Kubernetes 1.24 servers do not
serve new beta APIs unless they are told to. Source: the API life cycle tags of Kubernetes 1.37.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

from baro.diagnosis.lint.manifest import DRA_GROUP, DRA_KINDS, Manifest, items, mapping, text
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run, Target
from baro.model.convert import REQUEST_FIELDS
from baro.model.edits import Edit, Nest, Remove, SetValue, Unwrap
from baro.model.validation.rules import parse

_Life = tuple[str, str, str]
_LIVES: Final[Mapping[str, _Life]] = {
    "v1": ("1.34", "", ""),
    "v1beta2": ("1.33", "1.36", "1.39"),
    "v1beta1": ("1.32", "1.35", "1.38"),
}
_RULE_LIVES: Final[Mapping[str, _Life]] = {
    "v1": ("1.37", "", ""),
    "v1beta2": ("1.36", "1.39", "1.42"),
    "v1alpha3": ("1.33", "1.36", "1.39"),
}
"""Version → (first served, deprecated since, not served from), of DeviceTaintRule."""
_REQUESTS: Final = "; in v1 the fields of a request stand below `exactly`"
_MOVES: Final[Mapping[str, str]] = {
    "ResourceClaim": _REQUESTS,
    "ResourceClaimTemplate": _REQUESTS,
    "ResourceSlice": "; in v1 a device has no `basic` around its fields",
}
_CLASSIC_KINDS: Final = (
    "ResourceClass", "PodSchedulingContext", "PodScheduling", "ResourceClaimParameters",
    "ResourceClassParameters",
)  # fmt: skip
_CLASSIC_GROUPS: Final = ("gpu.resource.nvidia.com", "gpu.resource.intel.com", "gaudi.resource.intel.com")
"""Groups of parameter objects that classic drivers had: ``GpuClaimParameters`` and the like."""
_OLD: Final = ("v1alpha1", "v1alpha2", "v1alpha3")
_OTHER_KINDS: Final = ("ResourcePoolStatusRequest",)
_STORED: Final = (
    "Objects that are still stored in this version block an upgrade: delete resourceclaims,"
    " resourceclaimtemplates, deviceclasses and resourceslices before it, while the cluster is on 1.31 or"
    " older, and create them again as resource.k8s.io/v1."
)


@rule()
def api_version(manifest: Manifest, run: Run) -> Iterator[Note]:
    """The version of a document of ``resource.k8s.io``, or one that should be."""
    if manifest.group == "" and manifest.kind in DRA_KINDS:
        message = f'no kind "{manifest.kind}" in version "{manifest.document.api_version}"'
        where = manifest.document.where_of("apiVersion")
        edit = SetValue(("apiVersion",), f"{DRA_GROUP}/v1")
        yield note("kind-unknown", f"{message}; it is in {DRA_GROUP}", where, edit)
    elif _is_classic(manifest):
        yield _classic(manifest)
    elif manifest.group == DRA_GROUP and manifest.kind not in DRA_KINDS:
        yield from _unknown_kind(manifest)
    elif manifest.dra:
        yield from _life(manifest, run.target)


def _life(manifest: Manifest, target: Target) -> Iterator[Note]:
    version, api = manifest.version, manifest.document.api_version
    lives = _RULE_LIVES if manifest.kind == "DeviceTaintRule" else _LIVES
    life = lives.get(version)
    edits = to_v1(manifest)
    if life is None:
        message = f'no kind "{manifest.kind}" is registered for version "{api}"'
        stored = f" {_STORED}" if version in _OLD else ""
        remedy = f"Write resource.k8s.io/v1.{stored}"
        yield note(
            "api-version-not-served",
            message,
            manifest.where("apiVersion"),
            *edits,
            remedy=remedy,
            server=message,
        )
        return
    _, deprecated, gone = life
    if target.kube_version is not None:
        why = _not_served(api, life, target.kube_version, beta=version != "v1")
        if why is not None:
            served = parse(lives["v1"][0]) <= parse(target.kube_version)
            yield note(
                "api-version-not-served", why, manifest.where("apiVersion"), *(edits if served else ())
            )
        return
    if gone and parse(deprecated) <= parse(target.version):
        move = _MOVES.get(manifest.kind, "") if version == "v1beta1" else ""
        message = f"{api} is deprecated since Kubernetes {deprecated} and gone in {gone}{move}"
        yield note("deprecated-api-version", message, manifest.where("apiVersion"), *edits)


def _not_served(api: str, life: _Life, kube_version: str, *, beta: bool) -> str | None:
    since, deprecated, gone = life
    now = parse(kube_version)
    if gone and now >= parse(gone):
        return f"Kubernetes {kube_version} does not serve {api}: it is gone since {gone}"
    if now < parse(since):
        return f"Kubernetes {kube_version} does not serve {api}: it came with {since}"
    if beta:
        return (
            f"Kubernetes {kube_version} serves {api} only with --runtime-config={api}=true;"
            f" deprecated since {deprecated}, gone in {gone}"
        )
    return None


def to_v1(manifest: Manifest) -> tuple[Edit, ...]:
    """The edits that make a beta object one of v1, in its text."""
    edits: list[Edit] = [SetValue(("apiVersion",), f"{DRA_GROUP}/v1")]
    if manifest.version not in ("v1beta1", "v1alpha3") or manifest.kind == "DeviceTaintRule":
        return tuple(edits)
    body_spec = mapping(manifest.body, "spec")
    if manifest.kind == "ResourceSlice":
        for key, zero in (("nodeName", ""), ("allNodes", False)):
            if key in body_spec and body_spec[key] == zero:
                edits.append(Remove(("spec", key)))
        edits += [
            Unwrap(("spec", "devices", index, "basic"))
            for index, device in items(body_spec, "devices")
            if "basic" in device
        ]
    elif manifest.kind in ("ResourceClaim", "ResourceClaimTemplate"):
        base = ("spec",) if manifest.kind == "ResourceClaim" else ("spec", "spec")
        for index, request in items(mapping(manifest.body, *base, "devices"), "requests"):
            keys = tuple(key for key in request if key in REQUEST_FIELDS)
            if keys and not {"exactly", "firstAvailable"} & request.keys():
                edits.append(Nest((*base, "devices", "requests", index), keys, "exactly"))
    return tuple(edits)


# --- kinds that are not there ----------------------------------------------------------------------------


def _unknown_kind(manifest: Manifest) -> Iterator[Note]:
    if manifest.kind in _OTHER_KINDS:
        return
    message = f'no kind "{manifest.kind}" is registered for version "{manifest.document.api_version}"'
    near = difflib.get_close_matches(manifest.kind, DRA_KINDS, n=1, cutoff=0.7)
    edits = (SetValue(("kind",), near[0]),) if near else ()
    hint = f"; the nearest is {near[0]}" if near else ""
    where = manifest.document.where_of("kind")
    yield note("kind-unknown", message + hint, where, *edits, server=message)


def _is_classic(manifest: Manifest) -> bool:
    if manifest.group in _CLASSIC_GROUPS:
        return True
    if manifest.group != DRA_GROUP:
        return False
    if manifest.kind in _CLASSIC_KINDS or manifest.version in ("v1alpha1", "v1alpha2"):
        return True
    spec = mapping(manifest.body, "spec")
    return "resourceClassName" in {*spec, *mapping(spec, "spec")}


def _classic(manifest: Manifest) -> Note:
    api = manifest.document.api_version
    message = f'no kind "{manifest.kind}" is registered for version "{api}": classic DRA is gone since 1.32'
    if manifest.group != DRA_GROUP:
        message = (
            f"{manifest.kind} of {manifest.group} belongs to classic DRA, which is gone since Kubernetes 1.32"
        )
    skeleton = _skeleton(manifest)
    where = manifest.document.where_of("apiVersion")
    return note("classic-dra", message, where, replacement=skeleton)


def _skeleton(manifest: Manifest) -> str | None:
    """A claim of v1 with the class that the old one named; what its parameters said must become CEL."""
    if manifest.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return None
    spec = mapping(manifest.body, "spec")
    inner = mapping(spec, "spec") if manifest.kind == "ResourceClaimTemplate" else spec
    name = text(inner, "resourceClassName") or "gpu.nvidia.com"
    pad = "  " if manifest.kind == "ResourceClaimTemplate" else ""
    lines = [
        f"apiVersion: {DRA_GROUP}/v1",
        f"kind: {manifest.kind}",
        f"metadata: {{name: {manifest.name or 'gpu'}}}",
        "spec:",
        *(["  spec:"] if pad else []),
        f"{pad}  devices:",
        f"{pad}    requests:",
        f"{pad}    - name: gpu",
        f"{pad}      exactly:",
        f"{pad}        deviceClassName: {name}",
    ]
    return "\n".join(lines)
