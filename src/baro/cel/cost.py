"""Costs of a selector, and what the API server says to a new one.

``estimate_cost`` gives what an evaluation may cost at most (the server refuses more than ``MAX_COST``);
``Program.evaluate_with_cost`` counts what one did cost. ``admission_problems`` has the server's rules for a
new expression in the server's words; it knows no objects and no field paths.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from baro.cel.ast import Node
from baro.cel.computation import MAX_COST, deep_stack
from baro.cel.cost_bounds import Bounds
from baro.cel.derived import compile_attribute
from baro.cel.environment import EnvironmentName
from baro.cel.errors import CelCompileError
from baro.cel.program import MAX_EXPRESSION_BYTES, Program, compile_selector

CostEstimate = Bounds
"""``min`` and ``max`` in upstream's units; 2**64 - 1 stands for no bound."""


def estimate_cost(selector: Program | Node) -> CostEstimate:
    """Upstream's estimate for a program or a checked tree.

    The two environments do not differ in declared sizes, so the tree (whose types come from one of them) is
    all that is needed.
    """
    if isinstance(selector, Program):
        return selector.cost_estimate
    from baro.cel.cost_estimate import estimate  # noqa: PLC0415 only where costs are asked for

    with deep_stack():
        return estimate(selector)


_CRASH = "PANIC: "


class AdmissionProblem(msgspec.Struct, frozen=True):
    """Why the server refuses a new expression: the reason of the field error, and its detail.

    The server prints ``Too long: …``, ``Invalid value: "<expression>": …``, ``Forbidden: …`` or, for what it
    cannot compute ahead, ``Internal error: …``.
    """

    reason: Literal["Too long", "Invalid value", "Forbidden", "Internal error"]
    detail: str


def admission_problems(
    expression: str, environment: EnvironmentName = "admission", *, derived: bool = False
) -> tuple[AdmissionProblem, ...]:
    """What the API server (1.37) has against a new expression; empty when it is accepted.

    ``derived``: it makes an attribute of the device; else it is a device selector. The length is looked at
    first and alone, then whether it compiles, then the estimated cost. An expression that is stored already
    is not judged again by the server: do not ask for those.
    """
    return _judged(expression, environment, derived)[0]


def _judged(
    expression: str, environment: EnvironmentName, derived: bool
) -> tuple[tuple[AdmissionProblem, ...], int]:
    """The problems, and the estimated cost of what compiles."""
    if len(expression.encode("utf-8", "surrogatepass")) > MAX_EXPRESSION_BYTES:
        detail = f"may not be more than {MAX_EXPRESSION_BYTES} bytes"
        return (AdmissionProblem("Too long", detail),), 0
    try:
        compiled = (compile_attribute if derived else compile_selector)(expression, environment)
    except CelCompileError as error:
        if error.message.startswith(_CRASH):  # the server's compiler does not survive it
            text = f"a real API server crashes on this expression: {error.message.removeprefix(_CRASH)}"
            return (AdmissionProblem("Invalid value", text),), 0
        ahead = error.message.startswith("program instantiation failed: ")
        return (AdmissionProblem("Internal error" if ahead else "Invalid value", error.message),), 0
    cost = compiled.cost_estimate.max
    if cost > MAX_COST:
        return (AdmissionProblem("Forbidden", "too complex, exceeds cost limit"),), cost
    return (), cost


class Report(Protocol):
    """Where field errors are collected; ``baro.model.validation.Problems`` is one."""

    def too_long(self, path: str, limit: int) -> None: ...
    def invalid(self, path: str, value: str, detail: str, /) -> None: ...
    def forbidden(self, path: str, detail: str) -> None: ...


def check_expression(
    report: Report,
    path: str,
    expression: str,
    environment: EnvironmentName = "admission",
    *,
    derived: bool = False,
) -> int:
    """Reports what ``admission_problems`` finds for the expression at ``path``: a validation hook.

    Gives the estimated cost, of which all derived attributes of a claim together have a limit; 0 for what
    does not compile. With the gate DRAListTypeAttributes on, a server compiles new expressions as ``stored``
    ones are; the default is its default. An internal error is reported as an invalid value: reports know no
    other way yet.
    """
    problems, cost = _judged(expression, environment, derived)
    for problem in problems:
        if problem.reason == "Too long":
            report.too_long(path, MAX_EXPRESSION_BYTES)
        elif problem.reason == "Forbidden":
            report.forbidden(path, problem.detail)
        else:
            report.invalid(path, expression, problem.detail)
    return cost
