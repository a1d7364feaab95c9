"""The scheduler's own CEL beside ours: one expression on a few devices, and in what the two differ.

The Go program is the one of ``bench/peers``; it is only used where it has been built. What upstream itself
does differently from run to run (the order of a Go map, numbers of type variables) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, Program, compile_selector
from baro.cel.environment import EnvironmentName
from baro.conformance.cel import device
from bench._peers import Peers, built

_TYPE_VARIABLE = re.compile(r"_var\d+")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Upstream:
    """The running program with the devices that it evaluates on."""

    def __init__(self, running: Peers, devices: Sequence[Mapping[str, Any]]) -> None:
        self._running = running
        self._views: tuple[DeviceView, ...] = tuple(map(device, devices))
        for number, body in enumerate(devices):
            given = {"name": f"device-{number}", **{key: body[key] for key in body if key != "driver"}}
            running.tell(
                {
                    "task": "slice",
                    "resourceSlice": {"spec": {"driver": body["driver"], "devices": [given]}},
                }
            )

    def differences(self, expression: str) -> list[str]:
        """What upstream and we say differently, ours first; empty if nothing."""
        theirs = self._running.ask({"task": "check", "expression": expression})
        found = []
        for name in ("stored", "admission"):
            ours = _comparable(_compiled(expression, name))
            if ours != _comparable(theirs[name]):
                found.append(f"{name}: {ours} <> {theirs[name]}")
        if not found and theirs["stored"]["ok"]:
            program = compile_selector(expression)
            for view, answer in zip(self._views, theirs["eval"], strict=True):
                found += _evaluations(program, expression, view, answer)
        return found


@contextmanager
def upstream(devices: Sequence[Mapping[str, Any]]) -> Iterator[Upstream | None]:
    """The program at work, or ``None`` where it has not been built (``python -m bench cel_peers`` does)."""
    program = built()
    if program is None:
        yield None
        return
    with Peers(program) as running:
        yield Upstream(running, devices)


def _compiled(expression: str, environment: EnvironmentName) -> dict[str, Any]:
    try:
        program = compile_selector(expression, environment)
    except CelCompileError as error:
        return {"ok": False, "error": error.message}
    estimate = program.cost_estimate.max
    return {"ok": True, "outputType": str(program.tree.type)} | (
        {"costEstimate": estimate} if estimate else {}
    )


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" not in answer:
        return answer
    return {**answer, "error": _TYPE_VARIABLE.sub("_var", answer["error"])}


def _evaluations(
    program: Program, expression: str, view: DeviceView, theirs: dict[str, Any]
) -> Iterator[str]:
    counted = program.evaluate_with_cost(view)
    try:
        plain: bool | str = program.evaluate(view)
    except CelRuntimeError as error:
        plain = error.message
    if plain != (counted.error if counted.error is not None else counted.result):
        yield f"plain and counted evaluation: {plain!r} <> {counted}"
    expected = theirs.get("error") or theirs["result"]
    walks = program.columns is None or "{" in expression  # maps: which error is met first, and when to stop
    if walks and isinstance(plain, str) and isinstance(expected, str):
        return
    if isinstance(expected, str) and isinstance(plain, str):
        expected, plain = _ADDRESS.sub("0x", expected), _ADDRESS.sub("0x", plain)
    if plain != expected:
        yield f"result: {plain!r} <> {expected!r}"
    elif not walks and "cost" in theirs and counted.cost != theirs["cost"]:
        yield f"cost: {counted.cost} <> {theirs['cost']}"
