"""Pods that stay pending on a real control plane, one for each cause and shape, and their nodes.

Simulated GPUs of the driver ``x.example.com``; kwok keeps the nodes ready. Everything is plain JSON, as a
user would apply it. ``scenes`` has the pods by name with the objects that each needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

Body = dict[str, Any]
DRIVER = "x.example.com"
NIC = "nic.example.com"
GPU = f"device.attributes['{DRIVER}']"
PREFIX = "pend"
GROUP = "resource.k8s.io/v1"
BIG, TAINTED, CORDONED, PLAIN, COUNTED = (
    f"{PREFIX}-{name}" for name in ("big", "tainted", "cordoned", "plain", "counted")
)
NODES = (BIG, TAINTED, CORDONED, PLAIN, COUNTED)


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, and the claims made before it. ``said`` is false where kube-scheduler says nothing, since the
    pod is not even queued."""

    pod: Body
    before: tuple[Body, ...] = ()
    said: bool = True


# --- the cluster --------------------------------------------------------------------------------------------


def nodes() -> Iterator[Body]:
    """Nodes with room for 16 CPUs; taints and cordon come when the holders run."""
    more = {
        PLAIN: {"zone": "west", "rack": "r1"},
        BIG: {"zone": "east", "rack": "r1"},
        COUNTED: {"rack": "r2"},
    }
    for name in NODES:
        has = {"cpu": "16", "memory": "64Gi", "pods": "20", "ephemeral-storage": "10Gi"}
        if name == COUNTED:
            has["nvidia.com/gpu"] = "8"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **more.get(name, {})},
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "status": {"allocatable": has, "capacity": has},
        }


def _value(value: Any) -> Body:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def _device(name: str, *, memory: str = "81559Mi", **attributes: Any) -> Body:
    values = {"kind": "gpu", "model": "H200", "numa": 0, **attributes}
    return {
        "name": name,
        "attributes": {key: _value(value) for key, value in values.items()},
        "capacity": {"memory": {"value": memory}},
    }


def _slice(name: str, node: str, devices: Sequence[Body], **more: Any) -> Body:
    pool = {"name": more.pop("pool", name), "generation": 1, "resourceSliceCount": more.pop("count", 1)}
    spec = {"driver": more.pop("driver", DRIVER), "nodeName": node, "pool": pool, **more}
    if devices:
        spec["devices"] = list(devices)
    return {
        "apiVersion": GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{PREFIX}-{name}"},
        "spec": spec,
    }


def _taint(device: Body, key: str) -> Body:
    return {**device, "taints": [{"key": key, "value": "79", "effect": "NoSchedule"}]}


def _part(name: str, slices: int) -> Body:
    uses = [{"counterSet": "gpu", "counters": {"slices": {"value": str(slices)}}}]
    return {**_device(name, kind="mig", model="MIG"), "consumesCounters": uses}


def slices() -> Iterator[Body]:
    """Devices by kind, each kind a pool of its own on the big node, and the same on nodes that are closed."""
    islands = [_device(f"gpu-{n}", island=f"i{n // 4}", numa=n // 4) for n in range(8)]
    yield _slice("islands", BIG, islands)
    yield _slice("closed", TAINTED, [_device(f"gpu-{n}", model="H300") for n in range(2)])
    yield _slice("cordoned", CORDONED, [_device(f"gpu-{n}", model="H400") for n in range(2)])
    yield _slice("busy", BIG, [_device(f"busy-{n}", model="L4") for n in range(2)])
    yield _slice("solo", BIG, [_device("solo-0", model="SOLO")])
    yield _slice(
        "sick", BIG, [_taint(_device(f"sick-{n}", model="SICK"), "x.example.com/xid") for n in range(2)]
    )
    yield _slice("ruled", BIG, [_device(f"ruled-{n}", model="RULED") for n in range(2)])
    yield _slice("halves", BIG, [_device("half-0", model="HALF")], count=2)
    nic = {
        "name": "nic-0",
        "attributes": {f"{NIC}/speed": _value(400), "common.example.com/numa": _value("0")},
    }
    yield _slice("nics", BIG, [nic], driver=NIC)
    common: Body = {"common.example.com/numa": 0}
    cards = [_device(f"card-{n}", model="CARD", **common) for n in range(2)]
    yield _slice("cards", BIG, cards)
    counters = [{"name": "gpu", "counters": {"slices": {"value": "8"}}}]
    yield _slice("mig-counters", BIG, [], pool="mig", count=2, sharedCounters=counters)
    yield _slice("mig-parts", BIG, [_part("mig-4g", 4), _part("mig-7g", 8)], pool="mig", count=2)
    shared = {**_device("shared-0", model="SHARED", memory="80Gi"), "allowMultipleAllocations": True}
    yield _slice("shared", BIG, [shared])


def classes() -> Iterator[Body]:
    """All devices of the driver, those that no device is of, and one that serves an extended resource."""
    for name, expression, more in (
        ("x-gpu", f"device.driver == '{DRIVER}'", {}),
        ("x-nic", f"device.driver == '{NIC}'", {}),
        ("x-none", "device.driver == 'none.example.com'", {}),
        (
            "x-counted",
            f"device.driver == '{DRIVER}' && {GPU}.model == 'H200'",
            {"extendedResourceName": "x.example.com/gpu"},
        ),
    ):
        selectors = [{"cel": {"expression": expression}}]
        yield {
            "apiVersion": GROUP,
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": selectors, **more},
        }


def rules() -> Iterator[Body]:
    """A rule that taints one pool."""
    yield {
        "apiVersion": GROUP,
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"{PREFIX}-maintenance"},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "ruled"},
            "taint": {"key": "maintenance", "value": "now", "effect": "NoSchedule"},
        },
    }


# --- claims and pods ----------------------------------------------------------------------------------------


def request(name: str = "gpu", count: int = 1, *selectors: str, of: str = "x-gpu", **more: Any) -> Body:
    """An exact request."""
    exactly: Body = {"deviceClassName": of, **more}
    if more.get("allocationMode") != "All":
        exactly["count"] = count
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": item}} for item in selectors]
    return {"name": name, "exactly": exactly}


def model(name: str) -> str:
    """A selector for one model."""
    return f"{GPU}.model == '{name}'"


def claim(name: str, *requests: Body, **devices: Any) -> Body:
    """A claim."""
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def pod(name: str, *claims: str, requests: Mapping[str, str] | None = None, **spec: Any) -> Body:
    """A pod with one container that uses these claims."""
    asked = dict(requests or {})
    limits = {key: value for key, value in asked.items() if "/" in key}
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": asked, "limits": limits, "claims": [{"name": item} for item in claims]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "resourceClaims": [{"name": item, "resourceClaimName": item} for item in claims],
            **spec,
        },
    }


def holders() -> Iterator[Scene]:
    """Pods that run before the others come: they hold what those lack."""
    held = {
        "hold-busy": request("gpu", 2, model("L4")),
        "hold-mig": request("gpu", 1, "device.attributes['x.example.com'].kind == 'mig'", model("MIG")),
        "hold-i0": request("gpu", 1, f"{GPU}.?island.orValue('') == 'i0'"),
        "hold-i1": request("gpu", 2, f"{GPU}.?island.orValue('') == 'i1'"),
        "common": request("gpu", 1, model("CARD")),
    }
    for name, wanted in held.items():
        yield Scene(pod=pod(name, name), before=(claim(name, wanted),))
    on_counted = on(COUNTED)
    yield Scene(pod=pod("hold-counted", requests={"nvidia.com/gpu": "5"}, **on_counted))
    yield Scene(pod=pod("hold-cpu", requests={"cpu": "8"}, nodeSelector={"kubernetes.io/hostname": BIG}))


def on(node: str) -> Body:
    """A spec for that node alone."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def with_one(
    name: str, *requests: Body, spec: Body | None = None, asks: Body | None = None, **devices: Any
) -> Scene:
    """A pod with one claim of the same name."""
    return Scene(
        pod=pod(name, name, requests=asks, **(spec or {})), before=(claim(name, *requests, **devices),)
    )


def _affinity(**term: Any) -> Body:
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _matching(attribute: str, *requests: str) -> Body:
    return {"constraints": [{"requests": list(requests), "matchAttribute": attribute}]}


def _devices() -> Iterator[Scene]:
    """Published, class, selectors, use, taints."""
    yield with_one("too-many", request("gpu", 30))
    yield with_one("over-32", request("gpu", 33))
    yield with_one("no-model", request("gpu", 1, model("H100")))
    yield with_one("no-model-2", request("gpu", 2, f"{GPU}.kind == 'gpu'", model("H500")))
    yield with_one("wrong-type", request("gpu", 1, f"{GPU}.numa == '0'"))
    yield with_one("runtime-error", request("gpu", 1, f"{GPU}.modle == 'H200'"))
    yield with_one(
        "memory-80gi",
        request(
            "gpu", 1, model("H200"), f"device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
        ),
    )
    yield with_one("second-selector", request("gpu", 1, model("H200"), f"{GPU}.kind == 'mig'"))
    yield with_one("class-of-nobody", request("gpu", 1, of="x-none"))
    yield with_one("class-missing", request("gpu", 1, of="x-gpus"))
    yield with_one("sub-class-missing", {"name": "gpu", "firstAvailable": [
        {"name": "a", "deviceClassName": "x-gpu", "count": 30}, {"name": "b", "deviceClassName": "y-gpu"},
    ]})  # fmt: skip
    yield with_one("all-in-use", request("gpu", 1, model("L4")))
    yield with_one("some-in-use", request("gpu", 6, f"{GPU}.?island.orValue('') != ''"))
    yield with_one("tainted-devices", request("gpu", 1, model("SICK")))
    yield with_one("tainted-by-rule", request("gpu", 2, model("RULED")))
    tolerant = [{"key": "x.example.com/xid", "operator": "Exists"}]
    yield with_one("tolerant-too-many", request("gpu", 3, model("SICK"), tolerations=tolerant))
    yield with_one("half-a-pool", request("gpu", 1, model("HALF")))
    yield with_one("all-of-half", request("gpu", 1, model("H200"), allocationMode="All"))


def _sets() -> Iterator[Scene]:
    """Constraints, counters, capacity, several requests and claims."""
    island, islands = f"{DRIVER}/island", f"{GPU}.?island.orValue('') != ''"
    yield with_one("island-of-4", request("gpu", 4, islands), **_matching(island))
    yield with_one(
        "island-of-two", request("a", 2, islands), request("b", 2, islands), **_matching(island, "a", "b")
    )
    yield with_one("unpublished", request("gpu", 1, islands), **_matching(f"{DRIVER}/nvlinkDomain"))
    yield with_one(
        "types-differ", request("gpu", 1, model("CARD")), request("nic", 1, of="x-nic"),
        **_matching("common.example.com/numa"),
    )  # fmt: skip
    yield with_one("three-islands", request("gpu", 3, islands), constraints=[{"distinctAttribute": island}])
    yield with_one("partition", request("gpu", 1, model("MIG")))
    yield with_one("two-solo", request("a", 1, model("SOLO")), request("b", 1, model("SOLO")))
    yield with_one("first-available", {"name": "gpu", "firstAvailable": [
        {"name": "many", "deviceClassName": "x-gpu", "count": 30},
        {"name": "l4", "deviceClassName": "x-gpu", "selectors": [{"cel": {"expression": model("L4")}}]},
    ]})  # fmt: skip
    yield with_one(
        "share-too-large", request("gpu", 1, model("SHARED"), capacity={"requests": {"memory": "90Gi"}})
    )
    yield with_one("share-unknown", request("gpu", 1, model("SHARED"), capacity={"requests": {"cores": "1"}}))
    first, second = (
        claim("two-claims-a", request("gpu", 1, model("SOLO"))),
        claim("two-claims-b", request("gpu", 1, model("L4"))),
    )
    yield Scene(pod=pod("two-claims", "two-claims-a", "two-claims-b"), before=(first, second))


def _node_rules() -> Iterator[Scene]:
    """Selectors, affinity, taints, cordon, CPU and memory, also where the devices would do."""
    one = request("gpu", 1, model("H200"))
    yield with_one("no-zone", one, spec={"nodeSelector": {"zone": "north"}})
    yield with_one("wrong-zone", one, spec={"nodeSelector": {"zone": "west"}})
    west = {"key": "zone", "operator": "In", "values": ["west"]}
    yield with_one("affinity-west", one, spec=_affinity(matchExpressions=[west]))
    never = {"key": "zone", "operator": "Gt", "values": ["5"]}
    yield with_one("affinity-never", one, spec=_affinity(matchExpressions=[never]))
    named = {"key": "metadata.name", "operator": "In", "values": [PLAIN]}
    yield with_one("affinity-by-name", one, spec=_affinity(matchFields=[named]))
    yield with_one("only-tainted", request("gpu", 1, model("H300")))
    yield with_one("only-cordoned", request("gpu", 1, model("H400")))
    yield with_one("gpu-and-cpu", one, asks={"cpu": "12"})
    yield Scene(pod=pod("cpu-never", requests={"cpu": "100"}))
    yield Scene(pod=pod("memory-never", requests={"memory": "1Ti"}))
    yield Scene(pod=pod("cpu-and-memory", requests={"cpu": "100", "memory": "1Ti"}))
    yield Scene(pod=pod("disk-never", requests={"ephemeral-storage": "1Ti"}))
    yield Scene(pod=pod("cpu-in-a-zone", requests={"cpu": "15"}, nodeSelector={"zone": "east"}))


def _counted() -> Iterator[Scene]:
    """Extended resources of device plugins and of DRA."""
    yield Scene(pod=pod("counted-many", requests={"nvidia.com/gpu": "16"}))
    yield Scene(pod=pod("counted-used", requests={"nvidia.com/gpu": "4"}))
    yield Scene(pod=pod("counted-typo", requests={"nvidia.com/gpus": "1"}))
    yield Scene(pod=pod("counted-by-dra", requests={"x.example.com/gpu": "9"}))
    yield Scene(pod=pod("counted-by-class", requests={"deviceclass.resource.kubernetes.io/x-none": "1"}))
    yield Scene(pod=pod("counted-and-cpu", requests={"x.example.com/gpu": "9", "cpu": "100"}))


def _references() -> Iterator[Scene]:
    """Shared claims, gates, and what is not there."""
    elsewhere = {"nodeSelector": {"zone": "west"}}
    yield Scene(pod=pod("common-elsewhere", "common", **elsewhere))
    yield Scene(pod=pod("gated", schedulingGates=[{"name": "example.com/gate"}]))
    yield Scene(pod=pod("claim-missing", "nobody-made-this"), said=False)
    without = pod("template-missing")
    without["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "nobody-made-this"}]
    yield Scene(pod=without, said=False)


def scenes() -> tuple[Scene, ...]:
    """All pods that stay pending."""
    return (*_devices(), *_sets(), *_node_rules(), *_counted(), *_references())
