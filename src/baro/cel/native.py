"""CEL values as Go values: the bool that a selector gives, and why a value does not become of some type."""

from __future__ import annotations

from typing import Any

from baro.cel.errors import CelRuntimeError
from baro.cel.values import Optional, type_name

_PLAIN = {"bool": "bool", "list": "list", "map": "map", "double": "Double", "bytes": "Bytes"}
"""Names that upstream writes without quotes."""


def refusal(value: Any, go_type: str) -> str:
    """The words for a value whose type does not suit; ``go_type`` as in ``int64``."""
    name = type_name(value)
    if name == "string":
        return f"unsupported native conversion from string to '{go_type}'"
    if name in ("int", "uint"):
        return f"unsupported type conversion from '{name}' to {go_type}"
    if name == "type":
        return "type conversion not supported for 'type'"
    short = "Format" if name == "kubernetes.NamedFormat" else name.rpartition(".")[2]
    shown = _PLAIN.get(name, f"'{short}'")
    return f"type conversion error from {shown} to '{go_type}'"


def selected(result: Any) -> bool:
    """The result as upstream converts it to a Go bool. Raises ``CelRuntimeError`` when it cannot."""
    try:
        return _native_bool(result)
    except ValueError as error:
        text = f"CEL result of type {type_name(result)} could not be converted to bool: {error}"
        raise CelRuntimeError(text) from None


def _native_bool(value: Any) -> bool:
    """Upstream's conversion of the result to a Go bool; an optional is its value. Raises ``ValueError``."""
    if type(value) is bool:
        return value
    if type(value) is not Optional:
        raise ValueError(refusal(value, "bool"))
    if not value.present:
        raise ValueError("optional.none() dereference")
    return _native_bool(value.value)
