"""Paths of fields and sets of them, as ``fieldsV1`` writes them.

A path is a tuple of elements in the notation of ``fieldsV1``: ``f:spec``, ``k:{"name":"main"}``, ``v:"x"``,
``i:0``. A set of fields is a plain ``frozenset`` of paths, so its algebra is Python's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Path = tuple[str, ...]
Fields = frozenset[Path]
Tree = dict[str, Any]
"""Element → tree below it; the element ``.`` says that the node itself is a member."""


def field(name: str) -> str:
    return f"f:{name}"


def key(values: Mapping[str, Any]) -> str:
    return "k:" + _json(dict(sorted(values.items())))


def value(item: Any) -> str:
    return "v:" + _json(item)


def tree(fields: Iterable[Path]) -> Tree:
    root: Tree = {}
    for path in fields:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return root


def to_fields_v1(fields: Fields) -> dict[str, Any]:
    """The JSON of ``fieldsV1``: a leaf is an empty object, a member with members below it has a ``.``."""

    def shown(node: Tree) -> dict[str, Any]:
        return {} if list(node) == ["."] else {name: shown(node[name]) for name in sorted(node)}

    return {name: shown(node) for name, node in sorted(tree(fields).items())}


def from_fields_v1(document: Any) -> Fields:
    """Raises ``ValueError`` for what is no ``fieldsV1``."""
    found: set[Path] = set()

    def read(node: Any, path: Path) -> None:
        if not isinstance(node, Mapping):
            raise ValueError("fieldsV1 holds objects only")
        if path and (not node or "." in node):
            found.add(path)
        for element, below in node.items():
            if element == ".":
                continue
            read(below, (*path, _canonical(element)))

    read(document, ())
    return frozenset(found)


def below(path: Path, roots: Fields) -> bool:
    """Whether ``path`` is one of ``roots`` or lies under one."""
    return any(path[: len(root)] == root for root in roots)


def text(path: Path) -> str:
    """As conflicts print it: ``.spec.containers[name="main"].image``."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    mark, _, rest = element.partition(":")
    if mark == "f":
        return f".{rest}"
    if mark == "k":
        pairs = json.loads(rest)
        return "[" + ",".join(f"{name}={_json(item)}" for name, item in sorted(pairs.items())) + "]"
    return f"[={rest}]" if mark == "v" else f"[{rest}]"


def _canonical(element: Any) -> str:
    mark, found, rest = str(element).partition(":")
    if not found or mark not in ("f", "k", "v", "i"):
        raise ValueError(f"{element!r} is no element of a path")
    if mark in ("f", "i"):
        return str(element)
    decoded = json.loads(rest)
    if mark == "v":
        return value(decoded)
    if not isinstance(decoded, dict):
        raise ValueError(f"{element!r} names no keys")
    return key(decoded)


def _json(item: Any) -> str:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
