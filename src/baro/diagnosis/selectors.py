"""One CEL selector: does it compile, would it ever match, and what was meant.

Judged by evaluation, not by reading: a selector is run on the typical devices of a catalogue. What is
mended is the text, in the few shapes that people really write; each proposal is compiled before it is
offered.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, Program, compile_selector
from baro.diagnosis.catalogue import Catalogue
from baro.model.quantity import Quantity

MAX_LENGTH: Final = 10 * 1024
"""Limit of the API server in characters (``CELSelectorExpressionMaxLength``)."""

MEANT: Final[Mapping[str, str]] = {"model": "productName", "name": "productName", "product": "productName"}
"""Attribute names that people expect of NVIDIA's driver → what it publishes."""

_QUANTITY_COMPARISON = re.compile(
    r"""(?P<read>device\.capacity\[(?:'[^']*'|"[^"]*")\](?:\.\w+|\[(?:'[^']*'|"[^"]*")\]))
        \s*(?P<operator>>=|<=|==|!=|>|<)\s*
        (?:quantity\(\s*)?(?P<quote>['"]?)(?P<amount>\d+(?:\.\d+)?(?:[KMGTPE]i?|[kmun])?)(?P=quote)
        (?:\s*\))?(?![\w.'"])""",
    re.VERBOSE,
)
_NO_SUCH_KEY = re.compile(r"no such key: ([\w./-]+)")
_MEBI: Final = 1024**2
_NEAR: Final = 1.08
"""A threshold up to this factor above what a card reports was meant for that card (GB against GiB: 7 %)."""
_FAR_ABOVE: Final = Quantity.parse("1Ei")


class SelectorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one expression: (code, message) in the order found, and the mended text."""

    problems: tuple[tuple[str, str], ...] = ()
    line: int | None = None
    """Position of a compile error within the expression, counted from 1."""
    column: int | None = None
    mended: str | None = None


def inspect(expression: str, catalogue: Catalogue) -> SelectorReport:
    """All problems of one selector in one go: what is behind a syntax error is looked at too."""
    problems: list[tuple[str, str]] = []
    line = column = None
    if len(expression) > MAX_LENGTH:
        problems.append(
            ("cel-too-long", f"the expression has {len(expression)} characters, the limit is {MAX_LENGTH}")
        )
    mended = expression
    try:
        program: Program | None = compile_selector(expression)
    except CelCompileError as error:
        syntax = "Syntax error" in error.message
        problems.append(("cel-syntax" if syntax else "cel-compile", headline(error.message)))
        line, column = error.line, error.column
        mended = mend_quantities(expression)
        program = _try_compile(mended)
    if program is not None:
        found, mended = _unknown_names(mended, catalogue)
        problems += found
        unreachable, mended = _unreachable(mended, catalogue)
        problems += unreachable
    offered = mended if mended != expression and _try_compile(mended) is not None else None
    return SelectorReport(problems=tuple(problems), line=line, column=column, mended=offered)


def headline(message: str) -> str:
    """The first line of a compile error, without the picture of the source below it."""
    return message.splitlines()[0] if message else message


def mend_quantities(expression: str) -> str:
    """Comparisons of a capacity by operator, in the form that quantities have: ``compareTo``."""

    def rewrite(match: re.Match[str]) -> str:
        return f"{match['read']}.compareTo(quantity('{match['amount']}')) {match['operator']} 0"

    return _QUANTITY_COMPARISON.sub(rewrite, expression)


def _try_compile(expression: str) -> Program | None:
    try:
        return compile_selector(expression)
    except CelCompileError:
        return None


# --- names that nobody publishes -------------------------------------------------------------------------


def _unknown_names(expression: str, catalogue: Catalogue) -> tuple[list[tuple[str, str]], str]:
    """Reads that fail on every device that could be meant. Guarded reads do not fail and are fine."""
    problems: list[tuple[str, str]] = []
    reported: set[str] = set()
    for _ in range(8):  # one name is mended at a time, since evaluation stops at the first
        missing = _first_missing(expression, catalogue)
        if missing is None or missing[1] in reported:
            break
        domain, name, is_attribute = missing
        reported.add(name)
        mended, suggestion = _mend_name(expression, domain, name, catalogue, is_attribute)
        what = "attribute" if is_attribute else "capacity"
        code = "unknown-attribute" if is_attribute else "unknown-capacity"
        hint = f"; {suggestion}" if suggestion else ""
        problems.append((code, f"{catalogue.title} publishes no {what} {domain}/{name}{hint}"))
        if mended == expression:
            break
        expression = mended
    return problems, expression


def _first_missing(expression: str, catalogue: Catalogue) -> tuple[str, str, bool] | None:
    """(domain, name, is attribute) of a read that fails on every known device it could be meant for."""
    program = _try_compile(expression)
    if program is None or program.columns is None:
        return None
    attributes, capacities = catalogue.attribute_names(), catalogue.capacity_names()
    for column in sorted(program.columns, key=lambda ref: (ref.kind, ref.domain, ref.name)):
        if column.kind not in ("attribute", "capacity") or not catalogue.knows_domain(column.domain):
            continue
        known = attributes if column.kind == "attribute" else capacities
        if f"{column.domain}/{column.name}" in known:
            continue
        if _fails_on(program, column.name, catalogue):
            return column.domain, column.name, column.kind == "attribute"
    return None


def _fails_on(program: Program, name: str, catalogue: Catalogue) -> bool:
    for device in catalogue.devices:
        try:
            program.evaluate(device)
        except CelRuntimeError as error:
            match = _NO_SUCH_KEY.search(str(error))
            if match and match.group(1) == name:
                return True
    return False


def _mend_name(
    expression: str, domain: str, name: str, catalogue: Catalogue, is_attribute: bool
) -> tuple[str, str]:
    """The expression with the name that was meant, and the words for it; unchanged when nothing is near."""
    published = {
        full.rpartition("/")[2]
        for full in (catalogue.attribute_names() if is_attribute else catalogue.capacity_names())
        if full.rpartition("/")[0] == domain
    }
    meant = MEANT.get(name)
    if is_attribute and meant in published:
        read = (
            rf"(device\.attributes\[(?:'{re.escape(domain)}'|\"{re.escape(domain)}\")\])\.{re.escape(name)}\b"
        )
        equals = re.compile(read + r"""\s*==\s*('[^']*'|"[^"]*")""")
        if equals.search(expression):
            mended = equals.sub(rf"\1.{meant}.contains(\2)", expression)
        else:
            mended = re.sub(read, rf"\1.{meant}", expression)
        return mended, f"use {meant}"
    near = difflib.get_close_matches(name, sorted(published), n=1, cutoff=0.75)
    if near:
        return re.sub(rf"\.{re.escape(name)}\b", f".{near[0]}", expression), f"the nearest is {near[0]}"
    return expression, f"it publishes {', '.join(sorted(published))}" if published else ""


# --- thresholds that nobody reaches ----------------------------------------------------------------------


class _Miss(msgspec.Struct, frozen=True):
    """A device that would match if it had ``want_mib`` of memory; it has ``have_mib``."""

    product: str
    want_mib: int
    have_mib: int


def _unreachable(expression: str, catalogue: Catalogue) -> tuple[list[tuple[str, str]], str]:
    """A memory threshold that a device just misses (80Gi on one that reports 81559Mi), or that all miss."""
    program = _try_compile(expression)
    if program is None or program.columns is None:
        return [], expression
    domains = {ref.domain for ref in program.columns if ref.kind == "capacity" and ref.name == "memory"}
    if len(domains) != 1:
        return [], expression
    (domain,) = domains
    matched = any(_matches(program, device) for device in catalogue.devices)
    misses = [miss for device in catalogue.devices if (miss := _miss(program, device, domain)) is not None]
    near = [miss for miss in misses if miss.want_mib <= miss.have_mib * _NEAR]
    if not near and (matched or not misses):
        return [], expression
    miss = min(near or misses, key=lambda item: (item.want_mib - item.have_mib, item.product))
    want = f"{miss.want_mib // 1024}Gi" if miss.want_mib % 1024 == 0 else f"{miss.want_mib}Mi"
    message = f"{miss.product} reports {miss.have_mib}Mi of memory, which is less than the {want} asked for"
    if not near:
        return [("capacity-threshold-unreachable", f"no device reaches it: {message}")], expression
    fits = f"{miss.have_mib // 1024}Gi"
    mended = re.sub(rf"""quantity\((['"]){re.escape(want)}\1\)""", rf"quantity(\g<1>{fits}\g<1>)", expression)
    return [("capacity-threshold-unreachable", f"{message}; ask for {fits}")], mended


def _miss(program: Program, device: DeviceView, domain: str) -> _Miss | None:
    """What memory would make the device match; ``None`` when it matches, or memory is not what it lacks."""
    have = device.capacity.get(domain, {}).get("memory")
    if have is None or _matches(program, device):
        return None
    if not _matches(program, _with_memory(device, domain, _FAR_ABOVE)):
        return None
    have_mib = have.value() // _MEBI
    product = next(
        (str(names["productName"]) for names in device.attributes.values() if "productName" in names),
        "the device",
    )
    return _Miss(product, _threshold(program, device, domain, have_mib), have_mib)


def _matches(program: Program, device: DeviceView) -> bool:
    try:
        return program.evaluate(device)
    except CelRuntimeError:
        return False


def _with_memory(device: DeviceView, domain: str, memory: Quantity) -> DeviceView:
    capacity = {**device.capacity, domain: {**device.capacity.get(domain, {}), "memory": memory}}
    return DeviceView(
        driver=device.driver,
        attributes=device.attributes,
        capacity=capacity,
        allow_multiple_allocations=device.allow_multiple_allocations,
    )


def _threshold(program: Program, device: DeviceView, domain: str, low: int) -> int:
    """The least memory in MiB with which the device would match (bisection; ``low`` does not match)."""
    high = max(low * 2, 1)
    while not _matches(program, _with_memory(device, domain, Quantity.parse(f"{high}Mi"))):
        high *= 2
        if high > 2**40:
            return high
    while high - low > 1:
        middle = (low + high) // 2
        if _matches(program, _with_memory(device, domain, Quantity.parse(f"{middle}Mi"))):
            high = middle
        else:
            low = middle
    return high
