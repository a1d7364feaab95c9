"""One document as rules see it: in the v1 shape however it is written, with the way back to the text.

People write the flat shape under v1, wrap devices under v1, forget a ``spec``. Rules about meaning look at
``v1``, the shape that was meant; places in it are given back as the paths that stand in the file
(``written``). Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from baro.model.convert import DEVICE_FIELDS, REQUEST_FIELDS, versions
from baro.model.errors import Where
from baro.model.load import Loaded
from baro.model.positions import split_path

DRA_GROUP: Final = "resource.k8s.io"
CLAIM_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate")
DRA_KINDS: Final = (*CLAIM_KINDS, "DeviceClass", "ResourceSlice", "DeviceTaintRule")
POD_SPECS: Final[Mapping[tuple[str, str], str]] = {
    ("", "Pod"): "spec",
    ("", "PodTemplate"): "template.spec",
    ("", "ReplicationController"): "spec.template.spec",
    ("apps", "Deployment"): "spec.template.spec",
    ("apps", "StatefulSet"): "spec.template.spec",
    ("apps", "DaemonSet"): "spec.template.spec",
    ("apps", "ReplicaSet"): "spec.template.spec",
    ("batch", "Job"): "spec.template.spec",
    ("batch", "CronJob"): "spec.jobTemplate.spec.template.spec",
}
"""(group, kind) → where the pod spec stands."""

Body = dict[str, Any]


def items(parent: Any, key: str) -> Iterator[tuple[int, Body]]:
    """(index, mapping) of the list at ``key``; whatever is no mapping is passed over."""
    found = parent.get(key) if isinstance(parent, dict) else None
    for index, item in enumerate(found if isinstance(found, list) else ()):
        if isinstance(item, dict):
            yield index, item


def mapping(parent: Any, *keys: str) -> Body:
    """The mapping below ``keys``; empty where there is none."""
    for key in keys:
        parent = parent.get(key) if isinstance(parent, dict) else None
    return parent if isinstance(parent, dict) else {}


def text(parent: Any, key: str) -> str:
    """The text at ``key``; empty where there is none."""
    value = parent.get(key) if isinstance(parent, dict) else None
    return value if isinstance(value, str) else ""


class Request:
    """A request, or an alternative of one: where it stands in the v1 shape, and its fields."""

    __slots__ = ("body", "name", "path")

    def __init__(self, name: str, path: str, body: Body) -> None:
        self.name, self.path, self.body = name, path, body

    @property
    def class_name(self) -> str:
        return text(self.body, "deviceClassName")

    def selectors(self) -> Iterator[tuple[str, str]]:
        """(path, expression) in the order in which they are evaluated."""
        return selectors(self.body, self.path)


def selectors(holder: Body, path: str) -> Iterator[tuple[str, str]]:
    for index, selector in items(holder, "selectors"):
        cel = selector.get("cel") if "cel" in selector else selector
        expression = cel.get("expression") if isinstance(cel, dict) else None
        if isinstance(expression, str):
            inner = "cel.expression" if "cel" in selector else "expression"
            yield f"{path}.selectors[{index}].{inner}", expression


class Manifest:
    """A document of the run. ``evidence`` documents are looked at, not judged."""

    def __init__(self, document: Loaded, *, evidence: bool = False) -> None:
        self.document = document
        self.evidence = evidence
        self.body: Body = document.body
        self.kind = document.kind
        group, _, version = document.api_version.rpartition("/")
        self.group, self.version = group, version
        metadata = mapping(self.body, "metadata")
        self.name = text(metadata, "name")
        self.namespace = text(metadata, "namespace")
        self._rewrites: list[tuple[str, str]] = []

    @property
    def dra(self) -> bool:
        """Whether this is a kind of ``resource.k8s.io`` in a version whose shape is known."""
        return self.group == DRA_GROUP and self.kind in DRA_KINDS

    @property
    def served_somewhere(self) -> bool:
        return self.dra and self.version in versions(self.kind)

    @cached_property
    def v1(self) -> Body:
        """The body in the shape that was meant; parts that are fine are shared with ``body``."""
        if not self.dra:
            return self.body
        spec = mapping(self.body, "spec")
        if self.kind in CLAIM_KINDS:
            return {**self.body, "spec": self._claim(spec)}
        if self.kind == "ResourceSlice":
            devices = spec.get("devices")
            if isinstance(devices, list):
                found = [self._device(device, index) for index, device in enumerate(devices)]
                return {**self.body, "spec": {**spec, "devices": found}}
        return self.body

    def _claim(self, spec: Body) -> Body:
        inner, base, written = spec, "spec", "spec"
        if self.kind == "ResourceClaimTemplate":
            base = written = "spec.spec"
            inner = mapping(spec, "spec")
            if not inner and "devices" in spec:
                inner, written = {"devices": spec["devices"]}, "spec"
        elif "devices" not in spec and "devices" in mapping(spec, "spec"):
            inner, written = mapping(spec, "spec"), "spec.spec"
        if written != base:
            self._rewrites.append((f"{base}.devices", f"{written}.devices"))
        devices = inner.get("devices")
        if isinstance(devices, dict) and isinstance(devices.get("requests"), list):
            found = [
                self._request(
                    request, f"{base}.devices.requests[{index}]", f"{written}.devices.requests[{index}]"
                )
                for index, request in enumerate(devices["requests"])
            ]
            inner = {**inner, "devices": {**devices, "requests": found}}
        return {**spec, "spec": inner} if base == "spec.spec" else inner

    def _request(self, request: Any, path: str, written: str) -> Any:
        if not isinstance(request, dict) or "exactly" in request:
            return request
        flat = {key: request[key] for key in REQUEST_FIELDS if key in request}
        if not flat or "firstAvailable" in request:
            return request
        self._rewrites.append((f"{path}.exactly", written))
        return {**{key: value for key, value in request.items() if key not in flat}, "exactly": flat}

    def _device(self, device: Any, index: int) -> Any:
        if not isinstance(device, dict) or not isinstance(device.get("basic"), dict):
            return device
        path = f"spec.devices[{index}]"
        self._rewrites += [(f"{path}.{field}", f"{path}.basic.{field}") for field in DEVICE_FIELDS]
        return {**{key: value for key, value in device.items() if key != "basic"}, **device["basic"]}

    def written(self, path: str) -> str:
        """A path of ``v1`` as it stands in the file."""
        _ = self.v1
        for base, written in reversed(self._rewrites):
            if path == base or path.startswith((f"{base}.", f"{base}[")):
                path = written + path[len(base) :]
        return path

    def where(self, path: str) -> Where:
        """Line and column of a path of ``v1``."""
        return self.document.where_of(self.written(path))

    def steps(self, path: str) -> tuple[str | int, ...]:
        """The steps of a path of ``v1`` in ``body``."""
        return split_path(self.written(path))

    # --- claims ------------------------------------------------------------------------------------------

    @property
    def devices_path(self) -> str:
        return "spec.spec.devices" if self.kind == "ResourceClaimTemplate" else "spec.devices"

    @cached_property
    def devices(self) -> Body:
        """``devices`` of a claim or a template."""
        spec = mapping(self.v1, "spec")
        return mapping(mapping(spec, "spec") if self.kind == "ResourceClaimTemplate" else spec, "devices")

    def requests(self) -> Iterator[Request]:
        """All requests that ask for devices: ``exactly`` parts, and each alternative as ``request/sub``."""
        for index, request in items(self.devices, "requests"):
            name, path = text(request, "name"), f"{self.devices_path}.requests[{index}]"
            if isinstance(request.get("exactly"), dict):
                yield Request(name, f"{path}.exactly", request["exactly"])
            for sub, alternative in items(request, "firstAvailable"):
                full = f"{name}/{text(alternative, 'name')}"
                yield Request(full, f"{path}.firstAvailable[{sub}]", alternative)

    def request_names(self) -> frozenset[str]:
        """What a pod may name in ``claims[].request``: requests, not their alternatives."""
        return frozenset(text(request, "name") for _, request in items(self.devices, "requests"))

    # --- pods --------------------------------------------------------------------------------------------

    @cached_property
    def pod_path(self) -> str | None:
        """Where the pod spec stands; None for kinds without one."""
        return POD_SPECS.get((self.group, self.kind))

    @cached_property
    def pod_spec(self) -> Body:
        return mapping(self.body, *(self.pod_path or "").split(".")) if self.pod_path else {}

    @cached_property
    def pod_metadata(self) -> tuple[str, Body]:
        """Path and body of the metadata that the pods get."""
        path = (self.pod_path or "spec").removesuffix("spec").rstrip(".")
        path = f"{path}.metadata" if path else "metadata"
        return path, mapping(self.body, *path.split("."))
