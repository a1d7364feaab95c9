"""Devices and upstream's recorded answers for the tests of the CEL engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from baro.cel import CelRuntimeError, DeviceView, compile_selector
from baro.conformance.cel import Record, device, read, refusal

__all__ = ["Record", "answer", "device", "records", "refusal"]


def records(path: Path) -> Iterator[Record]:
    """The records of an oracle file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield read(json.loads(line))


def answer(expression: str, view: DeviceView) -> bool | str:
    """Our result, or the run-time error's text."""
    try:
        return compile_selector(expression).evaluate(view)
    except CelRuntimeError as error:
        return error.message
