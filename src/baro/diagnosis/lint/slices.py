"""ResourceSlices: pools that do not add up, empty ones, attributes that others cannot use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from baro.diagnosis.lint.manifest import Manifest, items, mapping, text
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run
from baro.model.edits import SetValue
from baro.model.names import PCIE_ROOT

_PCIE_ROOT = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")


def _pool(manifest: Manifest) -> tuple[str, str]:
    spec = mapping(manifest.v1, "spec")
    return text(spec, "driver"), text(mapping(spec, "pool"), "name")


def _number(manifest: Manifest, key: str) -> int | None:
    value = mapping(manifest.v1, "spec", "pool").get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _siblings(manifest: Manifest, run: Run) -> list[Manifest]:
    """All slices of the pool, this one included."""
    pool = _pool(manifest)
    return run.pools.get(pool, []) if all(pool) else []


@rule("ResourceSlice")
def generations(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Only the newest generation of a pool counts."""
    mine = _number(manifest, "generation")
    known = [found for one in _siblings(manifest, run) if (found := _number(one, "generation")) is not None]
    if mine is not None and known and mine < max(known):
        message = f"generation {mine} of the pool is left over: only the newest, {max(known)}, counts"
        yield note("slice-old-generation", message, manifest.where("spec.pool.generation"))


@rule("ResourceSlice")
def counts(manifest: Manifest, run: Run) -> Iterator[Note]:
    """All slices of a generation say how many they are, and agree."""
    mine, generation = _number(manifest, "resourceSliceCount"), _number(manifest, "generation")
    current = [one for one in _siblings(manifest, run) if _number(one, "generation") == generation]
    if mine is None or not current:
        return
    said = sorted({count for one in current if (count := _number(one, "resourceSliceCount")) is not None})
    path = "spec.pool.resourceSliceCount"
    fix = SetValue(manifest.steps(path), len(current))
    if len(said) > 1:
        listed = " and ".join(map(str, said))
        message = f"the slices of one generation declare an inconsistent resourceSliceCount: {listed}"
        edits = (fix,) if len(current) in said and mine != len(current) else ()
        yield note("pool-inconsistent", message, manifest.where(path), *edits)
    elif len(current) > mine:
        message = f"the pool has {len(current)} slices of generation {generation}, and they say {mine}"
        yield note("pool-inconsistent", message, manifest.where(path), fix)
    elif len(current) < mine:
        message = (
            f"{len(current)} of the {mine} slices of the pool are here: kube-scheduler waits for all of them"
        )
        yield note("pool-slices-not-here", message, manifest.where(path))


@rule("ResourceSlice")
def names(manifest: Manifest, run: Run) -> Iterator[Note]:
    """A device name that two slices of a generation have makes the pool invalid."""
    generation = _number(manifest, "generation")
    others = Counter(
        text(device, "name")
        for one in _siblings(manifest, run)
        if one is not manifest and _number(one, "generation") == generation
        for _, device in items(mapping(one.v1, "spec"), "devices")
    )
    for index, device in items(mapping(manifest.v1, "spec"), "devices"):
        name = text(device, "name")
        if name and others[name]:
            message = f"another slice of the pool has a device {name} too: the pool is invalid"
            yield note("pool-invalid", message, manifest.where(f"spec.devices[{index}].name"))


@rule("ResourceSlice")
def empty(manifest: Manifest, run: Run) -> Iterator[Note]:
    """A pool without devices: the driver runs and found nothing."""
    if not manifest.dra or any(_has_devices(one) for one in (_siblings(manifest, run) or [manifest])):
        return
    spec = mapping(manifest.v1, "spec")
    where = manifest.where("spec.devices" if "devices" in spec else "spec")
    node = text(spec, "nodeName")
    on = f" on {node}" if node else ""
    message = f"0 devices are published{on} by {text(spec, 'driver') or 'the driver'}"
    yield note("empty-slice", message, where)


def _has_devices(manifest: Manifest) -> bool:
    spec = mapping(manifest.v1, "spec")
    return bool(spec.get("devices") or spec.get("sharedCounters"))


@rule("ResourceSlice")
def counters(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Counters that a device consumes and no slice of a complete pool has."""
    generation = _number(manifest, "generation")
    current = [one for one in _siblings(manifest, run) if _number(one, "generation") == generation]
    if not current or len(current) != _number(manifest, "resourceSliceCount"):
        return
    sets: dict[str, Any] = {}
    for one in current:
        for _, found in items(mapping(one.v1, "spec"), "sharedCounters"):
            sets[text(found, "name")] = mapping(found, "counters")
    for index, device in items(mapping(manifest.v1, "spec"), "devices"):
        for number, consumption in items(device, "consumesCounters"):
            path = f"spec.devices[{index}].consumesCounters[{number}]"
            name = text(consumption, "counterSet")
            if name and name not in sets:
                message = f"no slice of the pool has a counter set {name}: the pool is invalid"
                yield note("pool-invalid", message, manifest.where(f"{path}.counterSet"))
            for counter in mapping(consumption, "counters") if name in sets else ():
                if counter not in sets[name]:
                    message = f"the counter set {name} has no counter {counter}: the pool is invalid"
                    yield note("pool-invalid", message, manifest.where(f"{path}.counters[{counter}]"))


@rule("ResourceSlice")
def standard_names(manifest: Manifest, run: Run) -> Iterator[Note]:
    """A PCIe root that only the driver's own name tells: no other driver's devices can be aligned with it."""
    driver = text(mapping(manifest.v1, "spec"), "driver")
    for index, device in items(mapping(manifest.v1, "spec"), "devices"):
        attributes = mapping(device, "attributes")
        if PCIE_ROOT in attributes:
            continue
        for name, value in attributes.items():
            root = text(value, "string")
            if "pci" in name.lower() and "root" in name.lower() and _PCIE_ROOT.fullmatch(root):
                full = name if "/" in name else f"{driver}/{name}"
                message = (
                    f"device {text(device, 'name')} has {full}, not {PCIE_ROOT}:"
                    " no constraint across drivers meets it"
                )
                path = f"spec.devices[{index}].attributes[{name}]"
                yield note("nonstandard-attribute", message, manifest.where(path))
                return
