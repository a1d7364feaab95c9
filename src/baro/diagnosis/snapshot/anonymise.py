"""Consistent pseudonyms for everything that names a cluster, its people or its machines.

What stays: kinds, API versions, timestamps, counts, phases, reasons, device types, products, driver and
versions, PCI addresses, NUMA nodes, MIG profiles, capacities, taints, keys of labels, class names, names of
drivers and of the pods that are kubelet plugins, the last part of their images. What becomes a pseudonym:
names and namespaces of other objects, nodes, pools, UIDs, GPU UUIDs and other identities of devices, values
of labels. What goes: other images, annotations (but for baro's own), addresses, opaque parameters of drivers,
status data of devices, and kinds that are not listed here.

Pseudonyms keep the order of the names, since a scheduler goes by name; equal names stay equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from baro.diagnosis.shapes import mapping
from baro.diagnosis.snapshot.prune import KUBELET_DIRECTORY, host_path
from baro.diagnosis.snapshot.pseudonyms import Pseudonyms

Body = dict[str, Any]

_KEPT_NAMESPACES: Final = frozenset({"", "default", "kube-system", "kube-public", "kube-node-lease"})
_TELLING: Final = frozenset({
    "type", "productName", "model", "brand", "architecture", "cudaComputeCapability", "cudaDriverVersion",
    "driverVersion", "pciBusID", "pcieRoot", "pcieSwitch", "profile", "placement", "family", "addressingMode",
})  # fmt: skip
"""Attributes whose text says what a device is, not whose it is."""
_LABELS_KEPT: Final = re.compile(
    r"^(nvidia\.com/|amd\.com/|feature\.node\.kubernetes\.io/|kubernetes\.io/(arch|os)$"
    r"|node\.kubernetes\.io/instance-type$)"
)
_META: Final = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "finalizers",
)


def pseudonyms_of(bodies: Iterable[Body]) -> Pseudonyms:
    """Pseudonyms for every name in these objects."""
    names = Pseudonyms()
    for body in bodies:
        _learn(names, body)
    names.settle()
    return names


def anonymised(bodies: Iterable[Body], names: Pseudonyms) -> Iterator[Body]:
    """The objects under ``names``, one at a time; kinds that are not listed above are left out."""
    for body in bodies:
        make = _MAKERS.get(str(body.get("kind")))
        if make is not None:
            yield make(names, body)


def _learn(names: Pseudonyms, body: Mapping[str, Any]) -> None:
    metadata = body.get("metadata") or {}
    kind = str(body.get("kind") or "").lower()
    if kind == "namespace":
        names.learn("namespace", _private_namespace(metadata.get("name")))
    elif kind == "pod" and is_plugin(body):
        pass  # a plugin's name says which driver it is
    elif kind != "deviceclass":
        names.learn(kind, metadata.get("name"))
    names.learn("namespace", _private_namespace(metadata.get("namespace")))
    spec = body.get("spec") or {}
    if kind == "resourceslice":
        names.learn("node", spec.get("nodeName"))
        pool = (spec.get("pool") or {}).get("name")
        if pool != spec.get("nodeName"):
            names.learn("pool", pool)


def _private_namespace(name: object) -> object:
    return None if name in _KEPT_NAMESPACES else name


def is_plugin(body: Mapping[str, Any]) -> bool:
    """Whether a pod mounts a directory of the kubelet, as drivers and device plugins do."""
    volumes = (body.get("spec") or {}).get("volumes") or ()
    return any(isinstance(v, Mapping) and KUBELET_DIRECTORY in f"{host_path(v)}/" for v in volumes)


# --- parts ------------------------------------------------------------------------------------------------


def _namespace(names: Pseudonyms, name: object) -> Any:
    return name if name in _KEPT_NAMESPACES else names.of("namespace", name)


def _uid(names: Pseudonyms, uid: object) -> Any:
    return names.of("uid", uid)


def _pool(names: Pseudonyms, pool: object) -> Any:
    """A pool is mostly named as its node, and must stay so."""
    kind = "node" if pool in names.known("node") else "pool"
    return names.of(kind, pool)


def _head(names: Pseudonyms, body: Body, kind: str | None = None, *, keep_name: bool = False) -> Body:
    """``apiVersion``, ``kind`` and the metadata that stay."""
    metadata = body.get("metadata") or {}
    kept: Body = {field: metadata[field] for field in _META if field in metadata}
    name = metadata.get("name")
    kept["name"] = name if keep_name else names.of(kind or str(body["kind"]).lower(), name)
    if metadata.get("namespace"):
        kept["namespace"] = _namespace(names, metadata["namespace"])
    if metadata.get("uid"):
        kept["uid"] = _uid(names, metadata["uid"])
    if metadata.get("labels"):
        kept["labels"] = _labels(names, metadata["labels"])
    own = {k: v for k, v in (metadata.get("annotations") or {}).items() if k == "baro.dev/topology"}
    if own:
        kept["annotations"] = own
    owners = [_owner(names, owner, keep_name=keep_name) for owner in metadata.get("ownerReferences") or ()]
    if owners:
        kept["ownerReferences"] = owners
    return {"apiVersion": body.get("apiVersion"), "kind": body.get("kind"), "metadata": kept}


def _owner(names: Pseudonyms, owner: Mapping[str, Any], *, keep_name: bool) -> Body:
    kept = {field: owner[field] for field in ("apiVersion", "kind", "controller") if field in owner}
    name = owner.get("name")
    kept["name"] = name if keep_name else names.of(str(owner.get("kind") or "").lower(), name)
    kept["uid"] = _uid(names, owner.get("uid"))
    return kept


def _labels(names: Pseudonyms, labels: Mapping[str, Any]) -> Body:
    return {key: _label(names, key, value) for key, value in labels.items()}


def _label(names: Pseudonyms, key: str, value: object) -> Any:
    if _LABELS_KEPT.match(key) or value in ("", "true", "false"):
        return value
    if key == "kubernetes.io/hostname" and value in names.known("node"):
        return names.of("node", value)
    return names.of("value", value)


def _conditions(names: Pseudonyms, conditions: object) -> list[Body]:
    return [
        {key: names.text(value) if key == "message" else value for key, value in item.items()}
        for item in (conditions if isinstance(conditions, list) else ())
        if isinstance(item, Mapping)
    ]


def _selector(names: Pseudonyms, selector: object) -> Any:
    """A node selector of any form: label keys stay, values and node names are replaced."""
    if isinstance(selector, list):
        return [_selector(names, item) for item in selector]
    if not isinstance(selector, Mapping):
        return selector
    if "key" in selector and "operator" in selector:
        key = str(selector["key"])
        values = selector.get("values") or ()
        made = [
            names.of("node", value) if key == "metadata.name" else _label(names, key, value)
            for value in values
        ]
        return {**selector, "values": made}
    return {key: _selector(names, value) for key, value in selector.items()}


# --- kinds ------------------------------------------------------------------------------------------------


def _node(names: Pseudonyms, body: Body) -> Body:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    info = {
        k: v
        for k, v in mapping(status.get("nodeInfo")).items()
        if k in ("kubeletVersion", "kernelVersion", "architecture")
    }
    return {
        **_head(names, body),
        "spec": {key: spec[key] for key in ("unschedulable", "taints") if key in spec},
        "status": {
            "capacity": status.get("capacity") or {},
            "allocatable": status.get("allocatable") or {},
            "conditions": _conditions(names, status.get("conditions")),
            "nodeInfo": info,
        },
    }


def _pod(names: Pseudonyms, body: Body) -> Body:
    plugin = is_plugin(body)
    spec, status = body.get("spec") or {}, body.get("status") or {}
    kept: Body = {
        key: spec[key]
        for key in ("tolerations", "schedulingGates", "schedulerName", "overhead", "priority")
        if key in spec
    }
    if spec.get("nodeName"):
        kept["nodeName"] = names.of("node", spec["nodeName"])
    if spec.get("nodeSelector"):
        kept["nodeSelector"] = _labels(names, spec["nodeSelector"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if affinity:
        kept["affinity"] = {"nodeAffinity": _selector(names, affinity)}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            kept[field] = [_container(item, number, plugin=plugin) for number, item in enumerate(spec[field])]
    kept["resourceClaims"] = [_pod_claim(names, item) for item in spec.get("resourceClaims") or ()]
    if spec.get("volumes"):
        kept["volumes"] = spec["volumes"]
    return {
        **_head(names, body, keep_name=plugin),
        "spec": kept,
        "status": {
            "phase": status.get("phase") or "",
            "conditions": _conditions(names, status.get("conditions")),
            "resourceClaimStatuses": [
                _pod_claim(names, item) for item in status.get("resourceClaimStatuses") or ()
            ],
            **({"reason": status["reason"]} if status.get("reason") else {}),
        },
    }


def _container(container: Mapping[str, Any], number: int, *, plugin: bool) -> Body:
    kept: Body = {"name": f"container-{number}", "resources": container.get("resources") or {}}
    if "restartPolicy" in container:
        kept["restartPolicy"] = container["restartPolicy"]
    if plugin:
        kept["image"] = str(container.get("image") or "").rsplit("/", 1)[-1]
    return kept


def _pod_claim(names: Pseudonyms, item: Mapping[str, Any]) -> Body:
    kept = {"name": item.get("name")}
    for field, kind in (
        ("resourceClaimName", "resourceclaim"),
        ("resourceClaimTemplateName", "resourceclaimtemplate"),
    ):
        if item.get(field):
            kept[field] = names.of(kind, item[field])
    return kept


def _slice(names: Pseudonyms, body: Body) -> Body:
    spec = dict(body.get("spec") or {})
    spec["pool"] = {**(spec.get("pool") or {}), "name": _pool(names, (spec.get("pool") or {}).get("name"))}
    if spec.get("nodeName"):
        spec["nodeName"] = names.of("node", spec["nodeName"])
    if spec.get("nodeSelector"):
        spec["nodeSelector"] = _selector(names, spec["nodeSelector"])
    spec["devices"] = [_device(names, item) for item in spec.get("devices") or ()]
    return {**_head(names, body), "spec": spec}


def _device(names: Pseudonyms, device: Mapping[str, Any]) -> Body:
    kept = dict(device)
    inner = kept.get("basic")
    if isinstance(inner, Mapping):  # v1beta1
        return {**kept, "basic": _device(names, inner)}
    if isinstance(kept.get("attributes"), Mapping):
        kept["attributes"] = {key: _attribute(names, key, value) for key, value in kept["attributes"].items()}
    for field in ("nodeName", "nodeSelector"):
        if kept.get(field):
            kept[field] = (
                names.of("node", kept[field]) if field == "nodeName" else _selector(names, kept[field])
            )
    return kept


def _attribute(names: Pseudonyms, key: str, value: Any) -> Any:
    if not isinstance(value, Mapping) or key.rsplit("/", 1)[-1] in _TELLING:
        return value
    return {
        field: names.of("value", item)
        if field == "string"
        else [names.of("value", one) for one in item]
        if field == "strings" and isinstance(item, list)
        else item
        for field, item in value.items()
    }


def _claim(names: Pseudonyms, body: Body) -> Body:
    made = {**_head(names, body), "spec": _claim_spec(names, body.get("spec") or {})}
    status = body.get("status") or {}
    kept: Body = {}
    if status.get("allocation"):
        kept["allocation"] = _allocation(names, status["allocation"])
    if status.get("reservedFor"):
        kept["reservedFor"] = [
            {
                **ref,
                "name": names.of("pod" if ref.get("resource") == "pods" else "consumer", ref.get("name")),
                "uid": _uid(names, ref.get("uid")),
            }
            for ref in status["reservedFor"]
        ]
    return {**made, "status": kept}


def _allocation(names: Pseudonyms, allocation: Mapping[str, Any]) -> Body:
    devices = allocation.get("devices") or {}
    results = [{**item, "pool": _pool(names, item.get("pool"))} for item in devices.get("results") or ()]
    kept = {**allocation, "devices": {"results": results}}
    if allocation.get("nodeSelector"):
        kept["nodeSelector"] = _selector(names, allocation["nodeSelector"])
    return kept


def _claim_spec(names: Pseudonyms, spec: Mapping[str, Any]) -> Body:
    """Requests and constraints; names in selectors replaced, opaque parameters dropped."""
    devices = {key: value for key, value in (spec.get("devices") or {}).items() if key != "config"}
    return {"devices": _expressions(names, devices)}


def _expressions(names: Pseudonyms, value: Any) -> Any:
    if isinstance(value, list):
        return [_expressions(names, item) for item in value]
    if isinstance(value, Mapping):
        return {
            key: names.text(item) if key == "expression" else _expressions(names, item)
            for key, item in value.items()
        }
    return value


def _template(names: Pseudonyms, body: Body) -> Body:
    inner = (body.get("spec") or {}).get("spec") or {}
    return {**_head(names, body), "spec": {"spec": _claim_spec(names, inner)}}


def _class(names: Pseudonyms, body: Body) -> Body:
    spec = {key: value for key, value in (body.get("spec") or {}).items() if key != "config"}
    return {**_head(names, body, keep_name=True), "spec": _expressions(names, spec)}


def _rule(names: Pseudonyms, body: Body) -> Body:
    spec = dict(body.get("spec") or {})
    selector = spec.get("deviceSelector")
    if isinstance(selector, Mapping) and selector.get("pool"):
        spec["deviceSelector"] = {**selector, "pool": _pool(names, selector["pool"])}
    return {**_head(names, body), "spec": spec}


def _event(names: Pseudonyms, body: Body) -> Body:
    about = body.get("involvedObject") or {}
    kind = str(about.get("kind") or "").lower()
    source = body.get("source") or {}
    return {
        **_head(names, body),
        **{
            key: body[key]
            for key in (
                "reason",
                "type",
                "count",
                "firstTimestamp",
                "lastTimestamp",
                "eventTime",
                "reportingComponent",
            )
            if key in body
        },
        "message": names.text(body.get("message") or ""),
        "involvedObject": {
            "kind": about.get("kind"),
            "namespace": _namespace(names, about.get("namespace")),
            "name": names.of(kind, about.get("name")),
            "uid": _uid(names, about.get("uid")),
        },
        "source": {"component": source.get("component"), "host": names.of("node", source.get("host"))},
    }


def _topology(names: Pseudonyms, body: Body) -> Body:
    """A graph: device keys name pools, facts of GPUs hold UUIDs."""
    spec = dict(body.get("spec") or {})
    devices = {}
    for key, value in mapping(spec.get("devices")).items():
        parts = key.split("/")
        if isinstance(value, int) and len(parts) == 3:
            key = f"{parts[0]}/{_pool(names, parts[1])}/{parts[2]}"  # noqa: PLW2901
        elif isinstance(value, Mapping):
            value = {k: names.of("value", v) if k in ("uuid", "clique") else v for k, v in value.items()}  # noqa: PLW2901
        devices[key] = value
    return {**_head(names, body, "node"), "spec": {**spec, "source": "", "devices": devices}}


_MAKERS: Final[dict[str, Callable[[Pseudonyms, Body], Body]]] = {
    "Node": _node,
    "Pod": _pod,
    "Namespace": lambda names, body: {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": _namespace(names, (body.get("metadata") or {}).get("name"))},
    },
    "ResourceSlice": _slice,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "DeviceClass": _class,
    "DeviceTaintRule": _rule,
    "Event": _event,
    "NodeTopology": _topology,
}
