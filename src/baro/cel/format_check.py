"""``"…".format([…])`` with a constant format and a list literal, judged while compiling."""

from __future__ import annotations

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.errors import Issue, Source
from baro.cel.functions.formatting import WRONG_TYPE, FormatError, clauses

_WANTED = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
}
_PRINTABLE = frozenset(
    [
        "list",
        "map",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "google.protobuf.Timestamp",
        "bytes",
        "google.protobuf.Duration",
        "type",
        "null_type",
        "dyn",
    ]
)


def check_format(node: ast.Call, source: Source, issues: list[Issue]) -> None:
    """Notes what is wrong with a call of ``format``."""
    text, args = node.target, node.args[0]
    if not isinstance(text, ast.Literal) or type(text.value) is not str or not isinstance(args, ast.ListNode):
        return
    used = 0
    try:
        for piece in clauses(text.value):
            if isinstance(piece, str):
                continue
            if piece[0]:
                bad = _unfit(piece[0], args.elements[used - 1])
                if bad is not None:
                    message = f"{WRONG_TYPE[piece[0].lower()]}, was given {bad.type.name}"
                    issues.append(source.issue(bad.at, f"error during formatting: {message}"))
                    return
                continue
            used += 1
            if used > len(args.elements) and piece[1] is None:
                raise FormatError(f"index {used - 1} out of range")
    except FormatError as error:
        issues.append(source.issue(node.at, str(error)))
        return
    if len(args.elements) > used:
        counts = f"(expected {used}, got {len(args.elements)})"
        issues.append(source.issue(node.at, f"too many arguments supplied to string.format {counts}"))


def _unfit(letter: str, node: Node) -> Node | None:
    """The node whose type a clause cannot print, or ``None``."""
    name = node.type.name
    if letter != "s":
        return None if name == "dyn" or name in _WANTED[letter.lower()] else node
    if name not in _PRINTABLE:
        return node
    parts: list[Node] = []
    if isinstance(node, ast.ListNode):
        parts = list(node.elements)
    elif isinstance(node, ast.MapNode):
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
    return next((bad for bad in (_unfit("s", part) for part in parts) if bad is not None), None)
