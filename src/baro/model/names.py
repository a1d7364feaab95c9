"""Names on the wire: every string by which baro is known in a cluster, in one place."""

from __future__ import annotations

from typing import Final

API_GROUP: Final = "baro.dev"
API_VERSION: Final = "baro.dev/v1alpha1"

DRIVER: Final = "gpu.baro.dev"
"""Default name of baro's DRA driver; the domain of its device attributes."""
EXCLUSIVE_CLASS: Final = "gpu.baro.dev"
"""DeviceClass whose CEL selector is ``false``: kube-scheduler never allocates it, yet honours allocations."""
MIG_CLASS: Final = "mig.baro.dev"
NVIDIA_DRIVER: Final = "gpu.nvidia.com"
"""Also the compatibility domain: selectors written for NVIDIA's driver match baro's devices."""

PLACEMENT_GATE: Final = "baro.dev/placement"
SELECTOR_ANNOTATION: Final = "baro.dev/selector"
"""On an exclusive class: the CEL expression that baro uses in place of ``false``."""
TOPOLOGY_ANNOTATION: Final = "baro.dev/topology"
"""On a claim or pod: ``required``, ``preferred`` (default) or ``none``."""
ALLOCATED_BY: Final = "baro.dev/allocated-by"
"""On a claim: digest of the allocation that baro wrote."""
INTENT: Final = "baro.dev/intended-allocation"
"""On a claim: an allocation that is announced and not yet written to its status."""
GANG_LABEL: Final = "baro.dev/gang"
"""On pods, as label or annotation: pods of one namespace and value are placed all together or not at all."""
GANG_SIZE_ANNOTATION: Final = "baro.dev/gang-size"
"""On pods of a gang: so many of them are enough. Default: all."""
REASON_ANNOTATION: Final = "baro.dev/placement-reason"

GPU_READY_CONDITION: Final = "GPUReady"
NOT_READY_TAINT: Final = "baro.dev/gpu-not-ready"

STANDARD_DOMAIN: Final = "resource.kubernetes.io"
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"

FIELD_MANAGER: Final = "baro"
