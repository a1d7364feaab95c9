"""The cluster of docs/explain.md: three nodes, what runs there, and pods that wait for different reasons."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Taint
from baro.model.kinds.resource import Device
from tests.support import explain_documents
from tests.support.cluster import attribute, claim, device, device_class, holding, node_slice, request
from tests.support.explain import node, pod, reserved, selector
from tests.support.explain_documents import HOST
from tests.support.real_pending_rules import apart, terms

H200, H100 = "NVIDIA H200 NVL", "NVIDIA H100 80GB HBM3"
MODEL = "device.attributes['gpu.nvidia.com'].productName"
_UNFIT = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 cannot allocate all claims."
_NO_MATCH = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 cannot allocate all claims."


def _gpus(product: str, memory: str) -> tuple[Device, ...]:
    """Eight GPUs on two sockets, four to an island."""
    found = []
    for index in range(8):
        item = device(
            f"gpu-{index}",
            type="gpu",
            productName=product,
            memory=memory,
            nvlinkDomain=f"island-{index // 4}",
            numaNode=index // 4,
        )
        uuid = attribute(f"GPU-00000000-0000-4000-8000-00000000000{index}")
        found.append(msgspec.structs.replace(item, attributes={**item.attributes, "uuid": uuid}))
    return tuple(found)


def objects() -> list[KubeObject]:
    """Nodes ``h200-1`` and ``h100-1``, ``h200-2`` in maintenance; claims that hold GPUs; pods that wait."""
    held = {"train-a": ["gpu-2"], "train-b": ["gpu-6"], "train-c": ["gpu-7"]}
    island = "gpu.nvidia.com/nvlinkDomain"
    maintenance = Taint(key="maintenance", value="firmware", effect="NoSchedule")
    llm = msgspec.structs.replace(
        holding("h100-1", "gpu-0", "gpu-1", "gpu-2", "gpu-3", name="llm"), spec=claim(request(count=4)).spec
    )
    return [
        node("h200-1", labels={HOST: "h200-1"}),
        node("h200-2", labels={HOST: "h200-2"}, taints=[maintenance]),
        node("h100-1", labels={HOST: "h100-1"}),
        device_class("gpu.nvidia.com"),
        node_slice("h200-1", _gpus(H200, "143771Mi")),
        node_slice("h200-2", _gpus(H200, "143771Mi")),
        node_slice("h100-1", _gpus(H100, "81559Mi")),
        *(reserved(holding("h200-1", *gpus, name=name), name) for name, gpus in held.items()),
        *(pod(name, name, node_name="h200-1", phase="Running") for name in held),
        reserved(llm, "llm"),
        pod("llm", "llm", node_name="h100-1", phase="Running"),
        reserved(holding("h100-1", "gpu-4", name="eval"), "eval"),
        pod("eval", "eval", node_name="h100-1", phase="Running"),
        claim(request(count=4), name="tp4", match=island),
        pod("tp4", "tp4", said=_UNFIT),
        claim(request(selectors=selector(f"{MODEL} == 'H100'")), name="notebook"),
        pod("notebook", "notebook", said=_NO_MATCH),
        claim(request(class_name="gpu.nvidia.co"), name="typo"),
        pod("typo", "typo"),
        claim(request(count=2), name="gated"),
        pod("gated", "gated", gates=["example.com/budget"]),
        pod("old-style", requests={"nvidia.com/gpu": "2"}),
    ]


def _infer() -> list[dict[str, Any]]:
    """A service that wants each of its pods on a node of its own."""
    labels = {"app": "infer"}
    return [
        explain_documents.pod(name, on, labels=labels, **apart(terms(labels, HOST)))
        for name, on in (("infer-0", "h200-1"), ("infer-1", "h100-1"), ("infer-2", ""))
    ]


def dump() -> str:
    """The cluster as ``kubectl get -o yaml`` would give it."""
    bodies: list[dict[str, Any]] = [*(item.to_dict() for item in objects()), *_infer()]
    return "---\n".join(
        yaml.safe_dump(body, sort_keys=False, default_flow_style=None, width=110) for body in bodies
    )
