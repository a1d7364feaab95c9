"""Devices and upstream's recorded answers for the tests of the CEL engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, compile_selector, view_of
from baro.cel.environment import EnvironmentName
from baro.model.kinds.resource import DeviceAttribute, DeviceCapacity


class Record(NamedTuple):
    """One expression on one device, with what Kubernetes 1.37.2 says. ``result`` is True, False or the
    error."""

    name: str
    category: str
    expression: str
    device: Mapping[str, Any]
    compile_error: str | None
    admission_error: str | None
    result: bool | str | None


def records(path: Path) -> Iterator[Record]:
    """The records of an oracle file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            raw = json.loads(line)
            newer = raw.get("v1_37", {})
            parts = {
                key: {**raw.get(key, {}), **newer.get(key, {})} for key in ("compile", "admission", "eval")
            }
            if parts["compile"].get("ok"):
                parts["compile"].pop("error", None)
            admission = parts["admission"] or parts["compile"]
            evaluated = parts["eval"]
            result = evaluated.get("error") if evaluated.get("result") == "error" else evaluated.get("result")
            error = parts["compile"].get("error")
            refused = None if admission.get("ok") else admission.get("error")
            yield Record(raw["name"], raw["category"], raw["expr"], raw["device"], error, refused, result)


def device(raw: Mapping[str, Any]) -> DeviceView:
    """The view of a device given in API form."""
    attributes = msgspec.convert(raw.get("attributes") or {}, dict[str, DeviceAttribute])
    capacity = msgspec.convert(raw.get("capacity") or {}, dict[str, DeviceCapacity])
    return view_of(raw["driver"], attributes, capacity, bool(raw.get("allowMultipleAllocations")))


def answer(expression: str, view: DeviceView) -> bool | str:
    """Our result, or the run-time error's text."""
    try:
        return compile_selector(expression).evaluate(view)
    except CelRuntimeError as error:
        return error.message


def refusal(expression: str, environment: EnvironmentName = "stored") -> str | None:
    """Our compile error's text, or ``None``."""
    try:
        compile_selector(expression, environment)
    except CelCompileError as error:
        return error.message
    return None
