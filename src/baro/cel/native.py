"""Why upstream cannot turn a CEL value into a Go value of some type."""

from __future__ import annotations

from typing import Any

from baro.cel.values import type_name

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
