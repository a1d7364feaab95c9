"""Macros: calls that are rewritten to folds, presence tests and bindings while parsing.

``MACROS`` maps (name, number of arguments, has a target) to the expander; an expander returns ``None`` when
the call only looks like its macro. All new nodes stand at the place of the call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from baro.cel.ast import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select

ACCUMULATOR = "@result"
UNUSED = "#unused"
_OLD_ACCUMULATOR = "__result__"
_SORT_INPUT = "@__sortBy_input__"

Expander = Callable[[int, "Node | None", tuple[Node, ...]], "Node | None"]


class MacroError(Exception):
    """The arguments do not suit the macro."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


def _accu(at: int) -> Ident:
    return Ident(at, ACCUMULATOR)


def _variable(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.at, message)
    if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _two_variables(first: Node, second: Node) -> tuple[str, str]:
    for node in (first, second):
        if not isinstance(node, Ident):
            raise MacroError(node.at, "argument must be a simple name")
    assert isinstance(first, Ident)  # noqa: S101 shown above, for the type checker
    assert isinstance(second, Ident)  # noqa: S101
    if first.name == second.name:
        raise MacroError(second.at, f"duplicate variable name: {first.name}")
    return _variable(first, ""), _variable(second, "")


def _has(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    field = args[0]
    if not isinstance(field, Select) or field.optional:
        raise MacroError(field.at, "invalid argument to has() macro")
    return Select(at, field.operand, field.field, test=True)


def _fold(
    at: int,
    target: Node,
    names: tuple[str, str | None],
    init: Node,
    condition: Node,
    step: Node,
    result: Node,
) -> Node:
    return Comprehension(at, target, *names, ACCUMULATOR, init, condition, step, result)


def _names(
    args: tuple[Node, ...], two: bool, message: str
) -> tuple[tuple[str, str | None], tuple[Node, ...]]:
    if two:
        return _two_variables(args[0], args[1]), args[2:]
    return (_variable(args[0], message), None), args[1:]


def _all(two: bool) -> Expander:
    def expand(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        names, rest = _names(args, two, "argument must be a simple name")
        condition = Call(at, "@not_strictly_false", (_accu(at),))
        step = Call(at, "_&&_", (_accu(at), rest[0]))
        return _fold(at, _given(target), names, Literal(at, True), condition, step, _accu(at))

    return expand


def _exists(two: bool) -> Expander:
    def expand(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        names, rest = _names(args, two, "argument must be a simple name")
        condition = Call(at, "@not_strictly_false", (Call(at, "!_", (_accu(at),)),))
        step = Call(at, "_||_", (_accu(at), rest[0]))
        return _fold(at, _given(target), names, Literal(at, False), condition, step, _accu(at))

    return expand


def _exists_one(two: bool) -> Expander:
    def expand(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        names, rest = _names(args, two, "argument must be a simple name")
        step = _when(at, rest[0], Call(at, "_+_", (_accu(at), Literal(at, 1))))
        result = Call(at, "_==_", (_accu(at), Literal(at, 1)))
        return _fold(at, _given(target), names, Literal(at, 0), Literal(at, True), step, result)

    return expand


def _when(at: int, condition: Node | None, step: Node) -> Node:
    return step if condition is None else Call(at, "_?_:_", (condition, step, _accu(at)))


def _to_list(two: bool) -> Expander:
    """``map`` and ``transformList``, with or without a filter."""

    def expand(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        names, rest = _names(args, two, "argument is not an identifier")
        condition = rest[0] if len(rest) == 2 else None
        step = Call(at, "_+_", (_accu(at), ListNode(at, (rest[-1],))))
        step_or_skip = _when(at, condition, step)
        return _fold(at, _given(target), names, ListNode(at, ()), Literal(at, True), step_or_skip, _accu(at))

    return expand


def _filter(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    step = Call(at, "_+_", (_accu(at), ListNode(at, (Ident(args[0].at, name),))))
    fold_step = _when(at, args[1], step)
    return _fold(at, _given(target), (name, None), ListNode(at, ()), Literal(at, True), fold_step, _accu(at))


def _to_map(entry: bool) -> Expander:
    """``transformMap`` keeps the key, ``transformMapEntry`` makes whole entries."""

    def expand(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        names, rest = _names(args, True, "")
        condition = rest[0] if len(rest) == 2 else None
        values: tuple[Node, ...] = (rest[-1],) if entry else (Ident(at, names[0]), rest[-1])
        step = _when(at, condition, Call(at, "cel.@mapInsert", (_accu(at), *values)))
        return _fold(at, _given(target), names, MapNode(at, ()), Literal(at, True), step, _accu(at))

    return expand


def _binding(at: int, name: str, value: Node, body: Node) -> Node:
    unused = ListNode(at, ())
    return Comprehension(at, unused, UNUSED, None, name, value, Literal(at, False), Ident(at, name), body)


def _bind(at: int, target: Node | None, args: tuple[Node, ...]) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].at, "cel.bind() variable names must be simple identifiers")
    return _binding(at, args[0].name, args[1], args[2])


def _opt_map(flat: bool) -> Expander:
    def expand(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        if not isinstance(args[0], Ident):
            name = "optFlatMap" if flat else "optMap"
            raise MacroError(args[0].at, f"{name}() variable name must be a simple identifier")
        given = _given(target)
        body = _binding(at, args[0].name, Call(at, "value", (), given), args[1])
        some = body if flat else Call(at, "optional.of", (body,))
        return Call(
            at, "_?_:_", (Call(at, "hasValue", (), copy.deepcopy(given)), some, Call(at, "optional.none", ()))
        )

    return expand


def _sort_by(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    given = _given(target)
    if not isinstance(given, (ListNode, Select, Ident, Comprehension, Call)):
        kinds = "a list, identifier, comprehension, call or select expression"
        raise MacroError(given.at, f"sortBy can only be applied to {kinds}")
    keys = _to_list(False)(at, Ident(at, _SORT_INPUT), args)
    assert keys is not None  # noqa: S101 the list expander always expands
    return _binding(
        at, _SORT_INPUT, given, Call(at, "@sortByAssociatedKeys", (keys,), Ident(at, _SORT_INPUT))
    )


def _given(target: Node | None) -> Node:
    assert target is not None  # noqa: S101 the table only lists receiver macros for this use
    return target


MACROS: dict[tuple[str, int, bool], Expander] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all(False),
    ("all", 3, True): _all(True),
    ("exists", 2, True): _exists(False),
    ("exists", 3, True): _exists(True),
    ("exists_one", 2, True): _exists_one(False),
    ("exists_one", 3, True): _exists_one(True),
    ("existsOne", 3, True): _exists_one(True),
    ("map", 2, True): _to_list(False),
    ("map", 3, True): _to_list(False),
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _to_list(True),
    ("transformList", 4, True): _to_list(True),
    ("transformMap", 3, True): _to_map(False),
    ("transformMap", 4, True): _to_map(False),
    ("transformMapEntry", 3, True): _to_map(True),
    ("transformMapEntry", 4, True): _to_map(True),
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map(False),
    ("optFlatMap", 2, True): _opt_map(True),
    ("sortBy", 2, True): _sort_by,
}


def expand(at: int, function: str, target: Node | None, args: tuple[Node, ...]) -> Node | None:
    """What a call stands for, or ``None`` when it is no macro. Raises ``MacroError`` for unsuitable
    arguments."""
    macro = MACROS.get((function, len(args), target is not None))
    return None if macro is None else macro(at, target, args)


def is_binding(node: Comprehension) -> bool:
    """Whether it is no loop but a name for a value: ``cel.bind`` and what is made of it."""
    return node.var == UNUSED and isinstance(node.range, ListNode) and not node.range.elements
