"""For tests of ``baro.model``: CEL expressions about quantities and versions, asked of our classes.

The oracle's simple expressions are also Python; ``evaluate`` runs them on thin wrappers that carry CEL's
method names. Everything that CEL's checker would have to say something about is left to the tests of ``cel``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from baro.model.quantity import Quantity, QuantityError
from baro.model.semver import SemVer, SemVerError
from tests.support import shared

_NAMES = frozenset({
    "quantity", "isQuantity", "isLessThan", "isGreaterThan", "compareTo", "add", "sub", "sign", "isInteger",
    "asInteger", "asApproximateFloat", "semver", "isSemver", "major", "minor", "patch", "true", "false",
})  # fmt: skip


class CelQuantity:
    """A quantity with CEL's methods."""

    def __init__(self, value: Quantity) -> None:
        self.value = value

    def isLessThan(self, other: CelQuantity) -> bool:
        return self.value < other.value

    def isGreaterThan(self, other: CelQuantity) -> bool:
        return self.value > other.value

    def compareTo(self, other: CelQuantity) -> int:
        return (self.value > other.value) - (self.value < other.value)

    def add(self, other: CelQuantity | int) -> CelQuantity:
        return CelQuantity(self.value + _quantity(other))

    def sub(self, other: CelQuantity | int) -> CelQuantity:
        return CelQuantity(self.value - _quantity(other))

    def sign(self) -> int:
        return self.value.sign

    def isInteger(self) -> bool:
        return self.value.is_integer()

    def asInteger(self) -> int:
        return self.value.as_integer()

    def asApproximateFloat(self) -> float:
        return self.value.as_approximate_float()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelQuantity) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def _quantity(value: CelQuantity | int) -> Quantity:
    return value.value if isinstance(value, CelQuantity) else Quantity.from_int(value)


class CelSemver:
    """A version with CEL's methods."""

    def __init__(self, value: SemVer) -> None:
        self.value = value

    def isLessThan(self, other: CelSemver) -> bool:
        return self.value < other.value

    def isGreaterThan(self, other: CelSemver) -> bool:
        return self.value > other.value

    def compareTo(self, other: CelSemver) -> int:
        return (self.value > other.value) - (self.value < other.value)

    def major(self) -> int:
        return self.value.major

    def minor(self) -> int:
        return self.value.minor

    def patch(self) -> int:
        return self.value.patch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelSemver) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def _semver(text: str, lenient: bool = False) -> CelSemver:
    return CelSemver(SemVer.normalize(text) if lenient else SemVer.parse(text))


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _is_semver(text: str, lenient: bool = False) -> bool:
    try:
        _semver(text, lenient)
    except SemVerError:
        return False
    return True


def evaluate(expression: str) -> Any:
    """What the expression gives, or the text of its error."""
    names = {
        "quantity": lambda text: CelQuantity(Quantity.parse(text)),
        "isQuantity": _is_quantity,
        "semver": _semver,
        "isSemver": _is_semver,
        "true": True,
        "false": False,
    }
    try:
        return eval(expression, {"__builtins__": {}, **names})  # noqa: S307 - names are checked before
    except (QuantityError, SemVerError) as error:
        return str(error)


def is_simple(expression: str) -> bool:
    """Whether ``evaluate`` can run an expression: only our names outside of its strings."""
    bare = re.sub(r"""'[^']*'|"[^"]*\"""", "''", expression)
    return (
        "\\" not in expression
        and set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\d[\d.]*e\d+", "", bare))) <= _NAMES
    )


def cel_answers(*categories: str) -> Iterator[tuple[str, Any]]:
    """Simple expressions of the oracle with upstream's result, or its error text. Skips when absent."""
    with shared.path("data/cel-oracle.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            evaluation = {**(case.get("eval") or {}), **(case.get("v1_37", {}).get("eval") or {})}
            if case["category"] in categories and case["compile"]["ok"] and is_simple(case["expr"]):
                error = evaluation["result"] == "error"
                yield case["expr"], evaluation["error"] if error else evaluation["result"]
