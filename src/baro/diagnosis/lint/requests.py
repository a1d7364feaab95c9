"""Requests of claims: alternatives that are never reached, tolerations of nothing, admin access, classes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from baro.cel import DeviceView
from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint import trials
from baro.diagnosis.lint.manifest import CLAIM_KINDS, Manifest, Request, items, mapping, text
from baro.diagnosis.lint.mends import compiled
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run
from baro.diagnosis.lint.selectors import publishes
from baro.diagnosis.lint.thresholds import NEAR
from baro.diagnosis.published import known_drivers
from baro.model.edits import RenameKey, SetValue
from baro.model.quantity import Quantity, QuantityError
from baro.model.validation.resource_claim import ADMIN_LABEL


@rule(*CLAIM_KINDS)
def alternatives(manifest: Manifest, run: Run) -> Iterator[Note]:
    """``firstAvailable``: an alternative after one that asks for less is never taken."""
    if not manifest.dra:
        return
    for index, request in items(manifest.devices, "requests"):
        found = [one for _, one in items(request, "firstAvailable")]
        for later in range(1, len(found)):
            for earlier in range(later):
                if _covers(found[earlier], found[later]) and not _constrained(
                    manifest, request, found[earlier]
                ):
                    first, second = text(found[earlier], "name"), text(found[later], "name")
                    message = f"{second} is never taken: wherever it fits, {first} before it fits too"
                    path = f"{manifest.devices_path}.requests[{index}].firstAvailable[{later}]"
                    yield note("alternative-unreachable", message, manifest.where(path))
                    break


def _covers(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether every set of devices for ``later`` holds one for ``earlier``; judged by the text alone."""
    if text(earlier, "deviceClassName") != text(later, "deviceClassName"):
        return False
    if "All" in (text(earlier, "allocationMode"), text(later, "allocationMode")):
        return False
    counts = [one.get("count") or 1 for one in (earlier, later)]
    if not all(isinstance(count, int) for count in counts) or counts[0] > counts[1]:
        return False
    if not _conditions(earlier) <= _conditions(later):
        return False
    for key in ("capacity", "derivedAttributes"):
        if earlier.get(key) and earlier.get(key) != later.get(key):
            return False
    tolerated = [str(one) for _, one in items(earlier, "tolerations")]
    return all(str(one) in tolerated for _, one in items(later, "tolerations"))


def _conditions(request: dict[str, Any]) -> frozenset[str]:
    """The selectors, split at top-level ``&&`` where that is plainly possible."""
    found: set[str] = set()
    for _, selector in items(request, "selectors"):
        expression = text(selector.get("cel"), "expression")
        parts = expression.split("&&") if "||" not in expression and "?" not in expression else [expression]
        balanced = all(part.count("(") == part.count(")") for part in parts)
        found |= {" ".join(part.split()) for part in (parts if balanced else [expression])}
    return frozenset(found)


def _constrained(manifest: Manifest, request: dict[str, Any], alternative: dict[str, Any]) -> bool:
    """Whether constraints or configs speak of this alternative alone, or tie the request to others."""
    name = text(request, "name")
    full = f"{name}/{text(alternative, 'name')}"
    for _, constraint in items(manifest.devices, "constraints"):
        names = constraint.get("requests")
        if not isinstance(names, list) or not names or {full, name} & set(map(str, names)):
            return True
    return False


@rule(*CLAIM_KINDS)
def tolerations(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Keys in the domain of a known driver that it never sets."""
    if not manifest.dra:
        return
    for request in manifest.requests():
        for index, toleration in items(request.body, "tolerations"):
            key = text(toleration, "key")
            domain = key.partition("/")[0]
            facts = known_drivers().get(domain)
            if facts is None or not facts.taints or key in facts.taints or key in run.catalogue.taints:
                continue
            near = difflib.get_close_matches(key, facts.taints, n=1, cutoff=0.8)
            hint = f"; the nearest is {near[0]}" if near else f"; it sets {', '.join(facts.taints)}"
            path = f"{request.path}.tolerations[{index}].key"
            edits = (SetValue(manifest.steps(path), near[0]),) if near else ()
            message = f"{facts.title} sets no taint {key}{hint}"
            yield note("toleration-unknown", message, manifest.where(path), *edits)


@rule(*CLAIM_KINDS)
def capacities(manifest: Manifest, run: Run) -> Iterator[Note]:
    """``capacity.requests``: a capacity that no device of the class has, or more than any has."""
    if not manifest.dra:
        return
    for request in manifest.requests():
        scope = run.yardstick(request)
        wanted = mapping(request.body, "capacity", "requests")
        if scope is None or not wanted or not all(one.facts.certain for one in scope.drivers.values()):
            continue
        devices = _meant_devices(scope, request)
        for name, value in wanted.items():
            path = f"{request.path}.capacity.requests[{name}]"
            full = {name} if "/" in name else {f"{driver}/{name}" for driver in scope.drivers}
            least = _quantity(value)
            if not full & scope.capacity_names():
                yield _unknown_capacity(manifest, path, name, scope)
            elif least is not None:
                yield from _too_much(manifest, path, value, least, _amounts(devices, full))


def _meant_devices(scope: Catalogue, request: Request) -> tuple[DeviceView, ...]:
    """The typical devices that the selectors let through; those that do not compile let all through."""
    programs = [compiled(expression) for _, expression in request.selectors()]
    return tuple(
        device
        for device in scope.devices
        if all(program is None or trials.matches(program, device) for program in programs)
    )


def _amounts(devices: Iterable[DeviceView], names: set[str]) -> list[tuple[int, str, str]]:
    """(value, as written, product) of one capacity on each device that has it."""
    return [
        (amount.value(), str(amount), trials.product_of(device))
        for device in devices
        for domain, amounts in device.capacity.items()
        for name, amount in amounts.items()
        if f"{domain}/{name}" in names
    ]


def _too_much(
    manifest: Manifest, path: str, value: Any, least: int, have: list[tuple[int, str, str]]
) -> Iterator[Note]:
    """More than any device has, or a little more than one has: GB against GiB."""
    where = manifest.where(path)
    near = [one for one in have if one[0] + 2**20 < least <= one[0] * NEAR and one[0] >= 2**30]
    if near:
        amount, written, product = max(near)
        fits = f"{amount // 2**30}Gi"
        message = f"{product} has {written}, which is less than the {value} asked for; ask for {fits}"
        edit = SetValue(manifest.steps(path), fits)
        yield note("capacity-threshold-unreachable", message, where, edit, replacement=fits)
    elif have and least > max(have)[0]:
        _, written, product = max(have)
        message = f"no device reaches the {value} asked for: {product} has the most, {written}"
        yield note("capacity-threshold-unreachable", message, where)


def _unknown_capacity(manifest: Manifest, path: str, name: str, scope: Catalogue) -> Note:
    domain, _, bare = name.rpartition("/")
    own = sorted(full.rpartition("/")[2] for full in scope.capacity_names())
    near = difflib.get_close_matches(bare, own, n=1, cutoff=0.6)
    title = scope.title_of(domain or next(iter(scope.drivers)))
    hint = f"; the nearest is {near[0]}" if near else f"; it has {', '.join(dict.fromkeys(own))}"
    new = f"{domain}/{near[0]}" if domain and near else near[0] if near else ""
    edits = (RenameKey(manifest.steps(path), new),) if new else ()
    message = f"{title} {publishes(title)} no capacity {name}, so no device can be allocated{hint}"
    return note("unknown-capacity", message, manifest.where(path), *edits)


def _quantity(value: Any) -> int | None:
    try:
        return Quantity.parse(value).value()
    except (QuantityError, TypeError, ValueError):
        return None


@rule(*CLAIM_KINDS)
def admin_access(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Admin access needs a label on the namespace; the server says so when it knows the namespace."""
    namespace = manifest.namespace or "default"
    if not manifest.dra or namespace in run.namespace_labels:
        return
    for request in manifest.requests():
        if request.body.get("adminAccess") is True:
            message = f'adminAccess needs the label {ADMIN_LABEL}: "true" on the namespace {namespace}'
            yield note("admin-access-label", message, manifest.where(f"{request.path}.adminAccess"))


@rule(*CLAIM_KINDS)
def classes(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Classes that are not among those at hand. Without any at hand nothing is known."""
    if not manifest.dra or not run.classes:
        return
    for request in manifest.requests():
        name = request.class_name
        if not name or name in run.classes:
            continue
        near = difflib.get_close_matches(name, sorted(run.classes), n=1, cutoff=0.6)
        have = f"the nearest is {near[0]}" if near else f"there are {', '.join(sorted(run.classes)[:8])}"
        message = f"no DeviceClass {name} among the documents; {have}"
        yield note("class-not-in-files", message, manifest.where(f"{request.path}.deviceClassName"))


@rule(*CLAIM_KINDS)
def mig_classes(manifest: Manifest, run: Run) -> Iterator[Note]:
    """A request that asks whole GPUs for a MIG profile, or MIG devices for nothing but whole memory."""
    for request in manifest.requests() if manifest.dra else ():
        if request.class_name != "gpu.nvidia.com" or "gpu.nvidia.com" in run.classes:
            continue
        for path, expression in request.selectors():
            if "].profile" in expression and "?profile" not in expression and "has(" not in expression:
                message = "devices of the class gpu.nvidia.com are whole GPUs, which have no profile"
                steps = manifest.steps(f"{request.path}.deviceClassName")
                edit = SetValue(steps, "mig.nvidia.com")
                yield note("mig-profile-on-whole-gpu", message, manifest.where(path), edit)


def uses_gpu_driver(manifest: Manifest) -> bool:
    """Whether a claim or template plainly asks for GPUs."""
    wanted = ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com", "gpu.baro.dev", "mig.baro.dev")
    return any(request.class_name in wanted for request in manifest.requests())
