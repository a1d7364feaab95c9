"""Selectors on devices, and what the scheduler and the API server say about them.

A record has ``expr``, and a ``device`` in API form (with its ``driver``). The answer is what each of the two
environments makes of the expression (``compile``: the scheduler's, ``admission``: the API server's for new
objects) and, if it compiles for the scheduler, the result on the device (``eval``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from baro.cel import CelCompileError, DeviceView, Program, compile_selector, view_of
from baro.cel.environment import EnvironmentName
from baro.conformance.tally import Agreement
from baro.model.errors import InputError, Where
from baro.model.kinds.resource import DeviceAttribute, DeviceCapacity
from baro.model.quantity import QuantityError


class Record(NamedTuple):
    """One expression on one device, with what Kubernetes 1.37.2 says. ``result`` is True, False or the
    error; ``known`` tells whether the answers were recorded at all."""

    name: str
    category: str
    expression: str
    device: Mapping[str, Any]
    compile_error: str | None
    admission_error: str | None
    result: bool | str | None
    known: bool = True


def read(raw: Mapping[str, Any]) -> Record:
    """A record from its JSON, with the answers of 1.37 (``v1_37``) before those of the first recording."""
    name = str(raw.get("name", ""))
    if not isinstance(raw.get("expr"), str):
        raise _error("a CEL record needs expr, a text", name)
    newer = _member(raw, "v1_37", name)
    parts = {
        key: {**_member(raw, key, name), **_member(newer, key, name)}
        for key in ("compile", "admission", "eval")
    }
    if parts["compile"].get("ok"):
        parts["compile"].pop("error", None)
    admission = parts["admission"] or parts["compile"]
    evaluated = parts["eval"]
    failed = evaluated.get("result") == "error"
    return Record(
        name=name,
        category=str(raw.get("category", "")),
        expression=raw["expr"],
        device=_member(raw, "device", name),
        compile_error=parts["compile"].get("error"),
        admission_error=None if admission.get("ok") else admission.get("error"),
        result=evaluated.get("error") if failed else evaluated.get("result"),
        known="ok" in parts["compile"],
    )


def _member(raw: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    found = raw.get(key) or {}
    if not isinstance(found, dict):
        raise _error(f"{key} is an object", name, key)
    return found


def _error(what: str, name: str, path: str | None = None) -> InputError:
    where = Where(object=name or None, path=path)
    return InputError(what, where=where, next_step="see docs/conformance.md for the members of a record")


def device(raw: Mapping[str, Any]) -> DeviceView:
    """The view of a device given in API form. Raises ``InputError`` for what is no device."""
    try:
        attributes = msgspec.convert(raw.get("attributes") or {}, dict[str, DeviceAttribute])
        capacity = msgspec.convert(raw.get("capacity") or {}, dict[str, DeviceCapacity])
        multiple = bool(raw.get("allowMultipleAllocations"))
        return view_of(str(raw.get("driver", "")), attributes, capacity, multiple)
    except (msgspec.ValidationError, QuantityError) as error:
        where = Where(object=str(raw.get("name", "")) or None, path="device")
        raise InputError(str(error), where=where, next_step="write the device as the API does") from None


def refusal(expression: str, environment: EnvironmentName = "stored") -> str | None:
    """Our compile error's text, or ``None``."""
    try:
        compile_selector(expression, environment)
    except CelCompileError as error:
        return error.message
    return None


def answer(record: Record) -> dict[str, Any]:
    """Ours, with the keys of a recorded answer."""
    found: dict[str, Any] = {"name": record.name}
    program: Program | None = None
    try:
        program = compile_selector(record.expression)
    except CelCompileError as error:
        found["compile"] = {"ok": False, "error": error.message}
    else:
        cost = program.cost_estimate.max
        found["compile"] = {"ok": True, "costEstimate": cost, "outputType": str(program.tree.type)}
    refused = refusal(record.expression, "admission")
    admission = {"ok": refused is None} if refused is None else {"ok": False, "error": refused}
    if refused != found["compile"].get("error"):
        found["admission"] = admission
    if program is not None:
        found["eval"] = _evaluated(program, device(record.device))
    return found


def _evaluated(program: Program, view: DeviceView) -> dict[str, Any]:
    counted = program.evaluate_with_cost(view)
    if counted.error is not None:
        return {"result": "error", "error": counted.error, "actualCost": counted.cost}
    return {"result": counted.result, "actualCost": counted.cost}


def agreement(ours: Mapping[str, Any], record: Record, raw: Mapping[str, Any]) -> Agreement:
    """``verdict`` and ``text`` of both environments; ``type``, ``estimate``, and on the device ``result`` and
    ``cost``. What a walk over a map costs that stops early depends on upstream's random order: not compared.
    """
    if not record.known:
        return {}
    compiled = ours["compile"]
    admission = ours.get("admission", compiled)
    found = {
        "verdict": compiled["ok"] == (record.compile_error is None)
        and admission["ok"] == (record.admission_error is None),
        "text": compiled.get("error") == record.compile_error
        and admission.get("error") == record.admission_error,
    }
    if record.compile_error is None and compiled["ok"] and record.result is not None:
        evaluated = ours["eval"]
        result = evaluated["error"] if evaluated["result"] == "error" else evaluated["result"]
        found["result"] = result == record.result
        theirs = {**raw.get("compile", {}), **(raw.get("v1_37") or {}).get("compile", {})}
        if "outputType" in theirs:
            found["type"] = compiled["outputType"] == theirs["outputType"]
        if "costEstimate" in theirs:
            found["estimate"] = compiled["costEstimate"] == theirs["costEstimate"]
        theirs = {**raw.get("eval", {}), **(raw.get("v1_37") or {}).get("eval", {})}
        if "actualCost" in theirs and not _walks_a_map(record.expression):
            found["cost"] = evaluated["actualCost"] == theirs["actualCost"]
    return found


def _walks_a_map(expression: str) -> bool:
    """Whether a macro may stop early in a map: one of the device, or one that the expression makes."""
    return compile_selector(expression).columns is None or "{" in expression
