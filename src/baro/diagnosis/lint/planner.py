"""What baro's planner reads: its scheduling gate and its annotations, and the slips that silence them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from baro.diagnosis.lint.manifest import CLAIM_KINDS, Manifest, items, mapping, text
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run
from baro.model.edits import Edit, RenameKey, SetValue
from baro.model.names import (
    ALLOCATED_BY,
    API_GROUP,
    INTENT,
    PLACEMENT_GATE,
    REASON_ANNOTATION,
    SELECTOR_ANNOTATION,
    TOPOLOGY_ANNOTATION,
)

_WISHES: Final = ("required", "preferred", "none")
_KNOWN: Final = (TOPOLOGY_ANNOTATION, SELECTOR_ANNOTATION, REASON_ANNOTATION, ALLOCATED_BY, INTENT)


@rule()
def known_annotations(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Annotations of baro: known names, allowed values, in the place where they are read."""
    for base, readable in _places(manifest):
        for key, value in mapping(manifest.body, *base.split(".")).items():
            if not key.startswith(f"{API_GROUP}/"):
                continue
            path = f"{base}[{key}]"
            where = manifest.document.where_of(path)
            steps = (*base.split("."), key)
            if key not in _KNOWN:
                yield from _unknown(manifest, path, key)
            elif key == TOPOLOGY_ANNOTATION and value not in _WISHES:
                near = difflib.get_close_matches(str(value).lower(), _WISHES, n=1, cutoff=0.6)
                edits: tuple[Edit, ...] = (SetValue(steps, near[0]),) if near else ()
                message = (
                    f"{key} is {value!r}: baro knows {', '.join(_WISHES)} and takes the rest for preferred"
                )
                yield note("topology-annotation", message, where, *edits)
            elif key == TOPOLOGY_ANNOTATION and readable:
                message = f"{key} is read on {readable}, not here"
                yield note("annotation-misplaced", message, where)


def _places(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """(annotations, where they should stand instead; empty when they are in the right place)."""
    here = "metadata.annotations"
    if manifest.kind == "ResourceClaimTemplate":
        yield here, "the claims: write it below spec.metadata"
        yield "spec.metadata.annotations", ""
    elif manifest.pod_path is not None and manifest.kind != "Pod":
        path, _ = manifest.pod_metadata
        yield here, f"the pods: write it below {path}"
        yield f"{path}.annotations", ""
    elif manifest.kind in (*CLAIM_KINDS, "Pod", "DeviceClass"):
        yield here, ""


def _unknown(manifest: Manifest, path: str, key: str) -> Iterator[Note]:
    near = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.8)
    if near:
        steps = (*path.partition("[")[0].split("."), key)
        message = f"baro knows no annotation {key}; the nearest is {near[0]}"
        yield note("annotation-unknown", message, manifest.document.where_of(path), RenameKey(steps, near[0]))


@rule()
def gate(manifest: Manifest, run: Run) -> Iterator[Note]:
    """The gate holds a pod until baro has placed its claims."""
    if manifest.pod_path is None:
        return
    gates = [text(one, "name") for _, one in items(manifest.pod_spec, "schedulingGates")]
    for index, name in enumerate(gates):
        path = f"{manifest.pod_path}.schedulingGates[{index}].name"
        where = manifest.document.where_of(path)
        near = difflib.get_close_matches(name, [PLACEMENT_GATE], n=1, cutoff=0.85)
        if near and name != PLACEMENT_GATE:
            message = f"nobody removes the gate {name}; baro's is {PLACEMENT_GATE}"
            yield note("gate-unknown", message, where, SetValue(manifest.steps(path), PLACEMENT_GATE))
        elif name == PLACEMENT_GATE and not manifest.pod_spec.get("resourceClaims"):
            message = "the pod waits for baro to place its claims, and has none"
            yield note("gate-without-claims", message, where)
