"""The fields of pods, volumes and storage classes that only kube-scheduler's other filters look at.

Small shapes beside ``baro.model.kinds``, whose ``Pod`` has what placement needs for every pod of a cluster:
these are read from the raw documents, once, when an explanation asks for them, and of most pods nothing
stays.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from baro.diagnosis.evidence import Evidence
from baro.model.errors import BaroError
from baro.model.kinds.base import ObjectMeta, ObjectReference, RawQuantity, Wire
from baro.model.kinds.core import NodeSelector, NodeSelectorRequirement
from baro.model.load import Loaded

Shape = TypeVar("Shape", bound=msgspec.Struct)
Key = tuple[str, str]


class LabelSelector(Wire, frozen=True):
    """``metav1.LabelSelector``: all of both lists must hold."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()


class Term(Wire, frozen=True):
    """A required term of affinity or anti-affinity between pods."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class _Terms(Wire, frozen=True):
    required: tuple[Term, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(Wire, frozen=True):
    pod_affinity: _Terms = _Terms()
    pod_anti_affinity: _Terms = _Terms()


class Spread(Wire, frozen=True):
    """A constraint of ``topologySpreadConstraints``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class _Port(Wire, frozen=True):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class _Container(Wire, frozen=True):
    ports: tuple[_Port, ...] = ()
    restart_policy: str = ""


class _Requests(Wire, frozen=True):
    requests: dict[str, RawQuantity] = {}


class _ClaimSource(Wire, frozen=True):
    claim_name: str = ""


class _Volume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class _Spec(Wire, frozen=True):
    affinity: _Affinity = _Affinity()
    topology_spread_constraints: tuple[Spread, ...] = ()
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    resources: _Requests = _Requests()
    volumes: tuple[_Volume, ...] = ()


class _Meta(Wire, frozen=True):
    name: str = ""
    namespace: str = ""


class _Named(Wire, frozen=True):
    metadata: _Meta = _Meta()


class _Pod(_Named, frozen=True):
    spec: _Spec = _Spec()


Port = tuple[str, str, int]
"""(host address, protocol, port); the address is ``0.0.0.0`` where the pod names none."""
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what kube-scheduler takes an empty hostIP for


class Wish(msgspec.Struct, frozen=True):
    """What one pod asks of those filters. ``volumes`` are (name of the PVC, whether it is made for the pod),
    ``requests`` those of the pod as a whole (``spec.resources``)."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    ports: tuple[Port, ...] = ()
    requests: dict[str, RawQuantity] = {}
    volumes: tuple[tuple[str, bool], ...] = ()


NO_WISH = Wish()


class _ClaimStatus(Wire, frozen=True):
    phase: str = ""


class _ClaimSpec(Wire, frozen=True):
    access_modes: tuple[str, ...] = ()
    resources: _Requests = _Requests()
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_name: str = ""
    selector: LabelSelector | None = None
    volume_attributes_class_name: str = ""


class VolumeClaim(Wire, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class _Required(Wire, frozen=True):
    required: NodeSelector | None = None


class _VolumeSpec(Wire, frozen=True):
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, RawQuantity] = {}
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: ObjectReference | None = None
    node_affinity: _Required = _Required()
    volume_attributes_class_name: str = ""


class Volume(Wire, frozen=True):
    """A PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _VolumeSpec = _VolumeSpec()
    status: _ClaimStatus = _ClaimStatus()


class _Expression(Wire, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Wire, frozen=True):
    match_label_expressions: tuple[_Expression, ...] = ()


class StorageClass(Wire, frozen=True):
    """A StorageClass. The API server writes the default of ``volumeBindingMode``."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


# --- reading ------------------------------------------------------------------------------------------------


def read(document: Loaded, shape: type[Shape]) -> Shape | None:
    """The document in that shape; ``None`` where a field has a wrong type. Nulls count as absent."""
    try:
        body = document.body
        try:
            return msgspec.convert(body, shape)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(body), shape)
    except (BaroError, msgspec.ValidationError, RecursionError):
        return None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


class Wishes(msgspec.Struct):
    """Wishes by pod. ``read`` are the pods whose document is in the evidence, ``unreadable`` those of which
    a field has a wrong type. A pod that asks nothing of these filters is in ``read`` alone."""

    of: dict[Key, Wish]
    read: set[Key]
    unreadable: set[Key]


def wishes(evidence: Evidence) -> Wishes:
    """The wishes of all pods in the evidence. Pods of a snapshot with pseudonyms count as not read."""
    found = Wishes({}, set(), set())
    for document in evidence.documents:
        if document.kind != "Pod" or document.api_version != "v1":
            continue
        pod = read(document, _Pod)
        if pod is None:
            named = read(document, _Named)
            if named is not None:
                found.unreadable.add((named.metadata.namespace or "default", named.metadata.name))
            continue
        key = (pod.metadata.namespace or "default", pod.metadata.name)
        found.read.add(key)
        wish = _wish(pod)
        if wish != NO_WISH:
            found.of[key] = wish
        else:
            found.of.pop(key, None)
    return found


def _wish(pod: _Pod) -> Wish:
    spec = pod.spec
    sidecars = [item for item in spec.init_containers if item.restart_policy == "Always"]
    volumes = []
    for item in spec.volumes:
        if item.persistent_volume_claim is not None:
            volumes.append((item.persistent_volume_claim.claim_name, False))
        elif item.ephemeral is not None:
            volumes.append((f"{pod.metadata.name}-{item.name}", True))
    return Wish(
        affinity=spec.affinity.pod_affinity.required,
        anti_affinity=spec.affinity.pod_anti_affinity.required,
        spread=tuple(
            item for item in spec.topology_spread_constraints if item.when_unsatisfiable == "DoNotSchedule"
        ),
        ports=tuple(
            (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
            for container in (*sidecars, *spec.containers)
            for port in container.ports
            if port.host_port > 0
        ),
        requests=spec.resources.requests,
        volumes=tuple(volumes),
    )
