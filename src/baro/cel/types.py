"""Static types of CEL, their names in messages, and unification of type parameters.

Follows cel-go's checker: a ``dyn`` or erroneous type agrees with everything, a type parameter is bound on
first use and widened later. Nothing here knows functions or the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


class Type(msgspec.Struct, frozen=True):
    """``name`` with parameters: ``list(int)`` is ``Type("list", (INT,))``.

    ``kind`` is one of ``primitive`` (also null), ``dyn``, ``error``, ``any``, ``well-known`` (timestamp,
    duration), ``struct``, ``opaque``, ``list``, ``map``, ``type``, ``param``, ``wrapper``.
    """

    name: str
    params: tuple[Type, ...] = ()
    kind: str = "primitive"

    def __str__(self) -> str:
        """The declared name (``Type.String`` of cel-go), used for wrong result types."""
        if self.kind == "param":
            return f"<{self.name}>"
        declared = f"wrapper({self.name})" if self.kind == "wrapper" else self.name
        return f"{declared}({', '.join(map(str, self.params))})" if self.params else declared

    def display(self) -> str:
        """The name in the checker's messages (``FormatCELType`` of cel-go)."""
        special = (
            _DISPLAY.get(self.name) if self.kind in ("any", "error", "well-known", "primitive") else None
        )
        if special is not None:
            return special
        if self.params:
            return f"{self.name}({', '.join(param.display() for param in self.params)})"
        return f"wrapper({self.name})" if self.kind == "wrapper" else self.name

    @property
    def is_dyn(self) -> bool:
        return self.kind in ("dyn", "any")

    @property
    def is_wild(self) -> bool:
        return self.kind in ("dyn", "any", "error")


_DISPLAY = {
    "google.protobuf.Any": "any",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "!error!": "!error!",
    "null_type": "null",
}

BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null_type")
DYN = Type("dyn", kind="dyn")
ANY = Type("google.protobuf.Any", kind="any")
ERROR = Type("!error!", kind="error")
DURATION = Type("google.protobuf.Duration", kind="well-known")
TIMESTAMP = Type("google.protobuf.Timestamp", kind="well-known")


def list_of(element: Type) -> Type:
    return Type("list", (element,), "list")


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value), "map")


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,), "opaque")


def type_of(value: Type) -> Type:
    return Type("type", (value,), "type")


def opaque(name: str, *params: Type) -> Type:
    return Type(name, params, "opaque")


def struct(name: str) -> Type:
    return Type(name, (), "struct")


def wrapper(name: str) -> Type:
    return Type(name, (), "wrapper")


def param(name: str) -> Type:
    return Type(name, (), "param")


def unwrap_optional(given: Type) -> tuple[Type, bool]:
    if given.kind == "opaque" and given.name == "optional_type":
        return given.params[0], True
    return given, False


class Bindings:
    """What type parameters stand for. ``assignable`` keeps its bindings only when it succeeds."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._fresh = 0

    def fresh(self) -> Type:
        name = f"_var{self._fresh}"
        self._fresh += 1
        return param(name)

    def assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        before = self._bound
        self._bound = dict(before)
        if self._all(given, wanted):
            return True
        self._bound = before
        return False

    def substitute(self, given: Type, free_to_dyn: bool) -> Type:
        bound = self._bound.get(given.name) if given.kind == "param" else None
        if bound is not None:
            return self.substitute(bound, free_to_dyn)
        if given.kind == "param":
            return DYN if free_to_dyn else given
        if given.params:
            return Type(given.name, tuple(self.substitute(p, free_to_dyn) for p in given.params), given.kind)
        return given

    def _all(self, given: Iterable[Type], wanted: Sequence[Type]) -> bool:
        given = tuple(given)
        return len(given) == len(wanted) and all(map(self._agrees, given, wanted))

    def _agrees(self, given: Type, wanted: Type) -> bool:
        if wanted.kind == "param":
            valid, has_binding = self._bind(given, wanted)
            if valid or has_binding:
                return valid
        if given.kind == "param":
            return self._bind(wanted, given)[0]
        if given.is_wild or wanted.is_wild:
            return True
        if given == NULL:
            return _nullable(wanted)
        if wanted == NULL:
            return _nullable(given)
        if given.kind == "type":
            return wanted.kind == "type"
        if given.kind in ("opaque", "list", "map"):
            return (given.kind, given.name) == (wanted.kind, wanted.name) and self._all(
                given.params, wanted.params
            )
        if "wrapper" in (given.kind, wanted.kind):
            return given.name == wanted.name
        return given == wanted

    def _bind(self, given: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether ``given`` may stand for the parameter, and whether that was bound already."""
        if given == parameter:
            return True, True
        bound = self._bound.get(parameter.name)
        if bound is None:
            if self._occurs(parameter, given):
                return False, False
            self._bound[parameter.name] = given
            return True, False
        if given == bound:
            return True, True
        if not self._agrees(given, bound):
            return False, True
        wider = most_general(given, bound)
        if not self._occurs(parameter, wider):
            self._bound[parameter.name] = wider
        return True, True

    def _occurs(self, parameter: Type, within: Type) -> bool:
        if parameter == within:
            return True
        if within.kind == "param":
            bound = self._bound.get(within.name)
            return bound is not None and self._occurs(parameter, bound)
        return any(self._occurs(parameter, part) for part in within.params)


def _nullable(given: Type) -> bool:
    return given.kind in ("opaque", "struct", "well-known", "wrapper") or given == NULL


def most_general(first: Type, second: Type) -> Type:
    """The more general of two types that agree."""
    return first if _at_most_as_specific(first, second) else second


def _at_most_as_specific(first: Type, second: Type) -> bool:
    if first.is_dyn or first.kind == "param":
        return True
    if second.is_dyn or second.kind == "param" or first.kind != second.kind:
        return False
    if first.kind == "type":
        return True
    if first.name != second.name or len(first.params) != len(second.params):
        return False
    return all(map(_at_most_as_specific, first.params, second.params))


def equivalent(first: Type, second: Type) -> bool:
    """Equal up to the names of type parameters."""
    if first.kind == second.kind == "param":
        return True
    return (
        (first.kind, first.name, len(first.params)) == (second.kind, second.name, len(second.params))
        and all(map(equivalent, first.params, second.params))
    )  # fmt: skip
