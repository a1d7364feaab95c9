"""Constants in a selector: types that never agree, versions taken for text, values that nobody has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from baro.cel import DeviceView, Value
from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint import trials
from baro.diagnosis.lint.found import Found
from baro.diagnosis.lint.mends import amount, compiled
from baro.diagnosis.lint.reads import Comparison, Reads
from baro.diagnosis.published import mig_profile_names
from baro.model.names import DRIVER, NVIDIA_DRIVER
from baro.model.quantity import Quantity, QuantityError, is_quantity
from baro.model.semver import SemVer, SemVerError

_AGREE: Final = {
    "int": ("int", "uint", "double"), "bool": ("bool",), "string": ("string",), "version": (),
    "ints": (), "bools": (), "strings": (), "versions": (),
}  # fmt: skip
"""Type of an attribute → types of constants that may equal it. A list equals no single value."""
_EXAMPLES: Final[Mapping[str, Value]] = {
    "int": -(10**15), "bool": True, "string": "\x00", "version": SemVer.parse("0.0.1-none"),
    "ints": (1,), "bools": (True,), "strings": ("\x00",), "versions": (SemVer.parse("0.0.1"),),
}  # fmt: skip
"""Type → a value that no constant equals."""
_METHODS: Final = {"==": "== 0", "!=": "!= 0", "<": "< 0", "<=": "<= 0", ">": "> 0", ">=": ">= 0"}


def constants(text: str, found: Reads) -> Iterator[Found]:
    """``quantity('80 Gi')`` and ``semver('1.2')`` compile, and fail on every device."""
    for call in found.constants:
        quote = text[call.start]
        if call.function == "quantity":
            try:
                Quantity.parse(call.value)
            except QuantityError:
                meant = amount(call.value)
                new = f"{quote}{meant}{quote}" if meant != call.value and is_quantity(meant) else None
                message = (
                    f"quantity({text[call.start : call.end]}) is an error on every device: not a quantity"
                )
                yield Found("cel-runtime-error", message, call.start, call.end, new)
        elif not _is_version(call.value):
            new_version = full_version(call.value)
            new = f"{quote}{new_version}{quote}" if new_version else None
            message = (
                f"semver({text[call.start : call.end]}) is an error on every device: not a version like 1.2.3"
            )
            yield Found("cel-runtime-error", message, call.start, call.end, new)


def _is_version(text: str) -> bool:
    try:
        SemVer.parse(text)
    except SemVerError:
        return False
    return True


def full_version(text: str) -> str | None:
    """``570.86`` and ``570.133.20.1`` as a version: three numbers without leading zeros."""
    match = re.fullmatch(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:\.\d+)*", text.strip())
    if match is None:
        return None
    return ".".join(str(int(part or 0)) for part in match.groups())


def comparisons(text: str, found: Reads, scope: Catalogue) -> Iterator[Found]:
    """Comparisons that have the same outcome on every device, or an error."""
    for comparison in found.comparisons:
        read = comparison.read
        published = scope.attribute(read.full) if read.kind == "attribute" else None
        if published is None or not published.types:
            continue
        if published.types == {"version"}:
            yield from _version(text, comparison)
        elif comparison.type and not any(
            comparison.type in _AGREE.get(kind, (comparison.type,)) for kind in published.types
        ):
            yield _mismatch(text, comparison, min(published.types, key=lambda kind: (len(kind), kind)))
        elif published.values and comparison.operator in ("==", "in") and not scope.measured:
            yield from _values(text, comparison, published.values)
        elif read.full in (f"{NVIDIA_DRIVER}/profile", f"{DRIVER}/profile"):
            yield from _profiles(text, comparison)


def _version(text: str, comparison: Comparison) -> Iterator[Found]:
    """A version is no text: comparing the two, also in a list of constants, is an error in kube-scheduler."""
    read = comparison.read
    written = text[read.start : read.end]
    versions = [full_version(value) if isinstance(value, str) else None for value in comparison.values]
    shown = text[slice(*comparison.literal)]
    always = _always(text, comparison, "version")
    message = f"{read.full} is a version and {shown} is not: the comparison {always} on every device"
    new = None
    if all(versions):
        tests = [f"{written}.compareTo(semver('{version}'))" for version in versions]
        if comparison.operator in _METHODS:
            new = f"{tests[0]} {_METHODS[comparison.operator]}"
        else:
            new = "(" + " || ".join(f"{test} == 0" for test in tests) + ")"
    yield Found("version-compare", message, comparison.start, comparison.end, new)


def _mismatch(text: str, comparison: Comparison, published: str) -> Found:
    start, end = comparison.literal
    shown = text[start:end]
    always = f"{_always(text, comparison, published)} on every device"
    message = (
        f"{comparison.read.full} is {_article(published)} and {shown} {_verb(comparison)} {comparison.type}:"
        f" the comparison {always}"
    )
    converted = [_converted(value, published) for value in comparison.values]
    new = None
    if all(value is not None for value in converted):
        new = ", ".join(str(value) for value in converted)
        new = f"[{new}]" if comparison.operator == "in" else new
    return Found("type-mismatch", message, start, end, new)


def _always(text: str, comparison: Comparison, published: str) -> str:
    """What the comparison comes to, by trying it on a device that has such a value."""
    read = comparison.read
    attributes = {read.domain: {read.name: _EXAMPLES[published]}}
    device = DeviceView(driver="example.com", attributes=attributes)
    program = compiled(text[comparison.start : comparison.end])
    if program is None:
        return "has the same outcome"
    if trials.error_on(program, device) is not None:
        return "is an error"
    return "is true" if trials.matches(program, device) else "is false"


def _verb(comparison: Comparison) -> str:
    return "holds" if comparison.operator == "in" else "is"


def _article(published: str) -> str:
    return f"{'an' if published[0] in 'aeiou' else 'a'} {published}"


def _converted(value: Any, published: str) -> str | None:
    """The constant in the published type."""
    if published == "int" and isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return str(int(value))
    if published == "bool" and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower()
    if published == "string" and isinstance(value, int) and not isinstance(value, bool):
        return f"'{value}'"
    return None


def _values(text: str, comparison: Comparison, known: frozenset[str]) -> Iterator[Found]:
    start, end = comparison.literal
    for value in comparison.values:
        if not isinstance(value, str) or value in known:
            continue
        near = _nearest(value, known)
        hint = f"; the nearest is {near}" if near else f"; it is one of {', '.join(sorted(known))}"
        message = f"{comparison.read.full} is never {value!r}{hint}"
        new = text[start:end].replace(value, near) if near else None
        yield Found("attribute-value-unknown", message, start, end, new)


def _profiles(text: str, comparison: Comparison) -> Iterator[Found]:
    known = mig_profile_names()
    start, end = comparison.literal
    if comparison.operator not in ("==", "in"):
        return
    for value in comparison.values:
        if not isinstance(value, str) or value in known:
            continue
        near = _nearest(value.removeprefix("mig-").removeprefix("MIG "), known)
        hint = f"; the nearest is {near}" if near else ""
        message = f"no GPU has a MIG profile {value!r}{hint}"
        new = text[start:end].replace(value, near) if near and near.casefold() in value.casefold() else None
        yield Found("unknown-mig-profile", message, start, end, new)


def _nearest(value: str, known: frozenset[str]) -> str | None:
    folded = {name.casefold(): name for name in known}
    if value.casefold() in folded:
        return folded[value.casefold()]
    near = difflib.get_close_matches(value.casefold(), sorted(folded), n=1, cutoff=0.7)
    return folded[near[0]] if near else None
