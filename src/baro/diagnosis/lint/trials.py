"""Selectors tried on typical devices: what they would do in kube-scheduler. No text is changed here."""

from __future__ import annotations

import re

from baro.cel import CelRuntimeError, DeviceView, Program, compile_selector
from baro.cel.ast import Call
from baro.diagnosis.catalogue import OWN, Catalogue
from baro.diagnosis.lint import reads
from baro.diagnosis.lint.reads import Read

_NO_SUCH_KEY = re.compile(r"no such key: ([\w./-]+)")
FOREIGN = DeviceView(driver="another-driver.example.com")
"""A device of a driver that nobody thought of when the selector was written."""


def matches(program: Program, device: DeviceView) -> bool:
    """Whether the device is selected; an error is no match."""
    try:
        return program.evaluate(device)
    except CelRuntimeError:
        return False


def error_on(program: Program, device: DeviceView) -> str | None:
    """The scheduler's words for what goes wrong on the device."""
    try:
        program.evaluate(device)
    except CelRuntimeError as error:
        return error.message
    return None


def missing_on(program: Program, device: DeviceView) -> str | None:
    """The name of the value whose lack is an error on the device."""
    found = _NO_SUCH_KEY.search(error_on(program, device) or "")
    return found[1] if found else None


def product_of(device: DeviceView) -> str:
    """What to call the device in a message: its MIG profile, its product, or nothing better."""
    for name in ("profile", "productName"):
        for own in device.attributes.values():
            if name in own:
                return str(own[name])
    return "the device"


def fails_on(program: Program, name: str, scope: Catalogue) -> bool:
    """Whether reading ``name`` is an error on some device."""
    return any(missing_on(program, device) == name for device in scope.devices)


def whole_devices(catalogue: Catalogue, expression: str) -> Catalogue:
    """For a selector that may meet any device: MIG devices only count where it speaks of them."""
    if re.search(r"\bmig\b|profile", expression, re.IGNORECASE) or catalogue.measured:
        return catalogue
    kept = {
        driver: tuple(
            device
            for device in one.devices
            if all(names.get("type") != "mig" for names in device.attributes.values())
        )
        for driver, one in catalogue.drivers.items()
    }
    return catalogue.narrowed(kept)


def measured_lack(program: Program, read: Read, scope: Catalogue) -> bool:
    """Whether some device of slices given lacks what is read, so that evaluation fails there."""
    for one in scope.drivers.values():
        if one.measured and any(missing_on(program, device) == read.name for device in one.devices):
            return True
    return False


def always_fails(program: Program, scope: Catalogue) -> str | None:
    """The error, where evaluation ends in one on every device there is."""
    errors = [error_on(program, device) for device in scope.devices]
    if not errors or any(error is None for error in errors) or program.columns is None:
        return None
    first = errors[0]
    return None if first is None or _NO_SUCH_KEY.search(first) else first


def matches_nothing(text: str, program: Program, scope: Catalogue) -> str | None:
    """The words for it, where none of the devices given is selected; None where that cannot be known.

    A selector that reads what every device has for itself (a UUID) cannot be judged on typical devices.
    """
    drivers = scope.drivers.values()
    if not scope.devices or not all(one.measured and one.complete for one in drivers):
        return None
    if program.columns is None or any(column.name in OWN for column in program.columns):
        return None
    if any(matches(program, device) for device in scope.devices):
        return None
    count = sum(one.count for one in drivers)
    message = f"none of the {count} devices in the ResourceSlices given matches"
    for start, end in _parts(program):
        part = text[start:end]
        alone = compile_selector(part)
        if not any(matches(alone, device) for device in scope.devices):
            return f"{message}: no device has {part}"
    return f"{message}: each condition is met by some device, all together by none"


def never(text: str, program: Program, scope: Catalogue) -> str | None:
    """The words for it, where a selector that asks for driver and type alone lets no device of the class
    through. Both are known for certain, without any slices."""
    certain = bool(scope.drivers) and all(one.facts.certain for one in scope.drivers.values())
    if not certain or scope.measured or not scope.devices or program.columns is None:
        return None
    if any(column.kind != "driver" and column.name != "type" for column in program.columns):
        return None
    if any(error_on(program, one) is not None or matches(program, one) for one in scope.devices):
        return None
    types = {str(own["type"]) for one in scope.devices for own in one.attributes.values() if "type" in own}
    return (
        f"no device that the class lets through matches {text.strip()}: they are of"
        f" {' and '.join(sorted(scope.drivers))}, type {' and '.join(sorted(types))}"
    )


def _parts(program: Program) -> list[tuple[int, int]]:
    tree = program.tree
    if isinstance(tree, Call) and tree.function == "_&&_":
        return [(part.start, part.end) for part in tree.args if part.start >= 0]
    return [(tree.start, tree.end)] if tree.start >= 0 else []


def unguarded(expressions: tuple[str, ...]) -> tuple[int, str, str] | None:
    """(index, missing name, its domain) of the first selector that fails on another driver's device.

    Selectors are ANDed and evaluated in order; the first that is false ends it.
    """
    for index, text in enumerate(expressions):
        program = compile_selector(text)
        missing = missing_on(program, FOREIGN)
        if missing is not None:
            read = next((one for one in reads.of(program.tree).reads if one.name == missing), None)
            return (index, missing, read.domain) if read is not None else None
        if not matches(program, FOREIGN):
            return None
    return None
