"""Conversion between the versions of ``resource.k8s.io``, on bodies (JSON objects).

v1 and v1beta2 have the same shape. v1beta1 wraps a device in ``basic`` and writes the fields of ``exactly``
beside the name of a request. ``DeviceTaintRule`` has one shape in v1, v1beta2 and v1alpha3.
Nothing known is lost in either direction. A field that stands where its version does not know it stays
unknown: it is dropped, not moved into meaning (``baro.model.decode.strict_errors`` reports it).
Source: ``pkg/apis/resource/v1beta1/conversion.go`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from baro.model.errors import InputError, Where

_GROUP: Final = "resource.k8s.io"
REQUEST_FIELDS: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
    "derivedAttributes",
)  # fmt: skip
"""The fields of ``exactly``, which v1beta1 writes into the request itself."""
DEVICE_FIELDS: Final = (
    "attributes", "capacity", "consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints",
    "bindsToNode", "bindingConditions", "bindingFailureConditions", "allowMultipleAllocations",
    "nodeAllocatableResources",
)  # fmt: skip
"""The fields of a device, which v1beta1 writes below ``basic``."""
_VERSIONS: Final = {
    "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
    "ResourceSlice": ("v1", "v1beta2", "v1beta1"),
    "ResourceClaim": ("v1", "v1beta2", "v1beta1"),
    "ResourceClaimTemplate": ("v1", "v1beta2", "v1beta1"),
    "DeviceClass": ("v1", "v1beta2", "v1beta1"),
}

Body = dict[str, Any]


def versions(kind: str) -> tuple[str, ...]:
    """The versions of ``resource.k8s.io`` that ``kind`` converts between, newest first; else ()."""
    return _VERSIONS.get(kind, ())


def to_v1(body: Mapping[str, Any], where: Where | None = None) -> Body:
    """``body`` in the v1 shape; bodies of other groups come back as they are.

    The input is not changed; unchanged parts are shared. Raises ``InputError`` in the server's words where
    the shape is too wrong to convert, and for a taint rule whose selection v1 cannot express.
    """
    return convert(body, f"{_GROUP}/v1", where)


def convert(body: Mapping[str, Any], api_version: str, where: Where | None = None) -> Body:
    """``body`` as ``api_version`` writes it. Both must be versions of one kind; see ``to_v1``."""
    group, _, have = str(body.get("apiVersion", "")).rpartition("/")
    want_group, _, want = api_version.rpartition("/")
    known = versions(str(body.get("kind")))
    if group != _GROUP or want_group != _GROUP or have not in known or want not in known:
        return dict(body)
    result: Body = {**body, "apiVersion": api_version}
    try:
        if have == "v1alpha3":
            _refuse_removed_selection(body, where)
        if (have == "v1beta1") != (want == "v1beta1"):
            _reshape(result, _TO_V1 if have == "v1beta1" else _TO_V1BETA1)
    except _ShapeError as error:
        raise _input_error(body, where, error) from None
    return result


class _ShapeError(Exception):
    """Something that must be an object or list is not; ``args[0]`` is its path."""


class _Direction:
    """The three places where v1 and v1beta1 differ, in one direction."""

    def __init__(
        self,
        device: Callable[[Body, str], Body],
        request: Callable[[Body, str], Body],
        slice_spec: Callable[[Body], Body],
    ) -> None:
        self.device = device
        self.request = request
        self.slice_spec = slice_spec


def _reshape(body: Body, direction: _Direction) -> None:
    spec = _object(body, "spec", "spec")
    if spec is None:
        return
    if body["kind"] == "ResourceSlice":
        spec = direction.slice_spec(spec)
        _items(spec, "devices", "spec.devices", direction.device)
        body["spec"] = spec
    elif body["kind"] == "ResourceClaim":
        body["spec"] = _claim_spec(spec, "spec", direction)
    elif body["kind"] == "ResourceClaimTemplate":
        inner = _object(spec, "spec", "spec.spec")
        if inner is not None:
            body["spec"] = {**spec, "spec": _claim_spec(inner, "spec.spec", direction)}


def _claim_spec(spec: Body, path: str, direction: _Direction) -> Body:
    devices = _object(spec, "devices", f"{path}.devices")
    if devices is None:
        return spec
    _items(devices, "requests", f"{path}.devices.requests", direction.request)
    return {**spec, "devices": devices}


# --- v1beta1 → v1 ----------------------------------------------------------------------------------------


def _device_to_v1(device: Body, path: str) -> Body:
    basic = _object(device, "basic", f"{path}.basic") or {}
    return _named(device) | {key: basic[key] for key in DEVICE_FIELDS if basic.get(key) is not None}


def _request_to_v1(request: Body, path: str) -> Body:
    result = _named(request)
    if "firstAvailable" in request:
        result["firstAvailable"] = request["firstAvailable"]
    main = {key: request[key] for key in REQUEST_FIELDS if request.get(key) is not None}
    if any(not _is_zero(key, value) for key, value in main.items()):
        result["exactly"] = main
    return result


def _is_zero(key: str, value: Any) -> bool:
    """Whether v1beta1 takes the field as not set: strings and numbers have a zero value, the rest not."""
    return value == "" or (key == "count" and value == 0)


def _slice_to_v1(spec: Body) -> Body:
    """In v1beta1 ``nodeName`` and ``allNodes`` are plain values: empty and false mean not set."""
    unset = {"nodeName": "", "allNodes": False}
    return {key: value for key, value in spec.items() if key not in unset or value != unset[key]}


# --- v1 → v1beta1 ----------------------------------------------------------------------------------------


def _device_to_v1beta1(device: Body, path: str) -> Body:
    basic = {key: device[key] for key in DEVICE_FIELDS if device.get(key) is not None}
    return {**_named(device), "basic": basic}


def _request_to_v1beta1(request: Body, path: str) -> Body:
    exactly = _object(request, "exactly", f"{path}.exactly") or {}
    result = _named(request) | {key: exactly[key] for key in REQUEST_FIELDS if exactly.get(key) is not None}
    if "firstAvailable" in request:
        result["firstAvailable"] = request["firstAvailable"]
    return result


def _same_slice(spec: Body) -> Body:
    return dict(spec)


_TO_V1: Final = _Direction(_device_to_v1, _request_to_v1, _slice_to_v1)
_TO_V1BETA1: Final = _Direction(_device_to_v1beta1, _request_to_v1beta1, _same_slice)


# --- shapes ----------------------------------------------------------------------------------------------


def _named(item: Body) -> Body:
    return {"name": item["name"]} if "name" in item else {}


def _object(parent: Body, key: str, path: str) -> Body | None:
    """A copy of the object at ``key``, None when it is absent or null."""
    value = parent.get(key)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _ShapeError(path)
    return dict(value)


def _items(parent: Body, key: str, path: str, change: Callable[[Body, str], Body]) -> None:
    value = parent.get(key)
    if value is None:
        return
    if not isinstance(value, list | tuple):
        raise _ShapeError(path)
    changed: list[Any] = []
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if item is not None and not isinstance(item, Mapping):
            raise _ShapeError(place)
        changed.append(change(dict(item or {}), place))
    parent[key] = changed


def _input_error(body: Mapping[str, Any], where: Where | None, error: _ShapeError) -> InputError:
    from baro.model.decode.strict import strict_errors  # noqa: PLC0415 - decoding builds on conversion

    path = str(error.args[0])
    found = next((e.message for e in strict_errors(body) if e.path == path), f"{path} has the wrong type")
    return InputError(found, where=_at(where, path), next_step="give it the type that the API declares")


def _refuse_removed_selection(body: Mapping[str, Any], where: Where | None) -> None:
    """1.35 took selection by class and by CEL out of taint rules; without it a rule would hit more."""
    spec = body.get("spec")
    selector = spec.get("deviceSelector") if isinstance(spec, Mapping) else None
    for key in ("deviceClassName", "selectors"):
        if isinstance(selector, Mapping) and selector.get(key):
            path = f"spec.deviceSelector.{key}"
            raise InputError(
                f'unknown field "{path}"',
                where=_at(where, path),
                next_step="removed in Kubernetes 1.35: select by driver, pool and device",
            )


def _at(where: Where | None, path: str) -> Where:
    base = where or Where()
    return Where(file=base.file, line=base.line, column=base.column, object=base.object, path=path)
