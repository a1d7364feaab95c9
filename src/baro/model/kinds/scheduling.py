"""Groups of pods that are scheduled together: ``PodGroup`` and ``Workload`` of ``scheduling.k8s.io``.

Only what says who belongs together and how many there must be; alpha and beta versions of the API spell that
alike from 1.36 on. In 1.35 a ``Workload`` held its groups itself (``spec.podGroups``).
"""

from __future__ import annotations

from baro.model.kinds.base import KubeObject, Wire


class GangSchedulingPolicy(Wire, frozen=True):
    min_count: int | None = None


class SchedulingPolicy(Wire, frozen=True):
    """``gang``: all or nothing. ``basic``: pods that only belong together."""

    gang: GangSchedulingPolicy | None = None
    basic: dict[str, object] | None = None


class TopologyConstraint(Wire, frozen=True):
    """A label of nodes of which all nodes of the group must have one value."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Wire, frozen=True):
    """A claim that the pods of the group share: pods refer to it by an entry of the same name and source."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSpec(Wire, frozen=True):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    min_member: int | None = None
    """Of the PodGroups of other schedulers."""


class PodGroup(KubeObject, frozen=True):
    api_version: str = "scheduling.k8s.io/v1beta1"
    kind: str = "PodGroup"
    spec: PodGroupSpec = PodGroupSpec()


class WorkloadPodGroup(Wire, frozen=True):
    name: str = ""
    policy: SchedulingPolicy = SchedulingPolicy()


class WorkloadSpec(Wire, frozen=True):
    pod_groups: tuple[WorkloadPodGroup, ...] = ()


class Workload(KubeObject, frozen=True):
    api_version: str = "scheduling.k8s.io/v1alpha1"
    kind: str = "Workload"
    spec: WorkloadSpec = WorkloadSpec()
