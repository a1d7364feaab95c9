"""Objects as the server shows them in messages: JSON of its Go structs, not of what the client sent.

``versioned`` is what the types of an API version marshal to (fields in declared order, empty ones left out
unless the API marks them as required); ``internal`` is what the server's internal types do: Go's field
names, and every field. ``without_empty_lists`` is what of an object survives storing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from baro.model.decode.gotime import canonical_time
from baro.model.quantity import Quantity
from baro.model.schema import Field, TypeRef, object_type, resolve
from baro.model.validation.rules import parse

_LISTS: Final = frozenset({"array"})
_LISTS_AND_MAPS: Final = frozenset({"array", "map"})
_ZERO: Final[Mapping[str, Any]] = {
    "string": "", "int32": 0, "int64": 0, "float": 0, "bool": False, "quantity": "0",
}  # fmt: skip
_WRITTEN_EMPTY: Final = frozenset({
    ("AllocatedDeviceStatus", "conditions"), ("CapacityRequestPolicy", "default"),
    ("DeviceClaim", "requests"), ("DeviceRequest", "deviceClassName"),
})  # fmt: skip
"""Optional fields that the versioned types write even when they are not set."""
_LEFT_OUT: Final = frozenset({
    ("CapacityRequestPolicyRange", "min"), ("CounterSet", "counters"),
    ("DeviceCounterConsumption", "counters"),
})  # fmt: skip
"""Required fields that they leave out all the same."""
_POINTERS: Final = frozenset({
    "adminAccess", "allNodes", "allocation", "allocationTimestamp", "allowMultipleAllocations", "bindsToNode",
    "blockOwnerDeletion", "bool", "capacityKey", "capacityMultiplier", "cel", "controller", "data", "default",
    "deletionGracePeriodSeconds", "deviceMultiplier", "deviceSelector", "distinctAttribute", "exactly",
    "extendedResourceName", "int", "mapping", "matchAttribute", "max", "min", "networkData", "nodeName",
    "nodeSelector", "opaque", "overhead", "partitionTypeAttribute", "perContainer", "perDeviceNodeSelection",
    "perPod", "requestPolicy", "shareID", "step", "string", "timeAdded", "tolerationSeconds", "validRange",
    "version",
})  # fmt: skip
"""Fields whose Go type is a pointer: absent is ``null`` in the internal form, and left out of the other."""
_GO_NAMES: Final = {
    "cel": "CEL", "ips": "IPs", "uid": "UID", "int": "IntValue", "bool": "BoolValue",
    "string": "StringValue", "version": "VersionValue", "ints": "IntValues", "bools": "BoolValues",
    "strings": "StringValues", "versions": "VersionValues", "apiGroup": "APIGroup",
}  # fmt: skip


def versioned(value: Mapping[str, Any], group_version: str, type_name: str) -> dict[str, Any]:
    """``value`` as the type ``type_name`` of ``group_version`` marshals it.

    Only for ``resource.k8s.io`` and the metadata in it: which fields are pointers is known for those.
    """
    shape = object_type(group_version, type_name)
    return _versioned_object(value, shape.ref)


def same(one: Mapping[str, Any], other: Mapping[str, Any], type_name: str) -> bool:
    """Whether two objects of a v1 type of ``resource.k8s.io`` mean the same: absent and empty lists are one,
    quantities are canonical."""
    where = "resource.k8s.io/v1"
    return one == other or versioned(one, where, type_name) == versioned(other, where, type_name)


def without_empty_lists(value: Mapping[str, Any], type_name: str) -> dict[str, Any]:
    """A v1 object of ``resource.k8s.io`` as it comes back from a store, which keeps no empty lists."""
    kept: dict[str, Any] = _without_empty(
        value, TypeRef("object", "", object_type("resource.k8s.io/v1", type_name).ref)
    )
    return kept


def without_empty(value: Mapping[str, Any], group_version: str, type_name: str) -> dict[str, Any]:
    """``value`` without empty lists and maps, which the server's comparisons take as absent."""
    shape = TypeRef("object", "", object_type(group_version, type_name).ref)
    kept: dict[str, Any] = _without_empty(value, shape, _LISTS_AND_MAPS)
    return kept


def _without_empty(value: Any, type_: TypeRef, kinds: frozenset[str] = _LISTS) -> Any:
    if type_.kind == "object" and type_.ref and isinstance(value, Mapping):
        fields = resolve(type_.ref).fields
        return {
            key: _without_empty(item, fields[key].type, kinds) if key in fields else item
            for key, item in value.items()
            if item not in ([], {}) or key not in fields or fields[key].type.kind not in kinds
        }
    if type_.kind == "array" and type_.items and isinstance(value, list | tuple):
        return [_without_empty(item, type_.items, kinds) for item in value]
    if type_.kind == "map" and type_.items and isinstance(value, Mapping):
        return {key: _without_empty(item, type_.items, kinds) for key, item in value.items()}
    return value


def _versioned_object(value: Mapping[str, Any], ref: str) -> dict[str, Any]:
    shape = resolve(ref)
    found: dict[str, Any] = {}
    for name, field in shape.fields.items():
        item = value.get(name)
        place = (shape.name, name)
        written = (field.required or place in _WRITTEN_EMPTY) and place not in _LEFT_OUT
        if item is None and field.type.kind == "object" and field.type.ref and not _is_pointer(field):
            item = {}  # a struct that is no pointer is always there
        if item is None and written:
            found[name] = None if _is_pointer(field) else _ZERO.get(field.type.kind)
        elif item is not None and (written or not _is_empty(item, field)):
            found[name] = _versioned(item, field.type)
    return found


def _is_empty(item: Any, field: Field) -> bool:
    """Whether Go leaves the field out: an empty value of a type that is no pointer and no struct."""
    if field.type.kind in ("object", "quantity", "any", "time", "microTime") or _is_pointer(field):
        return False
    return item in ({}, [], "", 0, False)


def _versioned(value: Any, type_: TypeRef) -> Any:
    if type_.kind == "object" and type_.ref and isinstance(value, Mapping):
        return _versioned_object(value, type_.ref)
    if type_.kind == "array" and type_.items and isinstance(value, list | tuple):
        return [_versioned(item, type_.items) for item in value]
    if type_.kind == "map" and type_.items and isinstance(value, Mapping):
        return {key: _versioned(value[key], type_.items) for key in sorted(value)}
    return _canonical(value, type_)


def _canonical(value: Any, type_: TypeRef) -> Any:
    if type_.kind == "quantity":
        return str(Quantity.parse(value))
    if type_.kind in ("time", "microTime") and isinstance(value, str):
        return canonical_time(value, micro=type_.kind == "microTime")
    return value


def internal(
    value: Mapping[str, Any], group_version: str, type_name: str, kube_version: str
) -> dict[str, Any]:
    """``value`` as the internal type behind ``type_name`` marshals on a server of ``kube_version``."""
    return _internal_object(value, object_type(group_version, type_name).ref, parse(kube_version))


def _internal_object(value: Mapping[str, Any], ref: str, server: tuple[int, int]) -> dict[str, Any]:
    fields = resolve(ref).fields
    return {
        _go_name(name): _internal(value.get(name), field.type, server, field)
        for name, field in fields.items()
        if not field.since or parse(field.since) <= server
    }


def _go_name(name: str) -> str:
    return _GO_NAMES.get(name) or name[:1].upper() + name[1:]


def _internal(value: Any, type_: TypeRef, server: tuple[int, int], field: Field | None = None) -> Any:
    if type_.kind == "object" and type_.ref:
        if value is None and (field is None or _is_pointer(field)):
            return None
        return _internal_object(value or {}, type_.ref, server)
    if value is None and type_.kind in ("array", "map"):
        return None  # an empty list that is there is shown as such
    if type_.kind == "array" and type_.items:
        return [_internal(item, type_.items, server) for item in value]
    if type_.kind == "map" and type_.items:
        return {key: _internal(value[key], type_.items, server) for key in sorted(value)}
    if value is None:
        return None if field is None or _is_pointer(field) else _ZERO.get(type_.kind)
    return _canonical(value, type_)


def _is_pointer(field: Field) -> bool:
    if field.name in _POINTERS:
        return True
    if field.name == "capacity":  # a map of devices, a struct of requests
        return field.type.kind == "object"
    return False
