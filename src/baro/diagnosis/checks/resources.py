"""Counted GPUs: extended resources that mean GPUs, how many a machine has, and names for single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from baro.inventory import DeviceKey
from baro.model.errors import BaroError
from baro.model.kinds.core import Node
from baro.model.quantity import Quantity

GPU_COUNT_LABEL = "nvidia.com/gpu.count"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
PRODUCT_LABEL = "nvidia.com/gpu.product"
GPU_LABELS = (
    GPU_COUNT_LABEL,
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "cloud.google.com/gke-accelerator",
    "kubernetes.azure.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-count",
    "k8s.amazonaws.com/accelerator",
)
"""Labels of NVIDIA's and the common discovery, and of cloud providers."""
MOST_COUNTED = 1024
"""More GPUs, or shares of GPUs, than any node has: a larger count is somebody's slip."""
_GPU_RESOURCE_ENDS = ("/gpu", "/gpu.shared", "/pgpu")


def number(value: object) -> int:
    """A whole number from a quantity; 0 for none and for what is no number."""
    if value is None:
        return 0
    if isinstance(value, str) and len(value) < 19 and value.isascii() and value.isdigit():
        return int(value)
    try:
        return Quantity.parse(value).value()  # type: ignore[arg-type]
    except (BaroError, ValueError, TypeError):
        return 0


def gpu_resources(values: Mapping[str, object]) -> dict[str, int]:
    """Extended resources that count GPUs or parts of them."""
    return {name: number(value) for name, value in values.items() if is_gpu_resource(name)}


def is_gpu_resource(name: str) -> bool:
    """``vendor/gpu`` and its kin; MIG instances; not memory, not cores, not ``cpu``."""
    if "/" not in name or name.startswith(("kubernetes.io/", "requests.")):
        return False
    return name.endswith(_GPU_RESOURCE_ENDS) or "/mig-" in name


def whole_gpu_resource(name: str) -> bool:
    """A resource of which one unit is one GPU, as long as no sharing is configured."""
    return name.endswith(("/gpu", "/pgpu"))


def physical_gpus(node: Node | None, published: int) -> int:
    """The GPUs in a machine: what its label says, else the larger of what is published and counted."""
    if node is None:
        return published
    label = node.metadata.labels.get(GPU_COUNT_LABEL, "")
    if label.isdecimal() and int(label):
        return min(int(label), MOST_COUNTED)
    shares = shares_of(node)
    counted = sum(
        units // shares
        for name, units in gpu_resources(node.status.capacity).items()
        if whole_gpu_resource(name) or name.endswith("/gpu.shared")
    )
    return max(published, min(counted, MOST_COUNTED))


def has_gpus_by_label(node: Node | None) -> bool:
    """Whether a label of the node says that the machine has GPUs, whoever wrote it."""
    labels = node.metadata.labels if node is not None else {}
    return any(labels.get(name, "") not in ("", "false", "0", "none") for name in GPU_LABELS)


def shares_of(node: Node) -> int:
    """How many counted units one GPU is on this node: 1 unless it is shared by time slicing or MPS."""
    replicas = node.metadata.labels.get(REPLICAS_LABEL, "")
    return int(replicas) if replicas.isdecimal() and 0 < int(replicas) < MOST_COUNTED else 1


def gpu_id(node: str, key: DeviceKey) -> str:
    """Identity of a published GPU: ``node/driver/device``. The node comes first in all identities."""
    return f"{node}/{key.driver}/{key.device}"


def counted_ids(node: str, resource: str, units: Sequence[int] | range) -> frozenset[str]:
    """Identities for GPUs that are only counted: ``node/resource#k``, at most ``MOST_COUNTED``."""
    return frozenset(f"{node}/{resource}#{unit}" for unit in units[:MOST_COUNTED])
