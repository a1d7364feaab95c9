"""Changes to an object, as data: what a fix does, before anybody touches a text.

An edit names a place by its steps (keys and indices) in the object as it is written. ``apply`` makes the
change in JSON types; ``baro.model.rewrite`` makes the same change in the text. The second is only trusted
when reading the new text gives what the first gives.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from baro.model.positions import Step, split_path

Steps: TypeAlias = tuple[Step, ...]


class SetValue(msgspec.Struct, frozen=True, tag=True):
    """The value at ``path`` becomes ``value``."""

    path: Steps
    value: Any


class RenameKey(msgspec.Struct, frozen=True, tag=True):
    """The key at the end of ``path`` is called ``name``; its value and its place stay."""

    path: Steps
    name: str


class Remove(msgspec.Struct, frozen=True, tag=True):
    """The entry or item at ``path`` goes; a list that becomes empty goes too."""

    path: Steps


class Insert(msgspec.Struct, frozen=True, tag=True):
    """A new entry ``path`` with ``value``; mappings above it are made where they are missing."""

    path: Steps
    value: Any
    first: bool = False
    """Whether a mapping that is made stands first among its neighbours, as ``metadata`` does."""


class Nest(msgspec.Struct, frozen=True, tag=True):
    """In the mapping at ``path``, the entries ``keys`` move below a new entry ``under``."""

    path: Steps
    keys: tuple[str, ...]
    under: str


class Unwrap(msgspec.Struct, frozen=True, tag=True):
    """The entries of the mapping at ``path`` take the place of that mapping in the one around it."""

    path: Steps


class Listed(msgspec.Struct, frozen=True, tag=True):
    """The value at ``path`` becomes the only item of a list."""

    path: Steps


Edit: TypeAlias = SetValue | RenameKey | Remove | Insert | Nest | Unwrap | Listed


class EditError(ValueError):
    """The edit does not fit the object: the place is not there, or something is in the way."""


def exact(body: Any, path: str | Steps) -> Steps:
    """The steps of a path as the object has them: a key with dots in it is one step.

    Raises ``EditError`` where there is nothing at the path.
    """
    steps = split_path(path) if isinstance(path, str) else path
    found: list[Step] = []
    index = 0
    while index < len(steps):
        for end in range(index + 1, len(steps) + 1):
            step = steps[index] if end == index + 1 else ".".join(map(str, steps[index:end]))
            known = _key(body, step)
            if known is not None:
                found.append(known)
                body, index = body[known], end
                break
        else:
            raise EditError(f"nothing at {path}")
    return tuple(found)


def _key(body: Any, step: Step) -> Any:
    if isinstance(body, dict):
        return step if step in body else str(step) if str(step) in body else None
    if isinstance(body, list) and isinstance(step, int) and 0 <= step < len(body):
        return step
    return None


def value_at(body: Any, steps: Steps) -> Any:
    """The value at exact steps. Raises ``EditError``."""
    for step in steps:
        if _key(body, step) != step:
            raise EditError(f"nothing at {steps}")
        body = body[step]
    return body


def apply(body: Any, edits: Iterable[Edit]) -> Any:
    """``body`` with the edits made, in an order that keeps their paths right. The input is not changed.

    Values are set first, from the back of lists; then keys and shapes change. Raises ``EditError``.
    """
    result = copy.deepcopy(body)
    for edit in ordered(edits):
        _apply(result, edit)
    return result


def ordered(edits: Iterable[Edit]) -> list[Edit]:
    """Values before shapes, deeper before higher, later list items before earlier ones; nothing twice."""
    found = list({msgspec.json.encode(edit): edit for edit in edits}.values())

    def key(edit: Edit) -> tuple[int, int, tuple[int, ...]]:
        return (
            not isinstance(edit, SetValue),
            -len(edit.path),
            tuple(-step for step in edit.path if isinstance(step, int)),
        )

    return sorted(found, key=key)


def _apply(body: Any, edit: Edit) -> None:
    if isinstance(edit, Insert):
        _insert(body, edit)
        return
    if isinstance(edit, Nest):
        _nest(value_at(body, edit.path), edit)
        return
    if not edit.path:
        raise EditError("the object itself cannot be changed")
    owner, last = value_at(body, edit.path[:-1]), edit.path[-1]
    value = value_at(owner, (last,))
    match edit:
        case SetValue():
            owner[last] = edit.value
        case Listed():
            owner[last] = [value]
        case RenameKey():
            if edit.name in owner:
                raise EditError(f"{edit.name} is there already")
            _replace(owner, last, {edit.name: value})
        case Unwrap():
            inner = {} if value is None else value
            if not isinstance(inner, dict) or (inner.keys() & owner.keys()) - {last}:
                raise EditError(f"the entries of {last} do not fit")
            _replace(owner, last, inner)
        case Remove():
            _remove(body, edit.path)


def _insert(body: Any, edit: Insert) -> None:
    for step in edit.path[:-1]:
        if isinstance(body, dict) and body.get(str(step)) is None:
            made: dict[str, Any] = {str(step): {}}
            rest = {key: value for key, value in body.items() if key != step}
            body.clear()
            body.update({**made, **rest} if edit.first else {**rest, **made})
        body = value_at(body, (step,))
    if not isinstance(body, dict) or edit.path[-1] in body:
        raise EditError(f"{edit.path[-1]} is there already")
    body[str(edit.path[-1])] = edit.value


def _nest(owner: Any, edit: Nest) -> None:
    if not isinstance(owner, dict) or edit.under in owner or not all(key in owner for key in edit.keys):
        raise EditError(f"{edit.under} cannot be made here")
    inner = {key: value for key, value in owner.items() if key in edit.keys}
    first = next(key for key in owner if key in edit.keys)
    for key in edit.keys:
        if key != first:
            del owner[key]
    _replace(owner, first, {edit.under: inner})


def _replace(owner: dict[str, Any], key: Step, entries: dict[str, Any]) -> None:
    """Other entries in the place of one, in order."""
    items = list(owner.items())
    owner.clear()
    for name, value in items:
        if name == key:
            owner.update(entries)
        else:
            owner[name] = value


def _remove(body: Any, path: Steps) -> None:
    owner = value_at(body, path[:-1])
    if isinstance(owner, list) and len(owner) == 1 and len(path) > 1:
        _remove(body, path[:-1])
        return
    del owner[path[-1]]
