"""The (simulated) cluster of docs/diagnose.md: four nodes, each with a trouble of its own."""

from __future__ import annotations

import yaml

from tests.support.diagnosis import NOW, Body, claim, device, device_class, node, pod, resource_slice

DRIVER = "gpu.baro.dev"
_THEN = "2026-01-01T06:00:00Z"


def _machine(name: str) -> list[Body]:
    """Eight H100 NVL in two bridged islands of four."""
    gpus = [
        device(
            f"gpu-{i}",
            {
                "type": "gpu",
                "productName": "NVIDIA H100 NVL",
                "nvlinkDomain": f"{name}-{i // 4}",
                "nvlinkPeers": 3,
                "resource.kubernetes.io/numaNode": i // 4,
            },
        )
        for i in range(8)
    ]
    return [node(name), resource_slice(name, gpus, driver=DRIVER)]


def _driver(name: str) -> Body:
    return pod(
        f"baro-agent-{name}",
        namespace="baro-system",
        node=name,
        owner=("DaemonSet", "baro-agent"),
        mounts=["/var/lib/kubelet/plugins_registry"],
        image="baro-agent",
    )


def _work(name: str, where: str, gpus: list[int]) -> list[Body]:
    names = [f"gpu-{gpu}" for gpu in gpus]
    return [
        pod(name, namespace="ml", node=where, claims=[name], creationTimestamp=_THEN),
        claim(
            name,
            names,
            namespace="ml",
            node=where,
            driver=DRIVER,
            device_class=DRIVER,
            pods=[name],
            allocated_at=_THEN,
        ),
    ]


def cluster() -> list[Body]:
    """Node a: a split pod. b: stranded GPUs. c: counted, one unhealthy. d: the driver is gone."""
    record: Body = {
        "apiVersion": "baro.dev/v1alpha1",
        "kind": "SnapshotRecord",
        "takenAt": NOW,
        "serverVersion": "v1.37.1",
        "served": {"resource.k8s.io": ["v1"]},
    }
    waiting = [
        pod("tp4-next", namespace="ml", claims=["tp4-next"], phase="Pending"),
        claim("tp4-next", namespace="ml", device_class=DRIVER, count=4),
    ]
    counted = node(
        "c",
        capacity={"nvidia.com/gpu": 8},
        allocatable={"nvidia.com/gpu": 7},
        labels={"nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": "NVIDIA-L40S"},
    )
    return [
        record,
        device_class(DRIVER),
        *_machine("a"),
        _driver("a"),
        *_work("tp4", "a", [0, 1, 4, 5]),
        *_work("eval", "a", [2]),
        *_work("notebook", "a", [6]),
        *_machine("b"),
        _driver("b"),
        *_work("embed", "b", [0]),
        *_work("rerank", "b", [4, 5]),
        *waiting,
        counted,
        *(pod(f"batch-{i}", namespace="ml", node="c", limits={"nvidia.com/gpu": 1}) for i in range(2)),
        *_machine("d"),
    ]


def files() -> dict[str, str]:
    """The files of docs/examples/diagnose."""
    xid = "Xid (PCI:0000:52:00): 79, pid='<unknown>', GPU has fallen off the bus."
    log = f"[430954.509105] NVRM: {xid}\n"
    return {
        "cluster.yaml": "# A simulated cluster, made by tests/support/diagnose_page.py.\n"
        + yaml.safe_dump_all(cluster(), sort_keys=False, width=110),
        "c.dmesg.txt": log,
    }
