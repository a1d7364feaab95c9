"""The Common Expression Language as Kubernetes configures it for DRA device selectors.

Parse, check, compile to closures, evaluate one device or the distinct tuples of a column table.
Knows values and columns, not claims, pools or nodes.

``compile_selector(text)`` gives a ``Program``; ``Program.evaluate(DeviceView)`` answers for one device,
``Program.explain`` tells the outcome of each of its conditions, and ``baro.cel.columns.evaluate_columns``
(the only part that needs NumPy) answers for a whole table.
"""

from baro.cel.computation import MAX_COST
from baro.cel.cost import (
    AdmissionProblem,
    CostEstimate,
    admission_problems,
    check_expression,
    estimate_cost,
)
from baro.cel.derived import AttributeProgram, AttributeValue, compile_attribute
from baro.cel.device import ColumnRef, DeviceView, Value, view_of
from baro.cel.errors import CelCompileError, CelRuntimeError, Issue
from baro.cel.explanation import Clause, Reading
from baro.cel.program import MAX_EXPRESSION_BYTES, CountedResult, Program, compile_selector

__all__ = [
    "MAX_COST",
    "MAX_EXPRESSION_BYTES",
    "AdmissionProblem",
    "AttributeProgram",
    "AttributeValue",
    "CelCompileError",
    "CelRuntimeError",
    "Clause",
    "ColumnRef",
    "CostEstimate",
    "CountedResult",
    "DeviceView",
    "Issue",
    "Program",
    "Reading",
    "Value",
    "admission_problems",
    "check_expression",
    "compile_attribute",
    "compile_selector",
    "estimate_cost",
    "view_of",
]
