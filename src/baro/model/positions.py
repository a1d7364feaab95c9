"""Where each field of a document stands: a tree of lines and columns, and look-up by field path.

Built only when somebody asks (an error or a finding needs a line), never while loading.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

Step: TypeAlias = str | int

_STEPS = re.compile(r"\[([^\]]*)\]|\.?([^.\[\]]+)|\.")


class Position(msgspec.Struct):
    """A node: line and column from 1 (of the key, for a mapping entry), and its children by key or index."""

    line: int
    column: int
    children: dict[Step, Position] = {}


def split_path(path: str) -> tuple[Step, ...]:
    """The steps of a field path in the API server's notation.

    ``spec.devices[0].attributes[gpu.example.com/uuid].string`` gives
    ``("spec", "devices", 0, "attributes", "gpu.example.com/uuid", "string")``.
    """
    steps: list[Step] = []
    for match in _STEPS.finditer(path):
        bracket, name = match.groups()
        if bracket is not None:
            steps.append(int(bracket) if bracket.isdecimal() else bracket)
        elif name:
            steps.append(name)
    return tuple(steps)


def locate(root: Position, steps: tuple[Step, ...]) -> Position:
    """The node at ``steps``, or the nearest one above it that exists (a missing field has no line)."""
    node, index = root, 0
    while index < len(steps):
        for end in range(index + 1, len(steps) + 1):  # a key with dots in it, written without brackets
            child = _child(node, steps[index:end])
            if child is not None:
                node, index = child, end
                break
        else:
            return node
    return node


def _child(node: Position, steps: tuple[Step, ...]) -> Position | None:
    if len(steps) > 1:
        return node.children.get(".".join(map(str, steps)))
    found = node.children.get(steps[0])
    return found if found is not None else node.children.get(str(steps[0]))
