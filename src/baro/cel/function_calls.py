"""Calls of named functions as closures.

Functions are dispatched by the overloads the checker left possible. Where a static type is unknown the
run-time types are compared with the declared ones first; no match is ``no such overload: name(types)``. Calls
that upstream's planner evaluates ahead (conversions and patterns that are constant) fail here already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baro.cel import ast
from baro.cel.code import Code, Frame, PlanError, Run, constant
from baro.cel.compilation import Compilation
from baro.cel.declarations import Overload, functions
from baro.cel.device import DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import spend
from baro.cel.functions import Implementation, implementations
from baro.cel.types import NULL, Type
from baro.cel.values import Map, go_type, lacks, no_overload, not_a_list, type_name

_CONVERSIONS = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
_SIZED = (str, bytes, tuple, Map)


def function_code(compiler: Compilation, node: ast.Call) -> Code:
    """The closure of a named function's call."""
    compiler.costly |= node.function in _LOOPS
    compiler.panics |= node.function in _PANICS and len(node.overloads) == 1
    parts = node.args if node.target is None else (node.target, *node.args)
    codes = [compiler.compile(part) for part in parts]
    function = _dispatcher(node, [part.type for part in parts])
    if node.function == "matches" and codes[1].constant and type(codes[1].value) is str:
        function = _matches(implementations(), constant_pattern=True)
    runs = [code.run for code in codes]
    run = _tracked(node, runs, function) if node.function in _TRACKED else _call(runs, function)
    if node.function in _CONVERSIONS and len(codes) == 1 and codes[0].constant:
        try:
            return _constant_call(run)
        except CelRuntimeError as error:
            raise PlanError(error.message) from None
    if node.function in ("matches", "find", "findAll") and codes[1].constant and type(codes[1].value) is str:
        from baro.cel.functions.strings import compile_regex  # noqa: PLC0415

        try:
            compile_regex(codes[1].value)
        except CelRuntimeError as error:
            raise PlanError(error.message) from None
    return Code(run)


_QUADRATIC = {"sets.contains": 1, "sets.equivalent": 2, "sets.intersects": 1, "distinct": 2}
_PANICS = frozenset({"distinct", "sort", "@sortByAssociatedKeys", "flatten"})
_LOOPS = frozenset({"lists.range"}) | _PANICS | _QUADRATIC.keys()
_TRACKED = _PANICS | _QUADRATIC.keys()


def _tracked(node: ast.Call, runs: list[Run], function: Implementation) -> Run:
    """Functions that upstream's cost tracking treats specially.

    Those that compare every element with every other are charged like loops. Some make the tracking panic
    when their last argument is an error; all arguments are evaluated before any error counts.
    """
    name, last = node.function, len(runs) - 1
    factor = _QUADRATIC.get(name, 0)
    panics = name in _PANICS and len(node.overloads) == 1 and (name != "flatten" or last == 1)
    fault = "*types.Err is not traits.Lister: missing method Add"
    if name == "flatten":
        fault = "ref.Val is *types.Err, not types.Int"

    def run(device: DeviceView, frame: Frame) -> Any:
        values = []
        failure: CelRuntimeError | None = None
        for position, part in enumerate(runs):
            try:
                values.append(part(device, frame))
            except CelRuntimeError as error:
                if panics and position == last:
                    text = f"internal error: interface conversion: {fault}"
                    raise CelRuntimeError(text, absorbable=False) from None
                failure = failure or error
        if failure is not None:
            raise failure
        if factor and all(type(value) is tuple for value in values):
            spend(frame, 1 + factor * len(values[0]) * len(values[-1]))
        return function(*values)

    return run


def _constant_call(run: Run) -> Code:
    return constant(run(DeviceView(driver=""), [0]))


def _call(runs: list[Run], function: Implementation) -> Run:
    if len(runs) == 1:
        only = runs[0]
        return lambda device, frame: function(only(device, frame))
    if len(runs) == 2:
        left, right = runs
        return lambda device, frame: function(left(device, frame), right(device, frame))
    return lambda device, frame: function(*[run(device, frame) for run in runs])


def _dispatcher(node: ast.Call, static: list[Type]) -> Implementation:
    table = implementations()
    name = node.function
    if name in _SINGLETONS:
        return _SINGLETONS[name](table)
    if len(node.overloads) == 1 and not any(map(_is_loose, static)):
        return table[node.overloads[0]]
    candidates = [
        (overload, table[overload.id])
        for overload in functions(True)[name]
        if len(overload.args) == len(static) and (overload.id in node.overloads or len(node.overloads) > 1)
    ]
    checks = [(_matcher(overload), implementation) for overload, implementation in candidates]

    def dispatch(*args: Any) -> Any:
        for matches, implementation in checks:
            if matches(args):
                return implementation(*args)
        raise no_overload(name, *args)

    return dispatch


def _is_loose(given: Type) -> bool:
    """Whether a value of this static type may have another type at run time; null fits any object type."""
    return (
        given == NULL or given.kind in ("dyn", "any", "param", "error") or any(map(_is_loose, given.params))
    )


def _matcher(overload: Overload) -> Callable[[tuple[Any, ...]], bool]:
    def matches(args: tuple[Any, ...]) -> bool:
        return all(map(_fits, overload.args, args))

    return matches


def _fits(wanted: Type, value: Any) -> bool:
    """Whether a value may be passed; of lists and maps only the first element is looked at, as upstream
    does."""
    if wanted.kind in ("dyn", "param", "any"):
        return True
    if type_name(value) != wanted.name:
        return False
    if wanted.kind == "list":
        return not value or _fits(wanted.params[0], value[0])
    if wanted.kind == "map":
        return all(
            _fits(wanted.params[0], key) and _fits(wanted.params[1], item)
            for key, item in [*value.items()][:1]
        )
    return True


def _size(table: Any) -> Implementation:
    def size(value: Any) -> int:
        if type(value) not in _SIZED:
            raise lacks("size", value)
        return len(value)

    return size


def _matches(table: Any, constant_pattern: bool = False) -> Implementation:
    search = table["matches"]

    def matches(text: Any, pattern: Any) -> bool:
        if type(text) is not str:
            raise no_overload(*() if constant_pattern else ("matches",))
        if type(pattern) is not str:
            raise no_overload()
        found: bool = search(text, pattern)
        return found

    return matches


def _text_test(overload: str) -> Callable[[Any], Implementation]:
    def choose(table: Any) -> Implementation:
        test = table[overload]

        def run(text: Any, part: Any) -> bool:
            if type(text) is not str or type(part) is not str:
                raise no_overload()
            found: bool = test(text, part)
            return found

        return run

    return choose


def _list_singleton(name: str, overload: str) -> Callable[[Any], Implementation]:
    def choose(table: Any) -> Implementation:
        function = table[overload]

        def run(items: Any, *rest: Any) -> Any:
            if type(items) is not tuple:
                raise lacks(name, items)
            return function(items, *rest)

        return run

    return choose


def _distinct(table: Any) -> Implementation:
    function = table["list_distinct"]

    def run(items: Any) -> Any:
        if type(items) is not tuple:
            raise not_a_list(items)
        return function(items)

    return run


def _flatten(table: Any) -> Implementation:
    function = table["list_flatten"]

    def run(items: Any, *depth: Any) -> Any:
        if depth and type(depth[0]) is not int:
            text = f"internal error: interface conversion: ref.Val is {go_type(depth[0])}, not types.Int"
            raise CelRuntimeError(text, absorbable=False)
        if type(items) is not tuple:
            full = {"map": "map(dyn, dyn)", "optional_type": "optional_type(dyn)"}
            name = full.get(type_name(items), type_name(items))
            raise CelRuntimeError(f"no such overload: {name}.flatten({'int' if depth else ''})")
        return function(items, *depth)

    return run


_SINGLETONS: dict[str, Callable[[Any], Implementation]] = {
    "size": _size,
    "matches": _matches,
    "contains": _text_test("contains_string"),
    "startsWith": _text_test("starts_with_string"),
    "endsWith": _text_test("ends_with_string"),
    "distinct": _distinct,
    "flatten": _flatten,
    "sort": _list_singleton("sort", "list_int_sort"),
    "@sortByAssociatedKeys": _list_singleton("@sortByAssociatedKeys", "list_int_sortBy"),
    "dyn": lambda table: table["to_dyn"],
    "type": lambda table: table["type"],
}
