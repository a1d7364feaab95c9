"""JSON patch (RFC 6902) with JSON pointers (RFC 6901). The operations apply all or not at all."""

from __future__ import annotations

import copy
import re
from typing import Any

from baro.apiserver.patching.problems import PatchError, Problem

MAX_OPERATIONS = 10_000
_INDEX = re.compile(r"0|[1-9][0-9]*")
_NEEDS = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("path", "from"),
    "copy": ("path", "from"),
    "test": ("path", "value"),
}


def apply_json_patch(document: Any, operations: Any) -> Any:
    """The patched copy. ``operations`` is what the patch body decodes to."""
    if not isinstance(operations, list):
        raise PatchError(
            Problem.MALFORMED,
            f"json: cannot unmarshal {_go_type(operations)} into Go value of type jsonpatch.Patch",
        )
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            Problem.TOO_LONG,
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    result = copy.deepcopy(document)
    for operation in operations:
        result = _apply(result, operation)
    return result


def _apply(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise PatchError(
            Problem.MALFORMED,
            f"json: cannot unmarshal {_go_type(operation)} into Go value of type jsonpatch.Operation",
        )
    op = operation.get("op")
    if op not in _NEEDS:
        raise PatchError(Problem.MISFIT, f"Unexpected kind: {op}")
    for member in _NEEDS[op]:
        if member not in operation:
            raise PatchError(Problem.MISFIT, f"{op} operation: missing {member}")
    path = _pointer(operation["path"])
    if op == "remove":
        return _remove(document, path)[0]
    if op == "test":
        if not same(_find(document, path), operation["value"]):
            raise PatchError(Problem.MISFIT, f"testing value {operation['path']} failed: test failed")
        return document
    if op == "replace":
        _find(document, path)
        return _replace(document, path, copy.deepcopy(operation["value"]))
    if op == "add":
        return _add(document, path, copy.deepcopy(operation["value"]))
    origin = _pointer(operation["from"])
    if op == "copy":
        return _add(document, path, copy.deepcopy(_find(document, origin)))
    if len(path) > len(origin) and path[: len(origin)] == origin:
        raise PatchError(Problem.MISFIT, "cannot move a value into one of its children")
    document, moved = _remove(document, origin)
    return _add(document, path, moved)


def same(left: Any, right: Any) -> bool:
    """JSON equality: numbers by value, and ``true`` is not ``1``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(Problem.MISFIT, f"invalid JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(document: Any, path: list[str]) -> Any:
    node = document
    for depth, part in enumerate(path):
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list):
            node = node[_index(node, part, path, past_end=False)]
        else:
            raise _missing(path[: depth + 1])
    return node


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _find(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        index = len(parent) if path[-1] == "-" else _index(parent, path[-1], path, past_end=True)
        parent.insert(index, value)
    else:
        raise _missing(path)
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _find(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(parent, path[-1], path, past_end=False)] = value
    else:
        parent[path[-1]] = value
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    removed = _find(document, path)
    if not path:
        return None, removed
    parent = _find(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(parent, path[-1], path, past_end=False)]
    else:
        del parent[path[-1]]
    return document, removed


def _index(array: list[Any], part: str, path: list[str], *, past_end: bool) -> int:
    if not _INDEX.fullmatch(part) or len(part) > 9 or int(part) >= len(array) + past_end:
        raise _missing(path)
    return int(part)


def _missing(path: list[str]) -> PatchError:
    return PatchError(Problem.MISFIT, f"doc is missing path: /{'/'.join(path)}: missing value")


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    names: dict[type, str] = {str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null")
