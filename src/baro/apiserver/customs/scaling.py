"""The ``scale`` subresource of a custom kind: a Scale read from an object, and replicas written into one.

Source: ``ScaleREST`` and ``ValidateScaleSpec`` of ``apiextensions-apiserver/pkg/registry/customresource``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from baro.apiserver.customs.definitions import Scale
from baro.apiserver.status import Cause, internal
from baro.model.validation.causes import shown

Body = dict[str, Any]

_MOST: Final = 2**31 - 1
_UNSET: Final = -(2**31)
"""What a client sees of replicas that are not set: a value that it cannot mean."""
_GO_TYPES: Final = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}


class ScalePathError(ValueError):
    """The object has something else at the path."""


def scale_of(body: Mapping[str, Any], scale: Scale, *, unset: bool = False) -> Body:
    """The Scale of an object. ``unset``: replicas that are not there come as a marker, as for a patch.

    Raises 500 when the object has no number of replicas, as the real server does.
    """
    try:
        replicas = _number(body, scale.spec_replicas)
        shown_replicas = _number(body, scale.status_replicas)
        selector = _string(body, scale.selector) if scale.selector else None
    except ScalePathError as error:
        raise internal(str(error)) from None
    if replicas is None and not unset:
        raise internal(f'Internal error occurred: the spec replicas field "{scale.spec_path}" does not exist')
    metadata = body["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Body = {"replicas": shown_replicas or 0}
    if selector:
        status["selector"] = selector
    spec: Body = {"replicas": _UNSET if replicas is None else replicas}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": spec,
        "status": status,
    }


def with_replicas(body: Body, scale: Scale, replicas: int) -> Body:
    """A copy of the object with that number of replicas. Raises ``ScalePathError``."""
    changed = copy.deepcopy(body)
    node: Any = changed
    for depth, step in enumerate(scale.spec_replicas[:-1]):
        below = node.setdefault(step, {})
        if not isinstance(below, dict):
            where = ".".join(scale.spec_replicas[: depth + 1])
            raise ScalePathError(f"value cannot be set because .{where} is not a map[string]interface{{}}")
        node = below
    node[scale.spec_replicas[-1]] = replicas
    return changed


def is_unset(replicas: int) -> bool:
    return replicas == _UNSET


def scale_problems(body: Mapping[str, Any], scale: Scale, *, spec: bool) -> Iterator[Cause]:
    """What an object may not have where its scale is. ``spec`` is false for writes to the status."""
    places = [(scale.spec_path, scale.spec_replicas)] if spec else []
    for path, steps in [*places, (scale.status_path, scale.status_replicas)]:
        try:
            value = _number(body, steps) or 0
        except ScalePathError as error:
            yield Cause("FieldValueInvalid", path, f"Invalid value: 0: {error}")
            continue
        if value < 0:
            text = "should be a non-negative integer"
        elif value > _MOST:
            text = f"should be less than or equal to {_MOST}"
        else:
            continue
        yield Cause("FieldValueInvalid", path, f"Invalid value: {value}: {text}")
    if scale.selector:
        try:
            _string(body, scale.selector)
        except ScalePathError as error:
            yield Cause("FieldValueInvalid", scale.selector_path, f"Invalid value: {shown('')}: {error}")


def _number(body: Mapping[str, Any], steps: tuple[str, ...]) -> int | None:
    value = _leaf(body, steps)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _accessor(steps, value, "int64")
    return value


def _string(body: Mapping[str, Any], steps: tuple[str, ...]) -> str | None:
    value = _leaf(body, steps)
    if value is not None and not isinstance(value, str):
        raise _accessor(steps, value, "string")
    return value


def _leaf(body: Mapping[str, Any], steps: tuple[str, ...]) -> Any:
    """The value at a path; None where the path ends before."""
    node: Any = body
    for depth, step in enumerate(steps):
        if node is None:
            return None
        if not isinstance(node, Mapping):
            raise _accessor(steps[: depth + 1], node, "map[string]interface {}")
        if step not in node:
            return None
        node = node[step]
    return node


def _accessor(steps: tuple[str, ...], value: Any, wanted: str) -> ScalePathError:
    go = _GO_TYPES.get(type(value), "map[string]interface {}")
    printed = value if isinstance(value, str) else shown(value)
    return ScalePathError(
        f".{'.'.join(steps)} accessor error: {printed} is of the type {go}, expected {wanted}"
    )
