"""Derived attributes (KEP-6080): values that a request computes from a device, for its constraints alone.

The expression runs once per distinct tuple of what it reads, as a selector does, and counts its cost as
upstream does. What it gives is a value or the text of upstream's error. Not here: which constraint asks.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from baro.cel import CelCompileError
from baro.cel.checker import check
from baro.cel.compiler import Compiler
from baro.cel.cost_tracking import CountedProgram
from baro.cel.device import ColumnRef
from baro.cel.environment import environment
from baro.cel.errors import Source
from baro.cel.parser import parse
from baro.cel.program import MAX_COST, deep_stack
from baro.cel.types import Type
from baro.cel.validators import validate
from baro.cel.values import UInt, type_name
from baro.inventory import Inventory
from baro.inventory.cel_table import CelTable
from baro.inventory.columns import TypedValue
from baro.model.semver import SemVer

_MOST_TUPLES = 100_000
_SCALARS = {bool: "bool", int: "int", str: "string", SemVer: "version"}
_GO_NAMES = {
    "double": "float64", "uint": "uint64", "bytes": "[]uint8", "null_type": "structpb.NullValue",
    "timestamp": "time.Time", "google.protobuf.Timestamp": "time.Time",
    "google.protobuf.Duration": "time.Duration", "map": "map[ref.Val]ref.Val",
}  # fmt: skip
"""What upstream's error calls a result that is no attribute; others by their CEL name."""
_SHORT = {"bool": "bool", "int": "int", "string": "string", "version": "semver"}


class Derivation(msgspec.Struct, frozen=True):
    """A compiled expression. ``columns`` ``None``: it may read anything of the device."""

    program: CountedProgram
    columns: tuple[ColumnRef, ...] | None


class Failed(msgspec.Struct, frozen=True):
    """Why there is no value. ``compile``: no device has one."""

    text: str
    compile: bool = False


class DerivedValues:
    """Values per expression and row for one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self._table = CelTable(inventory.table)
        self._known: dict[str, dict[object, TypedValue | Failed]] = {}

    @classmethod
    def of(cls, inventory: Inventory) -> DerivedValues:
        """The values of an inventory; they live as long as it does."""
        found = inventory.derived.get(cls)
        if not isinstance(found, cls):
            found = inventory.derived[cls] = cls(inventory)
        return found

    def value(self, expression: str, row: int) -> TypedValue | Failed:
        """The attribute that the device in that row gets."""
        compiled = derivation(expression)
        if isinstance(compiled, str):
            return Failed(compiled, compile=True)
        broken = self._table.broken_text(row)
        if broken is not None:
            return Failed(broken)
        if compiled.columns is None:
            return self._run(compiled, row)
        known = self._known.setdefault(expression, {})
        key = tuple(self._table.code(column, row) for column in compiled.columns)
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST_TUPLES:
                known.clear()
            found = known[key] = self._run(compiled, row)
        return found

    def _run(self, compiled: Derivation, row: int) -> TypedValue | Failed:
        with deep_stack():
            result, error, _ = compiled.program.evaluate(self._table.view(row), MAX_COST)
        return Failed(error.message) if error is not None else _attribute(result)


@lru_cache(maxsize=1024)
def derivation(expression: str) -> Derivation | str:
    """The expression compiled as the scheduler does, or the compiler's message."""
    with deep_stack():
        try:
            source = Source(expression)
            tree = parse(source)
            issues = check(tree, environment("stored"), source) or validate(tree, source)
            if issues:
                return source.compile_error(issues).message
        except CelCompileError as error:
            return error.message
        if not _allowed(tree.type):
            wanted = "a primitive scalar (string, integer, boolean, semver) or a list of these scalars"
            return f"must evaluate to {wanted}, not {tree.type}"
        compiler = Compiler()
        compiler.compile(tree)
        return Derivation(CountedProgram(tree), None if compiler.whole else tuple(compiler.columns))


def _allowed(kind: Type | None) -> bool:
    if kind is None:
        return False
    if kind.kind == "list":
        return _scalar(kind.params[0])
    return _scalar(kind)


def _scalar(kind: Type) -> bool:
    return kind.is_dyn or (
        kind.kind != "wrapper" and kind.name in ("bool", "int", "string", "kubernetes.Semver")
    )


def _attribute(result: object) -> TypedValue | Failed:
    """The result as an API attribute (``valToDeviceAttribute``); a list has the type of its first element."""
    kind = _kind(result)
    if kind is not None:
        return (kind, _plain(result))
    if not isinstance(result, tuple):
        return Failed(f"unsupported CEL return type: {_go_name(result)}")
    if not result:
        return ("strings", ())
    first = _kind(result[0])
    if first is None:
        return Failed(f"unsupported list element type: {_go_name(result[0])}")
    for index, item in enumerate(result):
        if _kind(item) != first:
            return Failed(
                f"expected list element at index {index} to be {_SHORT[first]}, got {_go_name(item)}"
            )
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
