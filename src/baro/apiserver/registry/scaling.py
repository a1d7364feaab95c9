"""The ``scale`` subresource: an object's replicas, read and written without knowing its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from baro.apiserver.catalogue import Served
from baro.apiserver.customs import Scale, ScalePathError, is_unset, scale_of, with_replicas
from baro.apiserver.patching import Patch
from baro.apiserver.registry.options import WriteOptions
from baro.apiserver.registry.patches import patched
from baro.apiserver.registry.registry import Registry
from baro.apiserver.registry.versions import from_stored, to_stored
from baro.apiserver.status import Cause, bad_request, internal, invalid

Body = dict[str, Any]

API_VERSION = "autoscaling/v1"


def read_scale(registry: Registry, served: Served, namespace: str, name: str) -> Body:
    """The Scale of an object. Raises 404, and 500 for an object without replicas."""
    record = registry.get(served, namespace, name)
    return scale_of(from_stored(record.body(), served), _scale(served))


def update_scale(
    registry: Registry, served: Served, key: tuple[str, str], body: Any, options: WriteOptions
) -> Body:
    """Replaces the Scale of the object at ``key`` (namespace, name). Raises as a write to the object does."""
    given = _checked(body, key[1])
    if not given["metadata"].get("name"):
        raise bad_request(
            f"the name of the object ({key[1]} based on URL) was undeterminable: name must be provided"
        )
    if problem := _misfit(given):
        raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {problem}')
    return _write(registry, served, key, lambda _scale: given, options, reapply=False)


def patch_scale(
    registry: Registry, served: Served, key: tuple[str, str], patch: Patch, options: WriteOptions
) -> Body:
    """Changes the Scale as ``patch`` does."""

    def change(scale: Body) -> Body:
        result = patched(patch, scale, kind="Scale", api_version=API_VERSION)
        checked = _checked(result, key[1])
        if problem := _misfit(checked):
            text = msgspec.json.encode(msgspec.json.encode(result).decode()).decode()
            raise invalid(
                "", "", "", [Cause("FieldValueInvalid", "patch", f"Invalid value: {text}: {problem}")]
            )
        return checked

    return _write(registry, served, key, change, options, reapply=True)


def _write(
    registry: Registry,
    served: Served,
    key: tuple[str, str],
    change: Callable[[Body], Body],
    options: WriteOptions,
    *,
    reapply: bool,
) -> Body:
    scale = _scale(served)

    def scaled(stored: Body) -> Body:
        body = from_stored(stored, served)
        wanted = change(scale_of(body, scale, unset=True))
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if is_unset(replicas):
            raise bad_request(f'the spec replicas field "{scale.spec_path}" cannot be empty')
        try:
            new = with_replicas(body, scale, replicas)
        except ScalePathError as error:
            raise internal(f"Internal error occurred: {error}") from None
        new["metadata"]["resourceVersion"] = wanted["metadata"].get("resourceVersion", "")
        return to_stored(new, served)

    written = registry.change(served, key, scaled, options, "scale", reapply=reapply)
    return scale_of(from_stored(written, served), scale)


def _scale(served: Served) -> Scale:
    assert served.custom is not None  # noqa: S101 only those have the subresource
    assert served.custom.scale is not None  # noqa: S101
    return served.custom.scale


def _checked(body: Any, name: str) -> Body:
    """A Scale that decodes. Raises 400."""
    if not isinstance(body, Mapping):
        raise bad_request("the object provided is unrecognized (must be of type Scale)")
    for field, wanted in (("apiVersion", API_VERSION), ("kind", "Scale")):
        if body.get(field) not in (None, "", wanted):
            raise bad_request(f"the {field} in the data ({body[field]}) does not match the expected {wanted}")
    metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        raise bad_request("metadata and spec of a Scale must be objects")
    named = metadata.get("name")
    if named and named != name:
        raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({name})")
    return {"metadata": dict(metadata), "spec": {**spec, "replicas": spec.get("replicas", 0)}}


def _misfit(scale: Body) -> str:
    """What Go's decoder has against the number of replicas; ``""`` for a number that it takes."""
    replicas = scale["spec"]["replicas"]
    whole = isinstance(replicas, int) and not isinstance(replicas, bool)
    if whole and -(2**31) <= replicas < 2**31:
        return ""
    kinds = {bool: "bool", str: "string", dict: "object", list: "array"}
    given = kinds.get(type(replicas), f"number {replicas}")
    return f"json: cannot unmarshal {given} into Go struct field ScaleSpec.spec.replicas of type int32"
