"""Derived attributes (KEP-6080): expressions that make an attribute of a device.

Compiling one, with upstream's words for what is refused, and the result as an attribute of the API. Not here:
which constraint asks for it, and for which devices.
"""

from __future__ import annotations

import functools

from baro.cel.ast import Node
from baro.cel.computation import Computation, deep_stack
from baro.cel.device import DeviceView
from baro.cel.environment import EnvironmentName, environment
from baro.cel.errors import CelCompileError, CelRuntimeError
from baro.cel.expression import planning, typed_tree
from baro.cel.types import Type
from baro.cel.values import UInt, type_name
from baro.model.semver import SemVer

AttributeValue = tuple[str, object]
"""The field of the API that holds it (``int``, ``strings``, …) and what is in it, as decoded JSON but for
tuples."""

_SCALARS = {bool: "bool", int: "int", str: "string", SemVer: "version"}
_GO_NAMES = {
    "double": "float64", "uint": "uint64", "bytes": "[]uint8", "null_type": "structpb.NullValue",
    "timestamp": "time.Time", "google.protobuf.Timestamp": "time.Time",
    "google.protobuf.Duration": "time.Duration", "map": "map[ref.Val]ref.Val",
}  # fmt: skip
"""What upstream's error calls a result that is no attribute; others by their CEL name."""
_SHORT = {"bool": "bool", "int": "int", "string": "string", "version": "semver"}


class AttributeProgram(Computation):
    """One expression, compiled. ``evaluate`` may be called from several threads."""

    __slots__ = ("expression",)

    def __init__(self, expression: str, tree: Node) -> None:
        super().__init__(tree, len(expression))
        self.expression = expression

    def evaluate(self, device: DeviceView) -> AttributeValue:
        """The attribute that the device gets. Raises ``CelRuntimeError`` with the scheduler's words."""
        if device.broken is not None:
            raise CelRuntimeError(device.broken)
        with deep_stack():
            return _attribute(self.value(device))

    def __repr__(self) -> str:
        return f"AttributeProgram({self.expression!r})"


@functools.lru_cache(maxsize=1024)
def compile_attribute(expression: str, environment_name: EnvironmentName = "stored") -> AttributeProgram:
    """Compile a derived attribute's expression; compiled programs are kept and shared.

    ``environment_name`` as for ``compile_selector``; in ``admission`` lists are refused, since the gate
    DRAListTypeAttributes is off there. Raises ``CelCompileError`` with the API server's words.
    """
    with deep_stack(), planning():
        tree = typed_tree(expression, environment(environment_name))
        lists = environment_name == "stored"
        if not _allowed(tree.type, lists=lists):
            scalar = "a primitive scalar (string, integer, boolean, semver)"
            wanted = f"{scalar} or a list of these scalars" if lists else scalar
            raise CelCompileError(f"must evaluate to {wanted}, not {tree.type}")
        return AttributeProgram(expression, tree)


def _allowed(kind: Type, *, lists: bool) -> bool:
    return _scalar(kind) or (lists and kind.kind == "list" and _scalar(kind.params[0]))


def _scalar(kind: Type) -> bool:
    if kind.kind in ("any", "dyn"):
        return True
    return kind.kind != "wrapper" and kind.name in ("bool", "int", "string", "kubernetes.Semver")


def _attribute(result: object) -> AttributeValue:
    """The result as an API attribute; a list has the type of its first element. Raises
    ``CelRuntimeError``."""
    kind = _kind(result)
    if kind is not None:
        return (kind, _plain(result))
    if not isinstance(result, tuple):
        raise CelRuntimeError(f"unsupported CEL return type: {_go_name(result)}")
    if not result:
        return ("strings", ())
    first = _kind(result[0])
    if first is None:
        raise CelRuntimeError(f"unsupported list element type: {_go_name(result[0])}")
    for index, item in enumerate(result):
        if _kind(item) != first:
            text = f"expected list element at index {index} to be {_SHORT[first]}, got {_go_name(item)}"
            raise CelRuntimeError(text)
    return (f"{first}s", tuple(map(_plain, result)))


def _kind(value: object) -> str | None:
    return None if isinstance(value, UInt) else _SCALARS.get(type(value))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, SemVer) else value


def _go_name(value: object) -> str:
    kind = _kind(value)
    if kind is not None:
        return {"int": "int64", "version": "semver.Version"}.get(kind, kind)
    name = type_name(value)
    return _GO_NAMES.get(name, name)
