"""Rules for what a claim asks for: requests, constraints, configs, and the selectors and tolerations in them.

Whether a CEL expression compiles is asked of the caller (``CheckCel``): this room knows no CEL. Bodies are
prepared (see ``prepare``): defaults are set, fields of gates that are off are gone. Source:
``pkg/apis/resource/validation`` and the declared rules of ``pkg/apis/resource/v1`` in Kubernetes 1.37.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from baro.model.validation.causes import Cause, Problems
from baro.model.validation.device import effects
from baro.model.validation.names import (
    byte_size,
    check_driver_declared,
    check_fully_qualified,
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
)


class CheckCel(Protocol):
    """Judges an expression: adds causes if it does not compile, is of the wrong type or costs too much."""

    def __call__(self, problems: Problems, path: str, expression: str, /, *, derived: bool = False) -> int:
        """``derived``: it makes an attribute instead of selecting devices. Gives the estimated cost, 0 for
        what does not compile."""


MAX_REQUESTS: Final = 32
"""Also the limit of constraints, configs, selectors and derived attributes."""
MAX_FIRST_AVAILABLE: Final = 8
MAX_CEL_BYTES: Final = 10 * 1024
MAX_DERIVED_COST: Final = 1_000_000
"""What all derived attributes of a claim together may cost by their estimates."""
MAX_PARAMETERS_BYTES: Final = 10 * 1024

_UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_ONE_REQUEST: Final = "exactly one of `exactly` or `firstAvailable` is required"
_NO_CONSTRAINT: Final = (
    # The words are the server's: it says "multiple" where none is set.
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)


def check_claim_spec(problems: Problems, spec: Mapping[str, Any], path: str, cel: CheckCel | None) -> None:
    """``spec`` of a claim, or of a template's claim, at ``path``."""
    devices = spec.get("devices", {})
    path = f"{path}.devices"
    costs: list[int] = []
    judge = None if cel is None else _adding_costs(cel, costs)
    requests, constraints, configs = (devices.get(key, ()) for key in ("requests", "constraints", "config"))
    names = RequestNames(requests)
    if not problems.declared.too_many(f"{path}.requests", len(requests), MAX_REQUESTS):
        declarative = problems.rules.declarative  # declared rules look at the list first, then at its items
        if declarative:
            problems.duplicate_items(requests, f"{path}.requests", "DeviceRequest", _name)
        for index, request in enumerate(requests):
            _check_request(problems, request, f"{path}.requests[{index}]", judge, constraints)
        if not declarative:
            problems.duplicate_items(requests, f"{path}.requests", "DeviceRequest", _name)
    if not problems.declared.too_many(f"{path}.constraints", len(constraints), MAX_REQUESTS):
        for index, constraint in enumerate(constraints):
            _check_constraint(problems, constraint, f"{path}.constraints[{index}]", names)
    if not problems.declared.too_many(f"{path}.config", len(configs), MAX_REQUESTS):
        for index, config in enumerate(configs):
            place = f"{path}.config[{index}]"
            check_references(problems, config.get("requests", ()), f"{place}.requests", names)
            check_opaque(problems, config, place)
    if sum(costs) % 2**64 > MAX_DERIVED_COST:  # Go's sum of uint64 wraps
        text = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
        problems.forbidden(path, text)


def _adding_costs(cel: CheckCel, costs: list[int]) -> CheckCel:
    """``cel``, with the costs of derived attributes noted."""

    def judge(problems: Problems, path: str, expression: str, /, *, derived: bool = False) -> int:
        cost = cel(problems, path, expression, derived=derived)
        if derived:
            costs.append(cost)
        return cost

    return judge


class RequestNames:
    """What constraints, configs and results may refer to: ``request`` and ``request/subrequest``."""

    def __init__(self, requests: Sequence[Mapping[str, Any]]) -> None:
        self._subs = {
            request.get("name", ""): {sub.get("name", "") for sub in request.get("firstAvailable", ())}
            for request in requests
        }

    def check(self, problems: Problems, reference: str, path: str) -> None:
        """One reference: well-formed, and to something that is there."""
        segments = reference.split("/")
        if len(segments) <= 2:
            for segment in segments:
                problems.invalid(path, segment, *dns_label(segment))
        if reference not in self:
            problems.invalid(path, reference, _UNKNOWN_REQUEST)

    def __contains__(self, reference: str) -> bool:
        request, slash, sub = reference.partition("/")
        return request in self._subs and (not slash or sub in self._subs[request])


def _check_request(
    problems: Problems,
    request: Mapping[str, Any],
    path: str,
    cel: CheckCel | None,
    constraints: Sequence[Mapping[str, Any]],
) -> None:
    name = request.get("name", "")
    problems.invalid(f"{path}.name", name, *dns_label(name))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable", ())
    if exactly is None and not alternatives:
        problems.required(path, _ONE_REQUEST)
        return
    if exactly is not None and alternatives:
        if not problems.rules.since("1.35"):  # which looked at both all the same
            _check_alternatives(problems, request, path, cel, constraints)
            _check_exact(problems, exactly, f"{path}.exactly", cel)
        problems.invalid(path, None, f"{_ONE_REQUEST}, but multiple fields are set")
        if problems.rules.declarative:
            problems.declared.absorb(_declared_of_both(problems, request, path, constraints))
    elif exactly is not None:
        _check_exact(problems, exactly, f"{path}.exactly", cel)
        _check_derived(problems, exactly, f"{path}.exactly", cel, _named(constraints, name))
    else:
        _check_alternatives(problems, request, path, cel, constraints)


def _declared_of_both(
    problems: Problems, request: Mapping[str, Any], path: str, constraints: Sequence[Mapping[str, Any]]
) -> tuple[Cause, ...]:
    """What declared rules say of a request that has both forms, in the order of its version's fields."""
    found, exactly = Problems(problems.rules), request["exactly"]
    tolerations: Sequence[Mapping[str, Any]] = ()
    if problems.rules.version == "v1beta1":  # there they come after the alternatives
        tolerations = exactly.get("tolerations", ())
        exactly = {name: value for name, value in exactly.items() if name != "tolerations"}
    _check_exact(found, exactly, f"{path}.exactly", None)
    _check_alternatives(found, request, path, None, constraints)
    for index, toleration in enumerate(tolerations):
        check_toleration(found, toleration, f"{path}.exactly.tolerations[{index}]")
    return found.declared.causes


def _check_alternatives(
    problems: Problems,
    request: Mapping[str, Any],
    path: str,
    cel: CheckCel | None,
    constraints: Sequence[Mapping[str, Any]],
) -> None:
    alternatives = request["firstAvailable"]
    if problems.declared.too_many(f"{path}.firstAvailable", len(alternatives), MAX_FIRST_AVAILABLE):
        return
    listed = (alternatives, f"{path}.firstAvailable", "DeviceSubRequest", _name)
    if problems.rules.declarative:
        problems.duplicate_items(*listed)
    for index, sub in enumerate(alternatives):
        place, name = f"{path}.firstAvailable[{index}]", sub.get("name", "")
        problems.invalid(f"{place}.name", name, *dns_label(name))
        _check_exact(problems, sub, place, cel, declared_class=True)
        wanted = _named(constraints, request.get("name", ""), f"{request.get('name', '')}/{name}")
        _check_derived(problems, sub, place, cel, wanted)
    if not problems.rules.declarative:
        problems.duplicate_items(*listed)


def _name(item: Mapping[str, Any]) -> str:
    return str(item.get("name", ""))


def _check_exact(
    problems: Problems,
    request: Mapping[str, Any],
    path: str,
    cel: CheckCel | None,
    *,
    declared_class: bool = False,
) -> None:
    """What ``exactly`` and an entry of ``firstAvailable`` have in common."""
    class_name = request.get("deviceClassName", "")
    by_hand = not declared_class or not problems.rules.declarative
    reported = problems if by_hand else problems.declared
    if not class_name:
        reported.required(f"{path}.deviceClassName")
    else:
        wrong = dns_subdomain(class_name, "characters" if by_hand else "bytes")
        reported.invalid(f"{path}.deviceClassName", class_name, *wrong)
    check_selectors(problems, request.get("selectors", ()), f"{path}.selectors", cel)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count != 0:
            problems.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count <= 0:
            problems.invalid(f"{path}.count", count, "must be greater than zero")
    else:
        reported = problems.declared if mode else problems
        reported.unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    # The API documents a limit of 16 tolerations; no server enforces it.
    for index, toleration in enumerate(request.get("tolerations", ())):
        check_toleration(problems, toleration, f"{path}.tolerations[{index}]")


def check_selectors(
    problems: Problems,
    selectors: Sequence[Mapping[str, Any]],
    path: str,
    cel: CheckCel | None,
    *,
    stored: bool = False,
) -> None:
    if problems.declared.too_many(path, len(selectors), MAX_REQUESTS):
        return
    for index, selector in enumerate(selectors):
        place = f"{path}[{index}].cel"
        if selector.get("cel") is None:
            problems.required(place)
        elif not stored:
            _check_expression(problems, selector["cel"].get("expression", ""), f"{place}.expression", cel)


def _check_expression(
    problems: Problems, expression: str, path: str, cel: CheckCel | None, *, derived: bool = False
) -> None:
    if byte_size(expression) > MAX_CEL_BYTES:
        problems.too_long(path, MAX_CEL_BYTES)
    elif cel is not None:
        cel(problems, path, expression, derived=derived)


def _named(constraints: Sequence[Mapping[str, Any]], *requests: str) -> frozenset[str]:
    """The attributes that constraints on one of the requests, or on all, name."""
    return frozenset(
        constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
        for constraint in constraints
        if not constraint.get("requests") or set(requests) & set(constraint["requests"])
    )


def _check_derived(
    problems: Problems, request: Mapping[str, Any], path: str, cel: CheckCel | None, wanted: frozenset[str]
) -> None:
    """Derived attributes: complete, unique, and each used by a constraint on this request."""
    derived = request.get("derivedAttributes", ())
    place = f"{path}.derivedAttributes"
    seen: set[str] = set()
    for index, attribute in enumerate(derived):
        name = attribute.get("name", "")
        if name and name not in wanted:
            text = (
                "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting "
                "this request"
            )
            problems.invalid(f"{place}[{index}].name", name, text)
        expression = attribute.get("expression")
        if expression:
            _check_expression(problems, expression, f"{place}[{index}].expression", cel, derived=True)
    for index, attribute in enumerate(derived):
        name = attribute.get("name", "")
        if name in seen:
            problems.duplicate(f"{place}[{index}]", name)
        seen.add(name)
    if problems.declared.too_many(place, len(derived), MAX_REQUESTS):
        return
    for index, attribute in enumerate(derived):
        if not attribute.get("name"):
            problems.declared.required(f"{place}[{index}].name")
        else:
            check_fully_qualified(problems, f"{place}[{index}].name", attribute["name"])
        if not attribute.get("expression"):
            problems.declared.required(f"{place}[{index}].expression")


def check_toleration(problems: Problems, toleration: Mapping[str, Any], path: str) -> None:
    """A toleration of device taints, in a request or copied into a result."""
    key, value, effect = (toleration.get(field, "") for field in ("key", "value", "effect"))
    if key:
        problems.declared.invalid(f"{path}.key", key, *label_key(key))
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        if value:
            problems.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        problems.invalid(f"{path}.value", value, *label_value(value))
    else:
        problems.declared.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in (known := effects(problems)):
        problems.declared.unsupported(f"{path}.effect", effect, known)


def _check_constraint(
    problems: Problems, constraint: Mapping[str, Any], path: str, names: RequestNames
) -> None:
    check_references(problems, constraint.get("requests", ()), f"{path}.requests", names)
    given = [field for field in ("matchAttribute", "distinctAttribute") if field in constraint]
    # By hand the server looks at the first only; what 1.37 declares is about both.
    for field in given if problems.rules.declarative else given[:1]:
        check_fully_qualified(problems, f"{path}.{field}", constraint[field])
    if not given:
        if problems.rules.on("DRAConsumableCapacity"):
            problems.required(path, _NO_CONSTRAINT)
        else:
            problems.required(f"{path}.matchAttribute")


def check_references(problems: Problems, references: Sequence[str], path: str, names: RequestNames) -> None:
    """A list of request names without duplicates."""
    if problems.declared.too_many(path, len(references), MAX_REQUESTS):
        return
    for index, reference in enumerate(references):
        names.check(problems, reference, f"{path}[{index}]")
    for index, reference in enumerate(references):
        if reference in references[:index]:
            problems.declared.duplicate(f"{path}[{index}]", reference)


def check_opaque(problems: Problems, config: Mapping[str, Any], path: str, *, stored: bool = False) -> None:
    """The driver and its parameters; ``stored`` parameters may be longer than new ones."""
    opaque = config.get("opaque")
    if opaque is None:
        problems.required(f"{path}.opaque")
        return
    check_driver_declared(problems, f"{path}.opaque.driver", opaque.get("driver", ""))
    check_raw(problems, opaque.get("parameters"), f"{path}.opaque.parameters", stored=stored)


def check_raw(problems: Problems, document: Any, path: str, *, stored: bool = False) -> None:
    """A free JSON object of at most 10 KiB, as the client wrote it without spaces."""
    if document is None:
        problems.required(path)
    elif not stored and byte_size(raw_json(document)) > MAX_PARAMETERS_BYTES:
        problems.too_long(path, MAX_PARAMETERS_BYTES)
    elif not isinstance(document, Mapping):
        problems.invalid(path, "<value omitted>", "must be a valid JSON object")


def raw_json(document: Any) -> str:
    """``document`` as it came, as far as that can still be known: without spaces."""
    try:
        return msgspec.json.encode(document).decode()
    except (UnicodeEncodeError, RecursionError, OverflowError, TypeError):
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
