"""The shape of compiled code, shared by the modules that make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baro.cel.device import DeviceView
from baro.cel.errors import CelRuntimeError

Frame = list[Any]
Run = Callable[[DeviceView, Frame], Any]
_DYNAMIC = object()


class Code:
    """A compiled node: how to run it, and its value when it is constant."""

    __slots__ = ("constant", "run", "value")

    def __init__(self, run: Run, value: Any = _DYNAMIC) -> None:
        self.run = run
        self.value = value
        self.constant = value is not _DYNAMIC


class PlanError(Exception):
    """A constant part fails already: upstream cannot instantiate the program."""


def constant(value: Any) -> Code:
    return Code(lambda device, frame: value, value)


class Failure:
    """An error where a value is expected."""

    __slots__ = ("error",)

    def __init__(self, error: CelRuntimeError) -> None:
        self.error = error
