"""Operators as closures: logic, comparison, arithmetic, access and membership."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from baro.cel import ast, operators
from baro.cel.code import Code, Frame, PlanError, Run, constant
from baro.cel.compilation import Compilation
from baro.cel.device import DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.function_calls import function_code
from baro.cel.values import (
    UNHASHABLE,
    BoolKey,
    Map,
    Optional,
    UInt,
    compare,
    equal,
    equal_or_false,
    no_overload,
    not_a_list,
    unhashable,
)

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
    "_[_]": operators.index,
    "_[?_]": operators.optional_index,
}


def compile_call(compiler: Compilation, node: ast.Call) -> Code:
    """The closure of a call or operator."""
    special = _SPECIAL.get(node.function)
    if special is not None and node.target is None:
        return special(compiler, node)
    if node.function in ("or", "orValue"):
        return _optional_or(compiler, node)
    return function_code(compiler, node)


# --- logic -------------------------------------------------------------------------------------------------


def _logic(decisive: bool) -> Callable[[Compilation, ast.Call], Code]:
    """``&&`` is decided by false, ``||`` by true; an error or a non-bool only counts when nothing decides."""
    return lambda compiler, node: Code(logic_run(decisive, [compiler.compile(arg).run for arg in node.args]))


def logic_run(decisive: bool, terms: Sequence[Run]) -> Run:
    """A chain of ``||`` (decided by true) or ``&&`` (by false)."""

    def run(device: DeviceView, frame: Frame) -> Any:
        failure: CelRuntimeError | None = None
        for term in terms:
            try:
                value = term(device, frame)
            except CelRuntimeError as error:
                if not error.absorbable:
                    raise
                failure = failure or error
                continue
            if value is decisive:
                return decisive
            if type(value) is not bool:
                failure = failure or CelRuntimeError("no such overload")
        if failure is not None:
            raise failure
        return not decisive

    return run


def _conditional(compiler: Compilation, node: ast.Call) -> Code:
    condition, when_true, when_false = (compiler.compile(arg).run for arg in node.args)

    def run(device: DeviceView, frame: Frame) -> Any:
        chosen = condition(device, frame)
        if type(chosen) is not bool:
            raise no_overload()
        return when_true(device, frame) if chosen else when_false(device, frame)

    return Code(run)


def _not_strictly_false(compiler: Compilation, node: ast.Call) -> Code:
    inner = compiler.compile(node.args[0]).run

    def run(device: DeviceView, frame: Frame) -> bool:
        try:
            return inner(device, frame) is not False
        except CelRuntimeError as error:
            if not error.absorbable:
                raise
            return True

    return Code(run)


# --- comparison --------------------------------------------------------------------------------------------


def _equals(compiler: Compilation, node: ast.Call) -> Code:
    left, right = (compiler.compile(arg) for arg in node.args)
    run_left, run_right = left.run, right.run
    _note_comparison(compiler, node, left, right)
    if right.constant and type(right.value) in (str, int, bool):
        wanted, kind = right.value, type(right.value)

        def same(device: DeviceView, frame: Frame) -> bool:
            value = run_left(device, frame)
            return value == wanted if type(value) is kind else equal(value, wanted)

        return Code(same)
    return Code(lambda device, frame: equal(run_left(device, frame), run_right(device, frame)))


def _differs(compiler: Compilation, node: ast.Call) -> Code:
    left_code, right_code = (compiler.compile(arg) for arg in node.args)
    _note_comparison(compiler, node, left_code, right_code)
    left, right = left_code.run, right_code.run
    return Code(lambda device, frame: not equal_or_false(left(device, frame), right(device, frame)))


def _note_comparison(compiler: Compilation, node: ast.Call, left: Code, right: Code) -> None:
    if right.constant:
        compiler.note_comparison(node.args[0], (right.value,))
    elif left.constant:
        compiler.note_comparison(node.args[1], (left.value,))


def _ordering(operator: str, accept: Callable[[int], bool]) -> Callable[[Compilation, ast.Call], Code]:
    def build(compiler: Compilation, node: ast.Call) -> Code:
        left, right = (compiler.compile(arg).run for arg in node.args)

        def run(device: DeviceView, frame: Frame) -> bool:
            return accept(compare(left(device, frame), right(device, frame), operator))

        return Code(run)

    return build


# --- operators ---------------------------------------------------------------------------------------------


def _binary(compiler: Compilation, node: ast.Call) -> Code:
    left, key = compiler.compile(node.args[0]).run, compiler.compile(node.args[1])
    if node.function in ("_[_]", "_[?_]") and key.constant:
        _plan_key(key.value)
    path = compiler.path(node.args[0])
    if node.function == "_[_]" and path is not None and len(path.keys) == 2 and not path.optional:
        return Code(_computed_key(left, path.keys, key.run))
    right = key.run
    operate = _BINARY[node.function]
    return Code(lambda device, frame: operate(left(device, frame), right(device, frame)))


def _computed_key(left: Run, keys: tuple[str, ...], key: Run) -> Run:
    """``device.attributes["domain"][key]``: without making a map of the domain each time."""
    field, domain = keys

    def run(device: DeviceView, frame: Frame) -> Any:
        name = key(device, frame)
        if type(name) is not str:
            return operators.index(left(device, frame), name)
        try:
            return (device.attributes if field == "attributes" else device.capacity)[domain][name]
        except KeyError:
            raise CelRuntimeError(f"no such key: {name}") from None

    return run


def _plan_key(key: Any) -> None:
    try:
        operators.check_key(key)
    except CelRuntimeError as error:
        raise PlanError(error.message) from None


def _unary(operate: Callable[[Any], Any]) -> Callable[[Compilation, ast.Call], Code]:
    def build(compiler: Compilation, node: ast.Call) -> Code:
        operand = compiler.compile(node.args[0]).run
        return Code(lambda device, frame: operate(operand(device, frame)))

    return build


def _membership(compiler: Compilation, node: ast.Call) -> Code:
    element, container = node.args
    path = compiler.path(container)
    if (
        path is not None
        and not path.optional
        and isinstance(element, ast.Literal)
        and type(element.value) is str
    ):
        presence = compiler.presence(path, element.value)
        if presence is not None:
            return presence
    left, right = compiler.compile(element).run, compiler.compile(container)
    if right.constant and type(right.value) is tuple and node.overloads == ("in_list",):
        if not right.value:
            return constant(False)
        if all(type(item) in (bool, int, UInt, float, str) for item in right.value):
            compiler.note_comparison(element, right.value)
            return Code(_constant_set(left, right.value))
    run_right = right.run
    maybe_list = node.overloads == ("in_list",)

    def run(device: DeviceView, frame: Frame) -> bool:
        wanted, found = left(device, frame), run_right(device, frame)
        if type(found) is not tuple and type(found) is not Map:
            if maybe_list:
                raise not_a_list(found)
            raise no_overload()
        return operators.contains(wanted, found)

    return Code(run)


def _constant_set(element: Run, values: tuple[Any, ...]) -> Run:
    """``x in ["a", "b"]``: upstream hashes x, and panics on a value that Go cannot hash."""
    wanted = frozenset(BoolKey(value) if type(value) is bool else value for value in values)

    def run(device: DeviceView, frame: Frame) -> bool:
        value = element(device, frame)
        kind = type(value)
        if kind is str or kind is int:
            return value in wanted
        if kind in UNHASHABLE:
            raise unhashable(value)
        if kind is bool:
            return BoolKey(value) in wanted
        return kind in (UInt, float) and value in wanted

    return run


def _optional_or(compiler: Compilation, node: ast.Call) -> Code:
    """``a.or(b)`` and ``a.orValue(b)``; b only runs when it is needed."""
    target = node.target
    assert target is not None  # noqa: S101 both are methods
    left, right = compiler.compile(target).run, compiler.compile(node.args[0]).run
    unwrap = node.function == "orValue"

    def run(device: DeviceView, frame: Frame) -> Any:
        value = left(device, frame)
        if type(value) is not Optional:
            raise no_overload()
        if value.present:
            return value.value if unwrap else value
        return right(device, frame)

    return Code(run)


_SPECIAL: dict[str, Callable[[Compilation, ast.Call], Code]] = {
    "_&&_": _logic(False),
    "_||_": _logic(True),
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
    "_==_": _equals,
    "_!=_": _differs,
    "_<_": _ordering("_<_", lambda order: order < 0),
    "_<=_": _ordering("_<=_", lambda order: order <= 0),
    "_>_": _ordering("_>_", lambda order: order > 0),
    "_>=_": _ordering("_>=_", lambda order: order >= 0),
    "@in": _membership,
    "-_": _unary(operators.negate),
    "!_": _unary(operators.logical_not),
} | dict.fromkeys(_BINARY, _binary)
