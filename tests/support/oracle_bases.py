"""Right writes of every kind, rich in fields: where generated writes start from.

``bases`` gives (operation, object, old) in ``resource.k8s.io/v1`` and the other groups' only versions; who
wants the beta versions converts.
"""

from __future__ import annotations

import copy
from typing import Any, Final

Body = dict[str, Any]
Base = tuple[str, Body, Body | None]

NAMESPACE: Final = "oracle"
DRIVER: Final = "gpu.example.com"
_META: Final[Body] = {"name": "inputs", "namespace": NAMESPACE}
_ALONE: Final[Body] = {"name": "inputs"}


def _dra(kind: str, metadata: Body, **parts: Any) -> Body:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": dict(metadata), **parts}


def _device(name: str, **more: Any) -> Body:
    return {
        "name": name,
        "attributes": {"model": {"string": "H200"}, "index": {"int": 0}, "driver": {"version": "1.2.3"}},
        "capacity": {"memory": {"value": "80Gi"}},
        **more,
    }


def _slice(**spec: Any) -> Body:
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    return _dra("ResourceSlice", _ALONE, spec={"driver": DRIVER, "pool": pool, "nodeName": "node-a", **spec})


def slices() -> tuple[Body, ...]:
    """One slice for each way to describe devices."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    values = {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}
    shared = {
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": {"value": "8Gi", "requestPolicy": policy},
            "cores": {"value": "8Gi", "requestPolicy": values},
        },
    }
    taint = {"key": "example.com/broken", "value": "v", "effect": "NoSchedule"}
    binding = {"bindsToNode": True, "bindingConditions": ["b"], "bindingFailureConditions": ["f"]}
    uses = {"counterSet": "c", "counters": {"m": {"value": "1"}}}
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
    sets = [
        {"name": "c", "counters": {"m": {"value": "2"}}},
        {"name": "d", "counters": {"m": {"value": "2"}}},
    ]
    counters = _slice(sharedCounters=sets)
    selected = _slice(devices=[_device("d0")], nodeSelector={"nodeSelectorTerms": [term]})
    each = _slice(
        devices=[_device("d0", nodeName="node-a"), _device("d1", allNodes=True), _device(
            "d2", nodeSelector={"nodeSelectorTerms": [term]})],
        perDeviceNodeSelection=True,
    )  # fmt: skip
    del selected["spec"]["nodeName"], each["spec"]["nodeName"]
    return (
        _slice(devices=[_device("d0"), _device("d1", taints=[taint])]),
        _slice(devices=[_device("d0", **shared)]),
        _slice(devices=[_device("d0", **binding), _device("d1", consumesCounters=[uses])]),
        counters,
        selected,
        each,
    )


def _exactly(**more: Any) -> Body:
    return {"deviceClassName": DRIVER, **more}


def claims() -> tuple[Body, ...]:
    """Plain, rich, and with alternatives."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    toleration = {"key": "example.com/broken", "operator": "Exists", "effect": "NoSchedule"}
    opaque = {"driver": DRIVER, "parameters": {"a": 1}}
    rich = {
        "requests": [
            {"name": "gpu", "exactly": _exactly(count=2, selectors=[selector], tolerations=[toleration])},
            {"name": "nic", "exactly": _exactly(allocationMode="All")},
        ],
        "constraints": [{"requests": ["gpu", "nic"], "matchAttribute": "example.com/root"}],
        "config": [{"requests": ["gpu"], "opaque": opaque}],
    }
    large = {"name": "large", **_exactly(capacity={"requests": {"memory": "40Gi"}})}
    ladder = {
        "requests": [{"name": "any", "firstAvailable": [large, {"name": "small", **_exactly(count=2)}]}],
        "constraints": [{"requests": ["any/large"], "distinctAttribute": f"{DRIVER}/index"}],
        "config": [{"requests": ["any/small"], "opaque": opaque}],
    }
    plain: Body = {"requests": [{"name": "gpu", "exactly": _exactly()}]}
    admin = {"requests": [{"name": "gpu", "exactly": _exactly(adminAccess=True, allocationMode="All")}]}
    found = [_dra("ResourceClaim", _META, spec={"devices": devices}) for devices in (plain, rich, ladder)]
    allowed = {**_META, "namespace": f"{NAMESPACE}-admin"}
    return (*found, _dra("ResourceClaim", allowed, spec={"devices": admin}))


def _result(request: str, device: str, **more: Any) -> Body:
    return {"request": request, "driver": DRIVER, "pool": "node-a", "device": device, **more}


def statuses() -> tuple[Body, ...]:
    """Allocated claims, from bare to full of everything."""
    claim, rich, ladder, _ = claims()
    condition = {
        "type": "Ready", "status": "True", "reason": "Because", "message": "m", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    consumer = {"resource": "pods", "name": "p", "uid": "uid-0"}
    other = {"apiGroup": "x.example.com", "resource": "things", "name": "t", "uid": "u"}
    network = {"interfaceName": "eth0", "ips": ["10.0.0.1/24", "2001:db8::1/64"], "hardwareAddress": "aa:bb"}
    report = {"driver": DRIVER, "pool": "node-a", "device": "d0", "conditions": [condition]}
    field = {"key": "metadata.name", "operator": "In", "values": ["node-a"]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    source = {
        "source": "FromClaim",
        "requests": ["gpu"],
        "opaque": {"driver": DRIVER, "parameters": {"a": 1}},
    }
    bare = {"allocation": {"devices": {"results": [_result("gpu", "d0")]}}, "reservedFor": [consumer]}
    toleration = {"key": "k", "operator": "Exists"}
    binding = {"bindingConditions": ["b"], "bindingFailureConditions": ["f"]}
    full = {
        "allocation": {
            "devices": {
                "results": [
                    _result("gpu", "d0", tolerations=[toleration]), _result("gpu", "d1", **binding),
                    _result("nic", "n0", adminAccess=False),
                ],
                "config": [source],
            },
            "nodeSelector": selector,
            "allocationTimestamp": "2026-01-02T03:04:05Z",
        },
        "reservedFor": [consumer, other],
        "devices": [{**report, "data": {"a": 1}, "networkData": network}],
    }  # fmt: skip
    share = "11111111-2222-4333-8444-555555555555"
    shared = {
        "allocation": {
            "devices": {
                "results": [_result("any/large", "d0", shareID=share, consumedCapacity={"memory": "40Gi"})]
            }
        },
        "devices": [{**report, "shareID": share}],
    }
    return ({**claim, "status": bare}, {**rich, "status": full}, {**ladder, "status": shared})


def others() -> tuple[Body, ...]:
    """Templates, classes and taint rules."""
    metadata = {"labels": {"a": "b"}, "annotations": {"example.com/c": "d"}}
    found = [
        _dra("ResourceClaimTemplate", _META, spec={"metadata": metadata, "spec": claim["spec"]})
        for claim in claims()[:3]
    ]
    config = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    selectors = [
        {"cel": {"expression": expression}} for expression in (f"device.driver == '{DRIVER}'", "true")
    ]
    taint = {"key": "example.com/broken", "value": "v", "effect": "NoExecute"}
    chosen = {"driver": DRIVER, "pool": "node-a", "device": "d0"}
    return (
        *found,
        _dra("DeviceClass", _ALONE, spec={"selectors": selectors, "config": [config]}),
        _dra("DeviceClass", _ALONE, spec={"extendedResourceName": "example.com/gpu"}),
        _dra("DeviceTaintRule", _ALONE, spec={"deviceSelector": chosen, "taint": taint}),
    )


def pods() -> tuple[Body, ...]:
    """A pod with claims that is gated, and one without."""
    use = {"claims": [{"name": "gpus", "request": "gpu"}, {"name": "nics"}]}
    pull = {"imagePullPolicy": "IfNotPresent"}  # else it would follow the image
    account = {"serviceAccountName": "default", "serviceAccount": "default"}  # which an update must repeat
    container = {"name": "main", "image": "img", "resources": use, **pull}
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {
        **account,
        "automountServiceAccountToken": False,
        "schedulingGates": [{"name": "baro.dev/placement"}, {"name": "example.com/quota"}],
        "containers": [container],
        "initContainers": [{"name": "init", "image": "img", **pull}],
        "resourceClaims": [
            {"name": "gpus", "resourceClaimTemplateName": "t"}, {"name": "nics", "resourceClaimName": "c"},
        ],
        "nodeSelector": {"a": "b"},
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
    }  # fmt: skip
    plain = {
        **account,
        "automountServiceAccountToken": False,
        "containers": [{**pull, "name": "main", "image": "img", "resources": {"limits": {"cpu": "1"}}}],
        "activeDeadlineSeconds": 60,
    }
    return tuple(
        {"apiVersion": "v1", "kind": "Pod", "metadata": dict(_META), "spec": s} for s in (spec, plain)
    )


def small() -> tuple[Body, ...]:
    """Node, lease, event, config map, namespace, service account."""
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    amounts = {"cpu": "8", "memory": "64Gi", "example.com/gpu": "8"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {**_ALONE, "labels": {"a": "b"}}}
    lease = {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 1}
    times = {"acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z"}
    involved = {"kind": "Pod", "namespace": NAMESPACE, "name": "p", "apiVersion": "v1", "uid": "u"}
    event = {
        "involvedObject": involved, "reason": "Because", "message": "m", "type": "Normal",
        "source": {"component": "baro"}, "count": 1, "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    return (
        {**node, "spec": {"taints": [taint]}, "status": {"capacity": amounts, "allocatable": amounts}},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": dict(_META), "spec": {**lease,
         **times}},
        {"apiVersion": "v1", "kind": "Event", "metadata": dict(_META), **event},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(_META), "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inputs-of-oracle"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(_META)},
    )  # fmt: skip


def bases() -> tuple[Base, ...]:
    """Every right write: creations, updates that change nothing yet, first and later statuses."""
    found: list[Base] = []
    for body in (*slices(), *claims(), *others(), *pods(), *small()):
        found.append(("create", body, None))
        if body["kind"] != "Namespace":
            found.append(("update", body, body))
    for claim in statuses():
        pending = {key: value for key, value in claim.items() if key != "status"}
        found += [("update-status", claim, pending), ("update-status", claim, claim)]
        found.append(("update-status", {**claim, "status": {}}, claim))
        found.append(("update", claim, claim))
    gated, plain = pods()
    named = [{"name": "gpus", "resourceClaimName": "made"}, {"name": "nics", "resourceClaimName": "c"}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    status = {"phase": "Pending", "conditions": [condition], "resourceClaimStatuses": named}
    found.append(("update-status", {**gated, "status": status}, gated))
    found.append(
        ("update-status", {**plain, "status": {"phase": "Pending", "conditions": [condition]}}, plain)
    )
    ready = {"type": "GPUReady", "status": "True", "reason": "Ok", "message": "m"}
    node = small()[0]
    found.append(("update-status", {**node, "status": {**node["status"], "conditions": [ready]}}, node))
    return tuple((operation, copy.deepcopy(body), copy.deepcopy(old)) for operation, body, old in found)
