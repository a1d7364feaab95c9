"""What mends a wrong shape or value: edits for the slips that people make with these kinds.

Knows shapes and values of the API, judges nothing: the rules say what is wrong, this room what to do.
"""

from __future__ import annotations

import re
from typing import Any, Final

from baro.diagnosis.lint.manifest import POD_SPECS, Manifest, mapping
from baro.diagnosis.lint.places import Places
from baro.diagnosis.lint.values import full_version
from baro.model.convert import DEVICE_FIELDS, REQUEST_FIELDS
from baro.model.decode import StrictError
from baro.model.edits import (
    Edit,
    EditError,
    Insert,
    Listed,
    Nest,
    Remove,
    RenameKey,
    SetValue,
    Steps,
    Unwrap,
    exact,
    value_at,
)
from baro.model.schema import find_kind, resolve
from baro.model.validation import Cause

Mend = tuple[tuple[Edit, ...], str]
"""Edits and, where the table's remedy says too little, what to do in words."""

_REQUEST = re.compile(r"^(spec(?:\.spec)?\.devices\.requests\[\d+\])\.(\w+)$")
_MAX_NAME: Final = 32
_TEXTS: Final = ("string", "FullyQualifiedName", "DeviceAllocationMode", "QualifiedName", "UID")
_MAX_VALUE: Final = 64


def steps_of(manifest: Manifest, path: str) -> Steps | None:
    """Exact steps of a path as it is written; None where nothing is there."""
    try:
        return exact(manifest.body, path)
    except EditError:
        return None


def _value(manifest: Manifest, steps: Steps) -> Any:
    return value_at(manifest.body, steps)


def flat_request(manifest: Manifest, path: str) -> tuple[Edit, ...]:
    """The fields beside the name of the request at ``path``, moved below ``exactly``."""
    steps = steps_of(manifest, path)
    request = _value(manifest, steps) if steps is not None else None
    if steps is None or not isinstance(request, dict) or {"exactly", "firstAvailable"} & request.keys():
        return ()
    keys = tuple(key for key in request if key in REQUEST_FIELDS)
    return (Nest(steps, keys, "exactly"),) if keys else ()


def unwrapped(manifest: Manifest, path: str) -> tuple[Edit, ...]:
    steps = steps_of(manifest, path)
    return (Unwrap(steps),) if steps is not None else ()


def rename(manifest: Manifest, path: str, name: str) -> tuple[Edit, ...]:
    steps = steps_of(manifest, path)
    return (RenameKey(steps, name),) if steps is not None else ()


def is_old_claim_source(manifest: Manifest, path: str) -> bool:
    """Whether this is ``source`` in an entry of a pod's claims, as it was before Kubernetes 1.31."""
    base = POD_SPECS.get((manifest.group, manifest.kind))
    return (
        base is not None
        and re.fullmatch(rf"{re.escape(base)}\.resourceClaims\[\d+\]\.source", path) is not None
    )


def fields_beside(manifest: Manifest, path: str) -> tuple[frozenset[str], frozenset[str]]:
    """(fields that the type around the one at ``path`` has, fields that are there)."""
    kind = find_kind(manifest.document.api_version, manifest.kind)
    steps = steps_of(manifest, path)
    if kind is None or steps is None:
        return frozenset(), frozenset()
    found = resolve(kind.type)
    body: Any = manifest.body
    for step in steps[:-1]:
        body = body[step]
        if isinstance(step, int):
            continue
        field = found.fields.get(str(step))
        type_ = field.type if field is not None else None
        while type_ is not None and type_.kind in ("array", "map"):
            type_ = type_.items
        if type_ is None or not type_.ref:
            return frozenset(), frozenset()
        found = resolve(type_.ref)
    return frozenset(found.fields), frozenset(body) if isinstance(body, dict) else frozenset()


# --- what does not decode --------------------------------------------------------------------------------


def mend(manifest: Manifest, error: StrictError, places: Places) -> Mend | None:
    """Edits for a field in the wrong place or of the wrong type; None when nothing is known about it."""
    if error.trouble == "unknown":
        return _misplaced(manifest, error.path)
    if error.trouble == "type":
        return _mistyped(manifest, error, places)
    return None


def _misplaced(manifest: Manifest, path: str) -> Mend | None:
    request = _REQUEST.match(path)
    if request is not None and request[2] in REQUEST_FIELDS:
        return flat_request(manifest, request[1]), "Move the fields of the request below `exactly`."
    if request is not None and request[2] == "exactly" and manifest.version == "v1beta1":
        edits = (SetValue(("apiVersion",), "resource.k8s.io/v1"),)
        return edits, "`exactly` came with v1beta2: write resource.k8s.io/v1."
    if re.fullmatch(r"spec\.devices\[\d+\]\.basic", path):
        return unwrapped(manifest, path), "`basic` is the wrapper of v1beta1: its fields move up one level."
    device = re.fullmatch(r"(spec\.devices\[\d+\])\.(\w+)", path)
    if device is not None and manifest.kind == "ResourceSlice" and device[2] in DEVICE_FIELDS:
        return (SetValue(("apiVersion",), "resource.k8s.io/v1"),), "Write resource.k8s.io/v1."
    if path == "spec.devices" and manifest.kind == "ResourceClaimTemplate":
        keys = tuple(key for key in mapping(manifest.body, "spec") if key not in ("metadata", "spec"))
        return (Nest(("spec",), keys, "spec"),), "A template has the spec of its claims below `spec.spec`."
    if path == "spec.spec" and manifest.kind == "ResourceClaim":
        return unwrapped(manifest, path), "Only templates have `spec.spec`; a claim has one `spec`."
    selector = re.fullmatch(r"(.*\.selectors\[\d+\])\.expression", path)
    steps = steps_of(manifest, selector[1]) if selector is not None else None
    if steps is not None:
        return (Nest(steps, ("expression",), "cel"),), "The expression stands below `cel`."
    attribute = re.fullmatch(r"(spec\.devices\[\d+\](?:\.basic)?\.attributes\..+)\.(\w+)", path)
    if attribute is not None:
        return _attribute_value(manifest, attribute[1], attribute[2])
    return None


def _attribute_value(manifest: Manifest, path: str, wrong: str) -> Mend:
    """``quantity`` and the like are no kinds of attribute."""
    words = "An attribute is one of int, bool, string and version; amounts are capacities: {value: 80Gi}."
    steps = steps_of(manifest, path)
    value = mapping(_value(manifest, steps)).get(wrong) if steps is not None else None
    if steps is None or wrong != "quantity" or not isinstance(value, str | int):
        return (), words
    device, name = steps[:-2], str(steps[-1])
    held = mapping(_value(manifest, device), "capacity")
    if name in held:
        return (Remove(steps),), words
    return (Remove(steps), Insert((*device, "capacity", name), {"value": value})), words


def _mistyped(manifest: Manifest, error: StrictError, places: Places) -> Mend | None:
    steps = steps_of(manifest, error.path)
    if steps is None:
        return None
    value = _value(manifest, steps)
    wanted = error.message.rpartition(" of type ")[2]
    if wanted in ("int", "int32", "int64") and isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return (SetValue(steps, int(value)),), "Write the number without quotes."
    if wanted == "bool" and value in ("true", "false"):
        return (SetValue(steps, value == "true"),), "Write it without quotes."
    if wanted.rpartition(".")[2] in _TEXTS and isinstance(value, bool | int | float):
        written = places.raw(manifest, steps) or str(value).lower()
        words = f"Quote the value: YAML reads {written} as {str(value).lower()}."
        return (SetValue(steps, written),), words
    if wanted.startswith("[]") and isinstance(value, dict):
        return (Listed(steps),), "It is a list: begin each entry with a dash."
    if wanted.endswith("DeviceCapacity") and isinstance(value, str | int):
        return (SetValue(steps, {"value": value}),), "A capacity is an object: {value: 80Gi}."
    if wanted.endswith("DeviceAttribute") and isinstance(value, str | int | bool):
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        return (SetValue(steps, {kind: value}),), f"An attribute names its type: {{{kind}: …}}."
    return None


# --- what is not allowed ---------------------------------------------------------------------------------


def exact_path(cause: Cause) -> str:
    """The path of a cause; with the key where the server speaks of a key and names the map."""
    key = re.match(r'Invalid value: "([^"\\]*)": .*C identifier', cause.message)
    if key is not None and cause.path.endswith((".attributes", ".capacity")):
        return f"{cause.path}[{key[1]}]"
    return cause.path


def mend_value(manifest: Manifest, cause: Cause) -> Mend:
    """Edits and words for a value that the server refuses; nothing where nothing is known."""
    steps = steps_of(manifest, manifest.written(exact_path(cause)))
    if "semver.org spec" in cause.message and steps is not None:
        return _version(manifest, steps)
    if "a valid C identifier" in cause.message and steps is not None:
        return _identifier(manifest, steps)
    if cause.path.endswith(".count") and "allocationMode is 'All'" in cause.message and steps is not None:
        return (Remove(steps),), "With `All` there is no count."
    if re.fullmatch(r"spec\.sharedCounters\[\d+\]\.counters", cause.path):
        owner = steps_of(manifest, cause.path.rpartition(".")[0])
        return (Remove(owner),) if owner else (), "Leave the counter set out where there is nothing to count."
    if cause.path == "spec.devices" and "Too many" in cause.message:
        return (), _split(cause.message)
    return (), ""


def _version(manifest: Manifest, steps: Steps) -> Mend:
    """Three numbers as the version; the whole text beside it, where it says more."""
    value = str(_value(manifest, steps))
    attribute, name = steps[:-1], str(steps[-2])
    if not value.strip():
        return (Remove(attribute),), "Leave an attribute out whose value is not known."
    version = full_version(value)
    if version is None or steps[-1] != "version":
        return (), "A version is three numbers: 1.2.3."
    edits: list[Edit] = [SetValue(steps, version)]
    full = f"{name}Full"
    siblings = mapping(_value(manifest, steps[:-2]))
    if len(full.rpartition("/")[2]) <= _MAX_NAME and len(value) <= _MAX_VALUE and full not in siblings:
        edits.append(Insert((*steps[:-2], full), {"string": value}))
    return tuple(edits), f"Publish {version} as the version, and the full text as a string attribute."


def _identifier(manifest: Manifest, steps: Steps) -> Mend:
    name = str(steps[-1])
    domain, slash, bare = name.rpartition("/")
    better = re.sub(r"\W", "_", bare, flags=re.ASCII)[:_MAX_NAME]
    better = f"{domain}{slash}{better if re.match('[A-Za-z_]', better) else '_' + better}"
    siblings = mapping(_value(manifest, steps[:-1]))
    if better in siblings or better == name:
        return (), "Names are C identifiers of at most 32 characters."
    return (RenameKey(steps, better),), f"Call it {better}."


def _split(message: str) -> str:
    numbers = re.findall(r"\d+", message)
    if len(numbers) < 2:
        return ""
    have, limit = int(numbers[0]), int(numbers[-1])
    slices = -(-have // limit)
    return (
        f"Split the pool into {slices} slices of at most {limit} devices, all with one generation and"
        f" resourceSliceCount: {slices}."
    )
