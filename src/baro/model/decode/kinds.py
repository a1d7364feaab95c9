"""From a body to a Struct: version conversion, nulls, and one clear error for a wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from baro.model.convert import to_v1
from baro.model.decode.strict import strict_errors
from baro.model.errors import InputError, Where
from baro.model.kinds.base import KubeObject
from baro.model.schema import TypeRef, find_kind, resolve

_RESOURCE_GROUP: Final = "resource.k8s.io"
_CLASSIC_DRA: Final = ("v1alpha1", "v1alpha2", "v1alpha3")
_CLASSIC_KINDS: Final = frozenset({
    "ResourceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass",
    "PodSchedulingContext", "PodScheduling", "ResourceClaimParameters", "ResourceClassParameters",
})  # fmt: skip
_ZERO: Final[Mapping[str, Any]] = {
    "object": {}, "map": {}, "array": [], "string": "", "bytes": "", "bool": False,
    "int32": 0, "int64": 0, "float": 0, "quantity": "0", "intOrString": 0,
}  # fmt: skip


def to_kind(body: Mapping[str, Any], where: Where | None = None) -> KubeObject | None:
    """The Struct of ``body`` in the v1 shape, or None for kinds that baro does not model.

    v1beta1 and v1beta2 are converted, nulls count as absent, unknown fields are ignored. Raises
    ``InputError`` naming the field path for a wrong type, and for the kinds of classic DRA (v1alpha*), which
    no conversion can save.
    """
    api_version, kind = body.get("apiVersion"), body.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    where = _with_object(where or Where(), body, kind)
    group, _, version = api_version.rpartition("/")
    struct = _structs().get((group, kind))
    known = find_kind(api_version, kind)
    if known is None:
        if group == _RESOURCE_GROUP and version in _CLASSIC_DRA and kind in _CLASSIC_KINDS:
            raise _classic(api_version, kind, where)
        return None
    if struct is None:
        return None
    converted = to_v1(body, where)
    try:
        return msgspec.convert(converted, struct)
    except (msgspec.ValidationError, UnicodeEncodeError):
        pass
    try:  # Nulls are rare: they are looked for only when a body does not convert as it is.
        v1 = find_kind(str(converted["apiVersion"]), kind) or known
        return msgspec.convert(without_nulls(converted, v1.type), struct)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise _wrong_type(body, where, error) from None


@cache
def _structs() -> dict[tuple[str, str], type[KubeObject]]:
    from baro.model.kinds import baro, core, resource  # noqa: PLC0415 - only when objects are decoded

    return {
        ("", "Node"): core.Node,
        ("", "Namespace"): core.Namespace,
        ("", "Pod"): core.Pod,
        ("", "Event"): core.Event,
        ("coordination.k8s.io", "Lease"): core.Lease,
        (_RESOURCE_GROUP, "ResourceSlice"): resource.ResourceSlice,
        (_RESOURCE_GROUP, "ResourceClaim"): resource.ResourceClaim,
        (_RESOURCE_GROUP, "ResourceClaimTemplate"): resource.ResourceClaimTemplate,
        (_RESOURCE_GROUP, "DeviceClass"): resource.DeviceClass,
        (_RESOURCE_GROUP, "DeviceTaintRule"): resource.DeviceTaintRule,
        ("baro.dev", "NodeTopology"): baro.NodeTopology,
    }


def without_nulls(body: Mapping[str, Any], type_name: str) -> dict[str, Any]:
    """``body`` as Go decodes it into the type ``type_name`` (see ``Kind.type``): nulls are absent."""
    plain: dict[str, Any] = _without_nulls(body, TypeRef("object", "", type_name))
    return plain


def _without_nulls(value: Any, type_: TypeRef) -> Any:
    """A null field is absent, a null item or map value is the zero value."""
    if type_.kind == "object" and type_.ref and isinstance(value, Mapping):
        fields = resolve(type_.ref).fields
        return {
            key: _without_nulls(item, fields[key].type) if key in fields else item
            for key, item in value.items()
            if item is not None
        }
    if type_.items is None:
        return value
    zero = _ZERO.get(type_.items.kind)
    if type_.kind == "map" and isinstance(value, Mapping):
        return {k: zero if v is None else _without_nulls(v, type_.items) for k, v in value.items()}
    if type_.kind == "array" and isinstance(value, list | tuple):
        return [zero if v is None else _without_nulls(v, type_.items) for v in value]
    return value


# --- errors ----------------------------------------------------------------------------------------------


def _with_object(where: Where, body: Mapping[str, Any], kind: str) -> Where:
    if where.object:
        return where
    metadata = body.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    name = named.get("name") or f"{named.get('generateName') or ''}*"
    namespace = named.get("namespace")
    text = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    return msgspec.structs.replace(where, object=text)


def _classic(api_version: str, kind: str, where: Where) -> InputError:
    return InputError(
        f'no kind "{kind}" is registered for version "{api_version}"',
        where=where,
        next_step="classic DRA was removed in Kubernetes 1.32: write a resource.k8s.io/v1 object with "
        "deviceClassName under 'exactly' and CEL selectors",
    )


def _wrong_type(body: Mapping[str, Any], where: Where, error: Exception) -> InputError:
    """The server's words where the schema finds the fault, msgspec's or Python's otherwise."""
    found = next((e for e in strict_errors(body) if e.trouble in ("value", "type")), None)
    if found is not None:
        text, path = found.message, found.path
    else:
        text, _, place = str(error).partition(" - at `$")
        path = place.rstrip("`").removeprefix(".")
    return InputError(
        text,
        where=msgspec.structs.replace(where, path=path or None),
        next_step="give the field the type that the API declares",
    )
