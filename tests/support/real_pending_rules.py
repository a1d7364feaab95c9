"""Pending pods whose devices would do, but which ports, volumes, spread or affinity between pods keep away.

The nodes and devices are those of ``real_pending``; here are the pods, their volumes, and the holders that
are in the way. ``scenes`` must stay pending; ``fitting`` ask for nearly the same and must run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.real_pending import (
    BIG,
    PLAIN,
    PREFIX,
    Body,
    Scene,
    claim,
    model,
    on,
    pod,
    request,
    with_one,
)


def holders() -> Iterator[Scene]:
    """Pods that run before the others come: they are in the way of those."""
    yield Scene(pod=labelled(with_ports(pod("hold-web", **on(BIG)), 8080), app="web"))
    yield Scene(pod=with_ports(pod("hold-dns", **on(PLAIN)), (53, "UDP", "127.0.0.1")))
    alone = apart(terms({"tier": "lonely"}, "rack"))
    yield Scene(pod=labelled(pod("hold-lonely", **on(BIG), **alone), team="a"))
    for number, node in enumerate((PLAIN, BIG)):
        yield Scene(pod=labelled(pod(f"hold-spread-{number}", **on(node)), job="spread", version="2"))
    yield Scene(
        pod=with_claim(pod("hold-volume", **on(PLAIN)), "once"),
        before=(volume("once", zone="west", modes=["ReadWriteOncePod"]), volume_claim("once", "once")),
    )


def labelled(pod: Body, **labels: str) -> Body:
    """The pod with these labels."""
    pod["metadata"]["labels"] = labels
    return pod


def with_ports(pod: Body, *ports: int | tuple[int, str, str]) -> Body:
    """The pod with host ports: numbers, or (number, protocol, address)."""
    pod["spec"]["containers"][0]["ports"] = [
        {"containerPort": port, "hostPort": port}
        if isinstance(port, int)
        else {"containerPort": port[0], "hostPort": port[0], "protocol": port[1], "hostIP": port[2]}
        for port in ports
    ]
    return pod


def terms(labels: Body, key: str, **more: Any) -> Body:
    """A required term about pods with these labels."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def apart(*required: Body) -> Body:
    """A spec with these terms of anti-affinity."""
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(required)}}
    }


def together(*required: Body) -> Body:
    """A spec with these terms of affinity."""
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(required)}}}


def spread(key: str, labels: Body, skew: int = 1, **more: Any) -> Body:
    """A spec with one constraint."""
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


def with_claim(pod: Body, *claims: str) -> Body:
    """The pod with volumes of these claims."""
    pod["spec"]["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod


def volume_claim(name: str, of: str = "", size: str = "1Gi", **more: Any) -> Body:
    """A PersistentVolumeClaim of a storage class; ``modes`` as its volume has them."""
    modes = more.pop("modes", ["ReadWriteOncePod"] if of == "once" else ["ReadWriteOnce"])
    spec = {
        "accessModes": modes,
        "resources": {"requests": {"storage": size}},
        "storageClassName": f"{PREFIX}-{of}" if of else "",
        **more,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def volume(of: str, zone: str, name: str = "", modes: Sequence[str] = ("ReadWriteOnce",)) -> Body:
    """A volume of a class, 2 GiB, reachable in one zone."""
    zones = {"key": "zone", "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{PREFIX}-{name or of}"},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": list(modes),
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": f"{PREFIX}-{of}",
            "csi": {"driver": "csi.example.com", "volumeHandle": name or of},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}},
        },
    }


def storage_classes() -> Iterator[Body]:
    """Classes that wait for a pod and make nothing, make volumes in one zone only, or bind at once."""
    for name, provisioner, mode, zone in (
        ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", ""),
        ("once", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", ""),
        ("west", "csi.example.com", "WaitForFirstConsumer", "west"),
        ("now", "csi.example.com", "Immediate", ""),
    ):
        expression = {"key": "zone", "values": [zone]}
        topologies = {"allowedTopologies": [{"matchLabelExpressions": [expression]}]} if zone else {}
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": f"{PREFIX}-{name}"},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            **topologies,
        }


def _ports() -> Iterator[Scene]:
    one = request("gpu", 1, model("H200"))
    for name, ports in (
        ("port-taken", (8080,)),
        ("port-taken-and-free", (9090, 8080)),
        ("port-at-address", ((8080, "TCP", "127.0.0.1"),)),
    ):
        yield Scene(pod=with_ports(pod(name, name), *ports), before=(claim(name, one),))
    in_west = {"nodeSelector": {"zone": "west"}}
    yield Scene(pod=with_ports(pod("port-udp", requests={}, **in_west), (53, "UDP", "0.0.0.0")))  # noqa: S104
    side = with_ports(pod("port-sidecar", **on(BIG)), 9191)
    sidecar = {**side["spec"]["containers"][0], "name": "side", "restartPolicy": "Always"}
    sidecar["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
    side["spec"]["initContainers"] = [sidecar]
    yield Scene(pod=side)


def _near() -> Iterator[Scene]:
    """Affinity and anti-affinity, the pod's own and others'."""
    one = request("gpu", 1, model("H200"))
    web, host = {"app": "web"}, "kubernetes.io/hostname"
    yield with_one("away-from-web", one, spec=apart(terms(web, host)))
    yield with_one("away-by-rack", one, spec=apart(terms(web, "rack")))
    yield with_one("away-by-no-label", request("gpu", 30), spec=apart(terms(web, "nobody/has-this")))
    yield with_one("near-nobody", one, spec=together(terms({"app": "nobody"}, host)))
    yield with_one("near-two", one, spec=together(terms(web, host), terms({"app": "db"}, host)))
    yield with_one("near-in-no-rack", one, spec=together(terms(web, "zone"), terms(web, "nobody/has-this")))
    yield with_one("near-web-elsewhere", request("gpu", 30), spec=together(terms(web, "rack")))
    itself = with_one("near-itself", request("gpu", 30), spec=together(terms({"app": "self"}, "rack")))
    yield Scene(pod=labelled(itself.pod, app="self"), before=itself.before)
    for name, more in (
        ("near-other-namespace", {"namespaces": ["kube-system"]}),
        ("near-by-namespace-label", {"namespaceSelector": {"matchLabels": {"nobody": "has-this"}}}),
    ):
        yield with_one(name, one, spec=together(terms(web, host, **more)))
    everywhere = apart(terms(web, host, namespaceSelector={}))
    yield with_one("away-in-all-namespaces", one, spec=everywhere)
    lonely = with_one("not-wanted", one)
    yield Scene(pod=labelled(lonely.pod, tier="lonely"), before=lonely.before)
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}
    by_set = {"labelSelector": selector, "topologyKey": "zone"}
    yield with_one("away-by-set", one, spec=apart(by_set))


def _spreading() -> Iterator[Scene]:
    one = request("gpu", 1, model("H200"))
    match = {"job": "spread"}
    for name, key, more in (
        ("spread-no-label", "nobody/has-this", {}),
        ("spread-zone", "zone", {"minDomains": 3}),
        ("spread-rack", "rack", {}),
        ("spread-ignoring-affinity", "zone", {"nodeAffinityPolicy": "Ignore", "minDomains": 5}),
        ("spread-honouring-taints", "kubernetes.io/hostname", {"nodeTaintsPolicy": "Honor", "minDomains": 9}),
        ("spread-by-label-key", "zone", {"matchLabelKeys": ["version"], "minDomains": 3}),
    ):
        held = with_one(name, one, spec=spread(key, match, **more))
        yield Scene(pod=labelled(held.pod, **match, version="2"), before=held.before)
    west = with_one(
        "spread-in-the-west", one, spec={**spread("zone", match), "nodeSelector": {"zone": "west"}}
    )
    yield Scene(pod=labelled(west.pod, **match), before=west.before)


def _volumes() -> Iterator[Scene]:
    one = request("gpu", 1, model("H200"))
    yield Scene(pod=with_claim(pod("volume-missing"), "nobody-made-this"))
    for name, of, before in (
        ("volume-unbound", "now", ()),
        ("volume-no-class", "nobody-made-this", ()),
        ("volume-static", "", ()),
        ("volume-local", "local", (volume("local", "west", "local-a"),)),
        ("volume-west", "west", ()),
        ("volume-too-large", "local", ()),
    ):
        size = "5Gi" if name == "volume-too-large" else "1Gi"
        body = with_claim(pod(name, name), name)
        yield Scene(pod=body, before=(claim(name, one), *before, volume_claim(name, of, size)))
    yield Scene(pod=with_claim(pod("volume-once"), "once"))
    made = pod("volume-ephemeral")
    template = {"spec": volume_claim("", "now")["spec"]}
    made["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    yield Scene(pod=made)


def _rooms() -> Iterator[Scene]:
    """Requests of the pod as a whole, overhead of a runtime class, init containers and sidecars."""
    whole = pod("whole-pod", requests={"cpu": "1"})
    whole["spec"]["resources"] = {"requests": {"cpu": "40"}}
    yield Scene(pod=whole)
    small = pod("whole-pod-memory", requests={"cpu": "12"}, **on(BIG))
    small["spec"]["resources"] = {"requests": {"cpu": "13", "memory": "900Gi"}}
    yield Scene(pod=small)
    first = pod("init-large", requests={"cpu": "1"})
    init = {**first["spec"]["containers"][0], "name": "init", "resources": {"requests": {"cpu": "30"}}}
    first["spec"]["initContainers"] = [init]
    yield Scene(pod=first)
    beside = pod("sidecar-large", requests={"cpu": "10"})
    side = {**init, "name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "10"}}}
    beside["spec"]["initContainers"] = [side]
    yield Scene(pod=beside)
    yield Scene(pod=pod("overhead", requests={"cpu": "9"}, runtimeClassName=f"{PREFIX}-heavy"))


def runtime_classes() -> Iterator[Body]:
    """One whose pods cost eight CPUs more."""
    yield {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": f"{PREFIX}-heavy"},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "8"}},
    }


def fitting() -> Iterator[Scene]:
    """Pods that ask for the same things and do run."""
    yield Scene(pod=with_ports(pod("port-other", **on(BIG)), 8081))
    yield Scene(pod=with_ports(pod("port-other-address", **on(PLAIN)), (53, "UDP", "127.0.0.2")))


def scenes() -> tuple[Scene, ...]:
    """All pods that stay pending."""
    return (*_ports(), *_near(), *_spreading(), *_volumes(), *_rooms())


def fixed() -> tuple[Body, ...]:
    """What the cluster needs beside nodes and devices."""
    return (*storage_classes(), *runtime_classes())
