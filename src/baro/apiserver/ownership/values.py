"""What server-side apply does to values: their fields, comparison, merge and removal.

Source: ``typed/tofieldset.go``, ``compare.go``, ``merge.go`` and ``remove.go`` of structured-merge-diff.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from baro.apiserver.ownership import paths
from baro.apiserver.ownership.paths import Fields, Path, Tree
from baro.apiserver.ownership.shapes import Shape
from baro.apiserver.patching import go_map

MISSING: Final = object()


class Comparison(msgspec.Struct, frozen=True):
    """Fields that only the new value has, only the old one had, and that differ."""

    added: Fields
    removed: Fields
    modified: Fields


def elements(items: list[Any], shape: Shape) -> list[str] | None:
    """The path element of every item of a set or keyed list; None when they do not tell the items apart."""
    found: list[str] = []
    for item in items:
        if shape.relation == "set":
            if isinstance(item, dict | list):
                return None
            found.append(paths.value(item))
            continue
        if not isinstance(item, Mapping):
            return None
        values = {name: item.get(name, default) for name, default in shape.keys.items()}
        known = {name: value for name, value in values.items() if value is not None}
        if not known:
            return None
        found.append(paths.key(known))
    return found if len(set(found)) == len(found) else None


def fields_of(value: Any, shape: Shape) -> Fields:
    """All fields that an applied ``value`` claims."""
    found: set[Path] = set()

    def walk(node: Any, shape: Shape, path: Path) -> None:
        names = elements(node, shape) if _is_list(node, shape) else None
        if names is not None:
            for item, name in zip(node, names, strict=True):
                found.add((*path, name))
                walk(item, shape.item(), (*path, name))
        elif isinstance(node, Mapping) and shape.relation == "granular":
            for name, item in node.items():
                here = (*path, paths.field(name))
                walk(item, shape.child(name), here)
                if item is None or item == {} or not shape.declares(name):
                    found.add(here)
        elif path:
            found.add(path)

    walk(value, shape, ())
    return frozenset(found)


def compare(old: Any, new: Any, shape: Shape) -> Comparison:
    added: set[Path] = set()
    removed: set[Path] = set()
    modified: set[Path] = set()

    def walk(left: Any, right: Any, shape: Shape, path: Path) -> None:
        if left is right or (left is not MISSING and left == right):
            return
        children = _children(left, right, shape)
        for element, before, after, below in children or ():
            walk(before, after, below, (*path, element))
        if left is MISSING:
            added.add(path)
        elif right is MISSING:
            removed.add(path)
        elif children is None and left != right:
            modified.add(path)

    walk(old, new, shape, ())
    root = {()}
    return Comparison(frozenset(added - root), frozenset(removed - root), frozenset(modified - root))


def _children(left: Any, right: Any, shape: Shape) -> list[tuple[str, Any, Any, Shape]] | None:
    """The parts to compare one by one; None for a leaf. Two empty values are a leaf too."""
    if shape.relation == "granular" and _fits(left, dict) and _fits(right, dict):
        if not _filled(left) and not _filled(right):
            return None
        before, after = _mapping(left), _mapping(right)
        names = dict.fromkeys((*before, *after))
        return [
            (paths.field(name), before.get(name, MISSING), after.get(name, MISSING), shape.child(name))
            for name in names
        ]
    if shape.relation in ("set", "keyed") and _fits(left, list) and _fits(right, list):
        if not _filled(left) and not _filled(right):
            return None
        old = _indexed(left, shape)
        new = _indexed(right, shape)
        if old is None or new is None:
            return None
        item = shape.item()
        return [(n, old.get(n, MISSING), new.get(n, MISSING), item) for n in dict.fromkeys((*old, *new))]
    return None


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """``config`` laid over ``live``; atomic parts are replaced as a whole."""
    if shape.relation == "granular" and isinstance(live, Mapping) and isinstance(config, Mapping):
        merged = dict(live)
        for name, value in config.items():
            merged[name] = merge(live[name], value, shape.child(name)) if name in live else value
        return merged
    if _is_list(live, shape) and _is_list(config, shape):
        left, right = elements(live, shape), elements(config, shape)
        if left is not None and right is not None:
            return _merge_lists(
                dict(zip(left, live, strict=True)), dict(zip(right, config, strict=True)), shape.item()
            )
    return config


def _merge_lists(left: dict[str, Any], right: dict[str, Any], item: Shape) -> list[Any]:
    """Applied items in their order; those that only the live list has keep their place before the others."""
    before, after = list(left), list(right)
    shared = [name for name in after if name in left]
    merged: list[Any] = []
    done: set[str] = set()

    def take(name: str) -> None:
        done.add(name)
        merged.append(merge(left[name], right[name], item) if name in left else right[name])
        if shared and shared[0] == name:
            shared.pop(0)

    at, to = 0, 0
    while at < len(before) or to < len(after):
        if at < len(before):
            name = before[at]
            if to < len(after) and name == after[to]:
                take(name)
                at, to = at + 1, to + 1
                continue
            if name in right and (name in done or (to < len(after) and shared and shared[0] != name)):
                at += 1
                continue
            if name not in right:
                merged.append(left[name])
                at += 1
                continue
        if to < len(after):
            take(after[to])
            to += 1
    return merged


def remove(value: Any, shape: Shape, unwanted: Tree) -> Any:
    """``value`` without the fields and items that ``unwanted`` has as members."""
    if isinstance(value, Mapping) and shape.relation == "granular":
        kept = {}
        for name, item in value.items():
            below = unwanted.get(paths.field(name), {})
            if "." not in below:
                kept[name] = remove(item, shape.child(name), below) if below else item
        return kept
    names = elements(value, shape) if _is_list(value, shape) else None
    if names is None:
        return value
    left = []
    for item, name in zip(value, names, strict=True):
        below = unwanted.get(name, {})
        if "." not in below:
            left.append(remove(item, shape.item(), below) if below else item)
    return left


def with_named(fields: Fields, shape: Shape) -> Fields:
    """``fields`` and every struct on the way to one of them."""
    found = set(fields)

    def walk(node: Tree, shape: Shape, path: Path) -> None:
        for element, below in node.items():
            if element == ".":
                continue
            name = element.partition(":")[2]
            here = (*path, element)
            if element.startswith("f:"):
                if len(below) > ("." in below) and shape.declares(name):
                    found.add(here)
                walk(below, shape.child(name), here)
            else:
                walk(below, shape.item(), here)

    walk(paths.tree(fields), shape, ())
    return frozenset(found)


def misfits(value: Any, shape: Shape, path: Path = ()) -> list[str]:
    """What does not fit the schema: unknown fields, and values of another type. In the server's words."""
    wrong = _wrong_type(value, shape)
    if wrong:
        return [f"{paths.text(path)}: {wrong}"]
    if isinstance(value, list):
        item = shape.item()
        names = elements(value, shape) if _is_list(value, shape) else None
        places = names or [f"i:{index}" for index in range(len(value))]
        pairs = zip(places, value, strict=True)
        return [found for place, entry in pairs for found in misfits(entry, item, (*path, place))]
    if not isinstance(value, Mapping):
        return []
    found: list[str] = []
    for name, entry in value.items():
        here = (*path, paths.field(str(name)))
        if shape.closed and not shape.declares(str(name)):
            found.append(f"{paths.text(here)}: field not declared in schema")
        else:
            found += misfits(entry, shape.child(str(name)), here)
    return found


_KINDS: Final = {bool: "boolean", str: "string", int: "number", float: "number", list: "list", dict: "map"}


def _wrong_type(value: Any, shape: Shape) -> str:
    kind = _KINDS.get(type(value), "")
    if value is None or not shape.expects or kind == shape.expects:
        return ""
    if shape.expects == "string":
        return f"expected string, got &value.valueUnstructured{{Value:{go_map(value)}}}"
    if shape.expects == "number":
        names = {"boolean": "bool", "list": "[]interface {}", "map": "map[string]interface {}"}
        return f"expected numeric (int or float), got {names.get(kind, kind)}"
    return f"expected {shape.expects}, got &{{{go_map(value)}}}"


def _is_list(value: Any, shape: Shape) -> bool:
    return isinstance(value, list) and shape.relation in ("set", "keyed")


def _fits(value: Any, wanted: type) -> bool:
    return value is MISSING or value is None or isinstance(value, wanted)


def _filled(value: Any) -> bool:
    return value is not MISSING and bool(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _indexed(value: Any, shape: Shape) -> dict[str, Any] | None:
    if not isinstance(value, list):
        return {}
    names = elements(value, shape)
    return dict(zip(names, value, strict=True)) if names is not None else None
