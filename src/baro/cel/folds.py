"""Folds and bindings as closures: the loops behind ``all``, ``exists``, ``map``, ``filter`` and their kin.

An error inside a fold is kept in the accumulator, as CEL does, so that ``exists`` can still find a true
element. Each round of a loop is charged against the work limit by the size of its body: a rough stand-in for
upstream's run-time cost that keeps nested folds over long lists from running for minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from baro.cel import ast
from baro.cel.ast import Node, walk
from baro.cel.code import Code, Failure, Frame, Run
from baro.cel.compilation import Compilation
from baro.cel.device import DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.values import Map, go_type, no_overload

WORK_LIMIT = 1_000_000  # upstream's run-time cost limit for device selectors
LIMIT_MESSAGE = "operation cancelled: actual cost limit exceeded"


def load(slot: int) -> Run:
    """Read a variable; a stored error is raised."""

    def run(device: DeviceView, frame: Frame) -> Any:
        value = frame[slot]
        if type(value) is Failure:
            raise value.error
        return value

    return run


def bind(slot: int, value: Run, body: Run) -> Run:
    """``cel.bind``: the value's error only matters when the variable is read."""

    def run(device: DeviceView, frame: Frame) -> Any:
        frame[slot] = _kept(value, device, frame)
        return body(device, frame)

    return run


def _kept(run: Run, device: DeviceView, frame: Frame) -> Any:
    try:
        return run(device, frame)
    except CelRuntimeError as error:
        if not error.absorbable:
            raise
        return Failure(error)


def weight(node: Node) -> int:
    """Work of one round: nodes that upstream charges for."""
    return 1 + sum(isinstance(part, (ast.Ident, ast.Call, ast.Select)) for part, _ in walk(node))


def compile_fold(compiler: Compilation, node: ast.Comprehension) -> Code:
    """The loop of a comprehension node."""
    over = compiler.compile(node.range).run
    init = compiler.compile(node.init).run
    accu, first = compiler.slot(), compiler.slot()
    second = compiler.slot() if node.var2 is not None else None
    compiler.scopes.append({node.accu: accu})
    names: dict[str, Any] = {node.var: first}
    if node.var2 is not None and second is not None:
        names[node.var2] = second
    compiler.scopes.append(names)
    quantifier = quantified(node)
    if quantifier is not None:
        body = compiler.compile(quantifier[1]).run
        del compiler.scopes[-2:]
        charge = weight(node.step) + weight(node.condition)
        return Code(_search(over, (first, second), body, (quantifier[0], charge)))
    condition = None if _always(node.condition) else compiler.compile(node.condition).run
    appended = appended_to(node)
    if appended is None:
        step = compiler.compile(node.step).run
    else:
        when = compiler.compile(appended[0]).run if appended[0] is not None else None
        element = compiler.compile(appended[1]).run
    compiler.scopes.pop()
    result = compiler.compile(node.result).run
    compiler.scopes.pop()
    charge = weight(node.step) + (0 if condition is None else weight(node.condition))
    if appended is not None:
        return Code(_collect(over, (accu, first, second), when, element, (result, charge)))
    return Code(_loop(over, (accu, first, second), (init, condition, step, result), charge))


def quantified(node: ast.Comprehension) -> tuple[bool, Node] | None:
    """(what decides, body) of ``exists`` (true) and ``all`` (false)."""
    step = node.step
    if not isinstance(step, ast.Call) or step.function not in ("_||_", "_&&_") or len(step.args) != 2:
        return None
    starts = node.init.value if isinstance(node.init, ast.Literal) else None
    if (
        type(starts) is not bool
        or not _is_name(node.result, node.accu)
        or not _is_name(step.args[0], node.accu)
    ):
        return None
    return not starts, step.args[1]


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, ast.Ident) and node.name == name


def _search(over: Run, slots: tuple[int, int | None], body: Run, rest: tuple[bool, int]) -> Run:
    """``exists`` and ``all``: ends at the first element that decides; else the first failure counts."""
    first, second = slots
    decisive, charge = rest

    def run(device: DeviceView, frame: Frame) -> bool:
        failure: CelRuntimeError | None = None
        for one, other in rounds(over(device, frame), second is not None):
            frame[0] -= charge
            if frame[0] < 0:
                raise CelRuntimeError(LIMIT_MESSAGE, absorbable=False)
            frame[first] = one
            if second is not None:
                frame[second] = other
            try:
                value: object = body(device, frame)
            except CelRuntimeError as error:
                if not error.absorbable:
                    raise
                failure = failure or error
                continue
            if value is decisive:
                return decisive
            if type(value) is not bool:
                failure = failure or no_overload()
        if failure is not None:
            raise failure
        return not decisive

    return run


def _always(node: Node) -> bool:
    return isinstance(node, ast.Literal) and node.value is True


def appended_to(node: ast.Comprehension) -> tuple[Node | None, Node] | None:
    """(filter, element) when the step only appends to a list: ``map``, ``filter``, ``transformList``."""
    step, when = node.step, None
    if isinstance(step, ast.Call) and step.function == "_?_:_":
        when, step = step.args[0], step.args[1]
    if not isinstance(node.init, ast.ListNode) or not isinstance(step, ast.Call) or step.function != "_+_":
        return None
    added = step.args[1]
    return (when, added.elements[0]) if isinstance(added, ast.ListNode) and added.elements else None


def counted(node: ast.Comprehension) -> Node | None:
    """The condition of ``exists_one``."""
    step, result = node.step, node.result
    if not isinstance(node.init, ast.Literal) or type(node.init.value) is not int or node.init.value != 0:
        return None
    if not isinstance(step, ast.Call) or step.function != "_?_:_" or not _always(node.condition):
        return None
    added, kept = step.args[1], step.args[2]
    if not _is_call(added, "_+_", node.accu) or not _is_name(kept, node.accu):
        return None
    return step.args[0] if _is_call(result, "_==_", node.accu) else None


def _is_call(node: Node, function: str, accu: str) -> bool:
    """``accu <function> 1``."""
    if not isinstance(node, ast.Call) or node.function != function or len(node.args) != 2:
        return False
    one = node.args[1]
    return (
        _is_name(node.args[0], accu)
        and isinstance(one, ast.Literal)
        and type(one.value) is int
        and one.value == 1
    )


def collected(node: ast.Comprehension) -> tuple[Node | None, Node] | None:
    """(filter, element) of a fold that makes a list and nothing more."""
    if not _always(node.condition) or not _is_name(node.result, node.accu):
        return None
    return appended_to(node)


def rounds(value: Any, two: bool) -> Iterable[tuple[Any, Any]]:
    """What a fold walks over: values of its one or two variables. Raises for what cannot be walked."""
    if type(value) is tuple:
        return enumerate(value) if two else ((item, None) for item in value)
    if isinstance(value, Map):
        return value.items()
    if two:
        raise CelRuntimeError(f"unsupported comprehension range type: {go_type(value)}")
    raise CelRuntimeError(f"got '{go_type(value)}', expected iterable type")


def spend(frame: Frame, charge: int) -> None:
    frame[0] -= charge
    if frame[0] < 0:
        raise CelRuntimeError(LIMIT_MESSAGE, absorbable=False)


def _loop(
    over: Run, slots: tuple[int, int, int | None], parts: tuple[Run, Run | None, Run, Run], charge: int
) -> Run:
    accu, first, second = slots
    init, condition, step, result = parts

    def run(device: DeviceView, frame: Frame) -> Any:
        pairs = rounds(over(device, frame), second is not None)
        frame[accu] = init(device, frame)
        for one, other in pairs:
            spend(frame, charge)
            frame[first] = one
            if second is not None:
                frame[second] = other
            if condition is not None and condition(device, frame) is False:
                break
            frame[accu] = _kept(step, device, frame)
        return result(device, frame)

    return run


def _collect(
    over: Run, slots: tuple[int, int, int | None], when: Run | None, element: Run, rest: tuple[Run, int]
) -> Run:
    accu, first, second = slots
    result, charge = rest

    def run(device: DeviceView, frame: Frame) -> Any:
        found: list[Any] = []
        failure: Failure | None = None
        for one, other in rounds(over(device, frame), second is not None):
            spend(frame, charge)
            frame[first] = one
            if second is not None:
                frame[second] = other
            if when is not None:
                wanted = _kept(when, device, frame)
                if type(wanted) is Failure:
                    failure = wanted  # a filter's error replaces what was collected
                    continue
                if type(wanted) is not bool:
                    raise no_overload()
                if not wanted:
                    continue
            if failure is None:
                value = _kept(element, device, frame)
                if type(value) is Failure:
                    failure = value
                else:
                    found.append(value)
        frame[accu] = failure if failure is not None else tuple(found)
        return result(device, frame)

    return run
