"""Strategic merge patch: a merge patch that knows which lists merge by key.

The rules are those of ``k8s.io/apimachinery/pkg/util/strategicpatch``, with its directives ``$patch``,
``$retainKeys``, ``$deleteFromPrimitiveList/<field>`` and ``$setElementOrder/<field>``. One of its habits
surprises: elements that a patch adds to a list come before those that only the server has, unless
``$setElementOrder`` says otherwise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from baro.apiserver.patching.problems import PatchError, Problem
from baro.model.schema import Field, ObjectType, TypeRef, resolve

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_PREFIX = "$deleteFromPrimitiveList/"
_ORDER_PREFIX = "$setElementOrder/"


def apply_strategic_patch(document: dict[str, Any], patch: Any, shape: ObjectType | None) -> dict[str, Any]:
    """The patched copy. ``shape`` is the type of the document; unknown fields merge as plain JSON."""
    if not isinstance(patch, dict):
        raise PatchError(Problem.MALFORMED, "Invalid JSON Patch")
    return _merge_map(copy.deepcopy(document), copy.deepcopy(patch), shape)


def _merge_map(original: dict[str, Any], patch: dict[str, Any], shape: ObjectType | None) -> dict[str, Any]:
    """Merges into ``original``, consuming ``patch``."""
    if _DIRECTIVE in patch:
        return _replaced_map(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, shape)
    for name, value in patch.items():
        deleting = name.startswith(_DELETE_PREFIX)
        key = name.removeprefix(_DELETE_PREFIX)
        if value is None:
            original.pop(key, None)
        elif key not in original or _json_type(original[key]) is not _json_type(value):
            if not deleting:
                original[key] = _without_directives(value)
        elif isinstance(value, dict):
            original[key] = _merge_field_map(original[key], value, _field(shape, key))
        elif isinstance(value, list):
            original[key] = _merge_field_list(original[key], value, _field(shape, key), deleting=deleting)
        else:
            original[key] = value
    return original


def _replaced_map(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise PatchError(Problem.MISFIT, f"unknown patch type: {directive}")


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN not in patch:
        return
    keep = patch.pop(_RETAIN)
    bare = {key for key in patch if not key.startswith("$")}
    if not isinstance(keep, list) or not bare <= set(map(str, keep)):
        raise PatchError(Problem.MALFORMED, "invalid patch format of retainKeys")
    for key in [key for key in original if key not in keep]:
        del original[key]


def _merge_field_map(original: dict[str, Any], patch: dict[str, Any], field: Field | None) -> dict[str, Any]:
    if field is not None and "replace" in field.patch_strategy:
        replaced: dict[str, Any] = _without_directives(patch)
        return replaced
    return _merge_map(original, patch, _shape(field.type if field else None))


def _merge_field_list(
    original: list[Any], patch: list[Any], field: Field | None, *, deleting: bool = False
) -> list[Any]:
    if field is None or "merge" not in field.patch_strategy:
        replaced: list[Any] = _without_directives(patch)
        return replaced
    if field.merge_key is None:
        if deleting:
            return [item for item in original if item not in patch]
        if any(isinstance(item, dict | list) for item in original + patch):
            raise PatchError(Problem.MISFIT, "expected primitives in a list without a merge key")
        merged = list(dict.fromkeys(original + patch))
        return _ordered(merged, patch, original, lambda item: item)
    return _merge_keyed_list(original, patch, field.merge_key, _shape(field.type.items))


def _merge_keyed_list(original: list[Any], patch: list[Any], key: str, shape: ObjectType | None) -> list[Any]:
    for item in patch:
        if not isinstance(item, dict):
            raise PatchError(Problem.MISFIT, "expected map type, or unsupported primitive in a keyed list")
    original, patch = _special_elements(original, patch, key)
    merged = list(original)
    for item in patch:
        identity = _identity(item, key)
        for position, present in enumerate(merged):
            if isinstance(present, dict) and present.get(key) == identity:
                merged[position] = _merge_map(dict(present), dict(item), shape)
                break
        else:
            merged.append(_without_directives(item))
    return _ordered(merged, patch, original, lambda item: _identity(item, key))


def _special_elements(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carries out the elements with ``$patch``; returns what is left of both lists."""
    rest, replace = [], False
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if directive is None:
            rest.append(item)
        elif directive == "delete":
            identity = _identity(item, key)
            original = [present for present in original if present.get(key) != identity]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise PatchError(Problem.MISFIT, "merge patch type is not supported for list elements")
        else:
            raise PatchError(Problem.MISFIT, f"unknown patch type: {directive}")
    return ([], rest) if replace else (original, rest)


def _merge_ordered_lists(original: dict[str, Any], patch: dict[str, Any], shape: ObjectType | None) -> None:
    """Merges every list that has a ``$setElementOrder``, and takes both out of the patch."""
    for name in [name for name in patch if name.startswith(_ORDER_PREFIX)]:
        order, key = patch.pop(name), name.removeprefix(_ORDER_PREFIX)
        before, change = original.get(key), patch.pop(key, None)
        if (
            not isinstance(order, list)
            or not isinstance(before or [], list)
            or not isinstance(change or [], list)
        ):
            raise PatchError(Problem.MISFIT, f"invalid argument: {name} and {key} must be lists")
        field = _field(shape, key)
        identify = _identifier(field)
        wanted = [identify(item) for item in order]
        for item in change or []:
            if not (isinstance(item, dict) and _DIRECTIVE in item) and identify(item) not in wanted:
                raise PatchError(
                    Problem.MALFORMED,
                    f"The order in patch list:\n{change}\n doesn't match "
                    f"{_ORDER_PREFIX[:-1]} list:\n{order}\n",
                )
        if before is None and change is None:
            continue
        if before is None:
            merged = _without_directives(change)
        elif change is None:
            merged = before
        else:
            merged = _merge_field_list(before, change, field)
        original[key] = _ordered(merged, order, before or [], identify)


def _identifier(field: Field | None) -> Callable[[Any], Any]:
    if field is None or field.merge_key is None:
        return lambda item: item
    key = field.merge_key
    return lambda item: _identity(item, key)


def _ordered(
    merged: list[Any], patch_order: list[Any], server_order: list[Any], identify: Callable[[Any], Any]
) -> list[Any]:
    """Elements of the patch in its order, woven into the others, which keep the server's order."""
    wanted = [identify(item) for item in patch_order]
    known = [identify(item) for item in server_order]
    in_patch = sorted((i for i in merged if identify(i) in wanted), key=lambda i: wanted.index(identify(i)))
    rest = [item for item in merged if identify(item) not in wanted]
    woven: list[Any] = []
    while rest and in_patch:
        left, right = identify(rest[0]), identify(in_patch[0])
        first = left in known and right in known and known.index(left) < known.index(right)
        woven.append((rest if first else in_patch).pop(0))
    return woven + rest + in_patch


def _identity(item: Any, key: str) -> Any:
    if not isinstance(item, dict) or key not in item:
        raise PatchError(Problem.UNKEYED, f"map: {go_map(item)} does not contain declared merge key: {key}")
    return item[key]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_directives(inner)
            for key, inner in value.items()
            if inner is not None and not key.startswith((_DIRECTIVE, _RETAIN, _DELETE_PREFIX, _ORDER_PREFIX))
        }
    if isinstance(value, list):
        return [
            _without_directives(inner)
            for inner in value
            if not (isinstance(inner, dict) and inner.get(_DIRECTIVE) in ("delete", "replace"))
        ]
    return value


def _json_type(value: Any) -> type:
    return float if type(value) is int else type(value)


def _field(shape: ObjectType | None, name: str) -> Field | None:
    return shape.fields.get(name) if shape is not None else None


def _shape(reference: TypeRef | None) -> ObjectType | None:
    return resolve(reference.ref) if reference is not None and reference.ref is not None else None


def go_map(item: Any) -> str:
    """A JSON value as Go prints decoded ones (``%+v``)."""
    if isinstance(item, dict):
        return "map[" + " ".join(f"{key}:{go_map(item[key])}" for key in sorted(item)) + "]"
    if isinstance(item, list):
        return "[" + " ".join(map(go_map, item)) + "]"
    if item is None or isinstance(item, bool):
        return {None: "<nil>", True: "true", False: "false"}[item]
    return str(item)
