"""How the names of fields read in rules: characters that an identifier cannot have are spelled out.

Source: the escaping of ``k8s.io/apiserver/pkg/cel``, part of the API of CustomResourceDefinitions.
"""

from __future__ import annotations

import re
from typing import Final

_RESERVED: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_SPELLED: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ALLOWED: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


def escaped(name: str) -> str | None:
    """The identifier that stands for the field ``name`` in rules; None for a field that has none."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _ALLOWED.fullmatch(name):
        return None
    return re.sub(r"__|[-./]", lambda found: _SPELLED[found[0]], name)
