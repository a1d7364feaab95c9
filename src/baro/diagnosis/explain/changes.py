"""Changes to claims and pools that a what-if question may try, and how each is applied.

A ``Change`` names what is changed exactly; ``applied`` makes the changed claims. What is worth trying comes
from the funnels and from what devices publish; whether it helps is for the allocator to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

import msgspec

from baro.allocator.plan import Alternative, Plan
from baro.allocator.problem import NodeProblem, bits
from baro.cel import CelRuntimeError, Clause
from baro.cel.device import ColumnRef
from baro.diagnosis.explain import eyes
from baro.diagnosis.explain.answer import without_constraints, without_wish
from baro.diagnosis.explain.funnel import untolerated
from baro.diagnosis.explain.result import Change, MissKind
from baro.diagnosis.explain.values import column_of, name_of, program_of
from baro.diagnosis.explain.world import near
from baro.inventory import claim_name
from baro.inventory.cel_table import CelTable
from baro.model.kinds.resource import (
    CELDeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from baro.model.pods import scaled

Request = TypeVar("Request", ExactDeviceRequest, DeviceSubRequest)
_MOST_PROPOSALS = 3
"""Replacements tried for one selector."""


def applied(claims: Iterable[ResourceClaim], changes: Iterable[Change]) -> list[ResourceClaim]:
    """The claims with the changes that concern them; releases, pools and nodes change no claim."""
    found = list(claims)
    for change in changes:
        for number, claim in enumerate(found):
            if claim_name(claim) == change.claim:
                found[number] = _applied(claim, change)
    return found


def _applied(claim: ResourceClaim, change: Change) -> ResourceClaim:
    match change.kind:
        case MissKind.CONSTRAINT if change.value is None:
            return without_constraints(claim, change.index)
        case MissKind.CONSTRAINT:
            return _with_attribute(claim, change.index, change.value or "")
        case MissKind.TOPOLOGY:
            return without_wish(claim)
        case MissKind.RELEASE | MissKind.POOL | MissKind.NODE:
            return claim
    return _with_requests(claim, change)


def _with_attribute(claim: ResourceClaim, index: int, attribute: str) -> ResourceClaim:
    constraints = list(claim.spec.devices.constraints)
    old = constraints[index]
    key = "match_attribute" if old.match_attribute is not None else "distinct_attribute"
    constraints[index] = msgspec.structs.replace(old, **{key: attribute})
    return _with_devices(claim, constraints=tuple(constraints))


def _with_devices(claim: ResourceClaim, **parts: object) -> ResourceClaim:
    devices = msgspec.structs.replace(claim.spec.devices, **parts)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))


def _with_requests(claim: ResourceClaim, change: Change) -> ResourceClaim:
    name, _, sub = change.request.partition("/")
    requests = []
    for request in claim.spec.devices.requests:
        if request.name != name:
            requests.append(request)
        elif not sub and request.exactly is not None:
            requests.append(msgspec.structs.replace(request, exactly=_changed(request.exactly, change)))
        else:
            subs = tuple(
                _changed(item, change) if item.name == sub else item for item in request.first_available
            )
            requests.append(msgspec.structs.replace(request, first_available=subs))
    return _with_devices(claim, requests=tuple(requests))


def _changed(request: Request, change: Change) -> Request:
    match change.kind:
        case MissKind.SELECTOR:
            selectors = list(request.selectors)
            if change.value is None:
                del selectors[change.index]
            else:
                cel = CELDeviceSelector(expression=change.value)
                selectors[change.index] = msgspec.structs.replace(selectors[change.index], cel=cel)
            return msgspec.structs.replace(request, selectors=tuple(selectors))
        case MissKind.TOLERATE:
            toleration = DeviceToleration(key=change.key, operator="Exists")
            return msgspec.structs.replace(request, tolerations=(*request.tolerations, toleration))
        case MissKind.CLASS:
            return msgspec.structs.replace(request, device_class_name=change.value or "")
        case MissKind.COUNT:
            return msgspec.structs.replace(request, count=int(change.value or 1))
        case MissKind.CAPACITY if request.capacity is not None:
            wanted = {k: v for k, v in request.capacity.requests.items() if k != change.key}
            if change.value is not None:
                wanted[change.key] = change.value
            capacity = msgspec.structs.replace(request.capacity, requests=wanted)
            return msgspec.structs.replace(request, capacity=capacity)
    return request


# --- what is worth trying -----------------------------------------------------------------------------------


def worth_trying(problem: NodeProblem, plan: Plan) -> Iterator[Change]:
    """Single changes to the claims that might help on a node, the smallest first."""
    for claim in plan.claims:
        for request in claim.requests:
            for alternative in request.alternatives:
                if alternative.refusal is None:
                    yield from _tolerations(problem, claim.name, alternative)
                    yield from _selectors(problem, claim.name, alternative)
                    yield from _capacities(problem, claim.name, alternative)
        for index, constraint in enumerate(claim.constraints):
            for attribute in _alike(problem, constraint.attribute):
                yield Change(kind=MissKind.CONSTRAINT, claim=claim.name, index=index, value=attribute)
            yield Change(kind=MissKind.CONSTRAINT, claim=claim.name, index=index)
        if claim.topology == "required":
            yield Change(kind=MissKind.TOPOLOGY, claim=claim.name)


def _tolerations(problem: NodeProblem, claim: str, alternative: Alternative) -> Iterator[Change]:
    keys: dict[str, None] = {}
    for device in range(problem.size):
        for taint in untolerated(problem, alternative, device):
            keys[re.split("[=:]", taint, maxsplit=1)[0]] = None
    for key in keys:
        yield Change(kind=MissKind.TOLERATE, claim=claim, request=alternative.name, key=key)


def _capacities(problem: NodeProblem, claim: str, alternative: Alternative) -> Iterator[Change]:
    """Each capacity asked for: the most that a device publishes, then none of it at all."""
    for name, raw in alternative.capacity.items():
        published = {
            str(values[full][0])
            for device in range(problem.size)
            if (full := "/".join(problem.inventory.table.qualified(problem.keys[device].driver, name)))
            in (values := eyes.capacities(problem, device))
        }
        less = [value for value in published if (scaled(value) or 0) < (scaled(raw) or 0)]
        if less:
            most = max(less, key=lambda value: scaled(value) or 0)
            yield Change(kind=MissKind.CAPACITY, claim=claim, request=alternative.name, key=name, value=most)
        yield Change(kind=MissKind.CAPACITY, claim=claim, request=alternative.name, key=name)


def _alike(problem: NodeProblem, attribute: str) -> Iterator[str]:
    """Published attributes that a constraint may have meant; none if its own is published."""
    published = {
        "/".join(name) for row in problem.rows for name, _ in problem.inventory.table.attributes_of(row)
    }
    if attribute in published:
        return
    short = attribute.rpartition("/")[2]
    same = sorted(name for name in published if name.rpartition("/")[2].casefold() == short.casefold())
    by_short: dict[str, str] = {}
    for name in sorted(published):
        by_short.setdefault(name.rpartition("/")[2], name)
    yield from dict.fromkeys([*same, *(by_short[name] for name in near(short, by_short))])


# --- selectors ----------------------------------------------------------------------------------------------


def _selectors(problem: NodeProblem, claim: str, alternative: Alternative) -> Iterator[Change]:
    of_class = sum(selector.place.startswith("class ") for selector in alternative.selectors)
    for index, selector in enumerate(alternative.selectors[of_class:]):
        proposals = islice(_meant(problem, selector.expression), _MOST_PROPOSALS)
        for value in (*proposals, None):
            yield Change(
                kind=MissKind.SELECTOR, claim=claim, request=alternative.name, index=index, value=value
            )


def _meant(problem: NodeProblem, expression: str) -> Iterator[str]:
    """The expression with one literal or name replaced by what the devices publish, nearest first."""
    program = program_of(expression)
    if program is None:
        return
    table = CelTable(problem.inventory.table)
    seen: dict[str, None] = {}
    for device in bits(problem.usable):
        try:
            clauses = program.explain(table.view(problem.rows[device]))
        except CelRuntimeError:
            continue
        for clause in clauses:
            if clause.value is not True and not clause.parts:
                for text in _rewritten(problem, clause):
                    whole = expression[: clause.start] + text + expression[clause.end :]
                    if whole not in seen:
                        seen[whole] = None
                        yield whole


_STRING = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_QUANTITY = re.compile(r"quantity\(\s*(['\"])([^'\"]*)\1\s*\)")
_INTEGER = re.compile(r"(?<![\w.'\"])-?\d+(?![\w.'\"])")


def _rewritten(problem: NodeProblem, clause: Clause) -> Iterator[str]:
    for reading in clause.reads:
        if reading.column.kind == "attribute" and reading.value is None:
            yield from _renamed(problem, clause.text, reading.column)
        elif reading.column.kind == "attribute":
            yield from _revalued(problem, clause.text, reading.column)
        elif reading.column.kind == "capacity" and reading.value is not None:
            yield from _QUANTITY.subn(f"quantity('{reading.value}')", clause.text)[:1]


def _renamed(problem: NodeProblem, text: str, ref: ColumnRef) -> Iterator[str]:
    """Another attribute of the same name in another domain, or of a similar name in the same domain."""
    published = {name for row in problem.rows for name, _ in problem.inventory.table.attributes_of(row)}
    for domain, name in sorted(published):
        if name == ref.name and domain != ref.domain:
            yield re.sub(rf"(['\"]){re.escape(ref.domain)}\1", f"'{domain}'", text)
    for close in near(ref.name, (name for domain, name in published if domain == ref.domain)):
        yield re.sub(rf"\b{re.escape(ref.name)}\b", close, text)


def _revalued(problem: NodeProblem, text: str, ref: ColumnRef) -> Iterator[str]:
    """The literal that is compared replaced by a published value."""
    column = column_of(problem.inventory.table, ref)
    values = [] if column is None else [item for row in problem.rows if (item := column.value(row))]
    published = {str(content): kind for kind, content in values if kind in ("string", "int", "bool")}
    for found in (*_STRING.finditer(text), *_INTEGER.finditer(text)):
        literal = found[1] or found[2] if found.re is _STRING else found[0]
        if literal is None or literal == ref.domain or f"/{literal}" in name_of(ref):
            continue
        inside = [value for value in published if literal and literal.casefold() in value.casefold()]
        for value in dict.fromkeys([*sorted(inside), *near(literal, published)]):
            kind = published[value]
            written = f"'{value}'" if kind == "string" else value.lower() if kind == "bool" else value
            yield text[: found.start()] + written + text[found.end() :]
