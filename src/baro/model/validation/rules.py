"""Which rules apply: the Kubernetes version, its feature gates, and the API version of the request.

What a gate covers is dropped from an object before it is validated while the gate is off (see ``prepare``).
The allocator takes its features from the same table. Source: ``pkg/features/kube_features.go`` of Kubernetes
1.34 to 1.37, default values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from baro.model.convert import convert

KUBE_VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")
DEFAULT_KUBE_VERSION: Final = "1.37"

_DEFAULT_ON: Final[Mapping[str, str]] = {
    "DRAAdminAccess": "1.34",
    "DRAConsumableCapacity": "1.36",
    "DRADeviceBindingConditions": "1.36",
    "DRADeviceTaintRules": "1.37",
    "DRADeviceTaints": "1.36",
    "DRAExtendedResource": "1.36",
    "DRAFractionalCapacityRange": "1.38",
    "DRAPartitionableDevices": "1.36",
    "DRAPrioritizedList": "1.34",
    "DRAResourceClaimDeviceStatus": "1.33",
}
"""Gate → first version that has it on by default.

``DRAFractionalCapacityRange`` is beta in 1.37, but on only for servers that promise no older than 1.37.
"""
_DEFAULT_OFF: Final = (
    "DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAListTypeAttributes",
    "DRANodeAllocatableResources", "DRAOptionalNodeOperations", "DRAPartitionableDevicesType",
)  # fmt: skip
_INTRODUCED: Final[Mapping[str, str]] = {
    "DRADerivedAttributes": "1.37",
    "DRADeviceCompatibilityGroups": "1.37",
    "DRADeviceTaintRules": "1.35",
    "DRAFractionalCapacityRange": "1.37",
    "DRAListTypeAttributes": "1.36",
    "DRANodeAllocatableResources": "1.36",
    "DRAOptionalNodeOperations": "1.37",
    "DRAPartitionableDevicesType": "1.36",
}
"""Gate → version that brought it; the others are older than 1.35."""
GATES: Final = tuple(sorted((*_DEFAULT_ON, *_DEFAULT_OFF)))
"""The gates that decide about fields of ``resource.k8s.io``, or about which devices a claim may have."""

_FLAT_REQUEST: Final = re.compile(
    r"(devices\.requests\[\d+\])\.exactly\.(deviceClassName|selectors|allocationMode|count|adminAccess|"
    r"tolerations|capacity|derivedAttributes)"
)
_WRAPPED_DEVICE: Final = re.compile(r"^(spec\.devices\[\d+\])\.(?!name$)")


def default_gates(kube_version: str = DEFAULT_KUBE_VERSION) -> frozenset[str]:
    """The gates that are on by default in ``kube_version`` (such as ``1.36``)."""
    minor = parse(kube_version)
    return frozenset(gate for gate, since in _DEFAULT_ON.items() if parse(since) <= minor)


def known_gates(kube_version: str = DEFAULT_KUBE_VERSION) -> tuple[str, ...]:
    """Those of ``GATES`` that ``kube_version`` has, on or off."""
    minor = parse(kube_version)
    return tuple(gate for gate in GATES if parse(_INTRODUCED.get(gate, "1.34")) <= minor)


def parse(kube_version: str) -> tuple[int, int]:
    """``v1.37.2`` → (1, 37). Raises ``ValueError`` for what is no version."""
    major, _, rest = kube_version.removeprefix("v").partition(".")
    return int(major), int(rest.partition(".")[0])


class Rules:
    """The rules of one server for one request; ``version`` is that of the request's API (``v1beta1``)."""

    def __init__(
        self,
        kube_version: str = DEFAULT_KUBE_VERSION,
        gates: Iterable[str] | None = None,
        version: str = "v1",
    ) -> None:
        self.kube_version = kube_version
        self.gates = default_gates(kube_version) if gates is None else frozenset(gates)
        self.version = version

    @cached_property
    def newest(self) -> bool:
        """Whether this is 1.37, with its hand-written texts and fields."""
        return self.since("1.37")

    def since(self, kube_version: str) -> bool:
        """Whether the server is of ``kube_version`` or newer."""
        return parse(self.kube_version) >= parse(kube_version)

    @cached_property
    def declarative(self) -> bool:
        """Whether the declared ("beta") rules are the ones that speak: since 1.37."""
        return self.newest

    def by_hand(self) -> Rules:
        """The same rules without the declared ones, as they apply to what an update left alone."""
        rules = Rules(self.kube_version, self.gates, self.version)
        rules.declarative = False
        return rules

    @property
    def unit(self) -> str:
        """What declared rules count in messages about length; hand-written ones say "characters"."""
        return "bytes" if self.declarative else "characters"

    def on(self, gate: str) -> bool:
        return gate in self.gates

    def path(self, path: str) -> str:
        """A path of v1 as the request's version has it."""
        if self.version != "v1beta1":
            return path
        return _WRAPPED_DEVICE.sub(r"\1.basic.", _FLAT_REQUEST.sub(r"\1.\2", path))

    def item(self, item: Mapping[str, Any], type_name: str) -> Mapping[str, Any]:
        """A v1 object of type ``type_name`` as the request's version has it."""
        if self.version != "v1beta1" or type_name != "DeviceRequest":
            return item
        whole = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        body = {**whole, "spec": {"devices": {"requests": [dict(item)]}}}
        found: Mapping[str, Any] = convert(body, "resource.k8s.io/v1beta1")["spec"]["devices"]["requests"][0]
        return found
