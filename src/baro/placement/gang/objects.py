"""Which pods form a gang, from what they say: Kubernetes' own groups, baro's label, other schedulers' names.

============================================= ======================================= =====================
on the pod                                    object                                  how many are enough
============================================= ======================================= =====================
``spec.schedulingGroup.podGroupName`` (1.36)  ``PodGroup`` of ``scheduling.k8s.io``   ``gang.minCount``
``spec.workloadRef`` (1.35)                   ``Workload`` of ``scheduling.k8s.io``   ``gang.minCount``
label or annotation ``baro.dev/gang``         none                                    ``baro.dev/gang-size``
label ``scheduling.x-k8s.io/pod-group``       ``PodGroup`` of the same group          ``minMember``
annotation ``scheduling.k8s.io/group-name``   ``PodGroup`` of Volcano                 ``minMember``
============================================= ======================================= =====================

A group with the policy ``basic`` is no gang: its pods are placed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from baro.model.errors import InputError, Where
from baro.model.kinds.core import Pod
from baro.model.kinds.scheduling import PodGroup, PodGroupResourceClaim, SchedulingPolicy, Workload
from baro.model.names import GANG_LABEL, GANG_SIZE_ANNOTATION

_KUBERNETES: Final = "scheduling.k8s.io"
_COSCHEDULING: Final = "scheduling.x-k8s.io"
_VOLCANO: Final = "scheduling.volcano.sh"
_COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_VOLCANO_ANNOTATION: Final = "scheduling.k8s.io/group-name"

GangKey = tuple[str, str, str]
"""Where the name comes from (an API group, or baro's label), namespace, name."""


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that are placed together, in the order given. ``at_least`` so many will do, ``None``: all."""

    key: GangKey
    pods: tuple[Pod, ...]
    at_least: int | None = None
    same: tuple[str, ...] = ()
    """Labels of nodes of which all pods' nodes must have one value."""
    claims: tuple[PodGroupResourceClaim, ...] = ()
    """Claims that the group's pods share."""
    known: bool = True
    """False: the object that describes the gang was not given."""

    @property
    def title(self) -> str:
        """``gang default/train`` for people."""
        return f"gang {self.key[1]}/{self.key[2]}"


class Groups:
    """The group objects of a cluster or of files, by name."""

    def __init__(self, bodies: Iterable[Mapping[str, Any]] = ()) -> None:
        self._pod_groups: dict[GangKey, PodGroup] = {}
        self._workloads: dict[tuple[str, str], Workload] = {}
        for body in bodies:
            self.add(body)

    def add(self, body: Mapping[str, Any]) -> bool:
        """Take over an object; false for one of another kind. Raises ``InputError`` for a wrong type."""
        group = str(body.get("apiVersion", "")).rpartition("/")[0]
        kind = body.get("kind")
        if kind == "PodGroup" and group in (_KUBERNETES, _COSCHEDULING, _VOLCANO):
            found = _typed(body, PodGroup)
            self._pod_groups[group, found.metadata.namespace or "default", found.metadata.name] = found
        elif kind == "Workload" and group == _KUBERNETES:
            workload = _typed(body, Workload)
            self._workloads[workload.metadata.namespace or "default", workload.metadata.name] = workload
        else:
            return False
        return True

    def gang(self, key: GangKey, pods: Sequence[Pod]) -> Gang | None:
        """The gang of that name, ``None`` when its policy makes it none."""
        source, namespace, name = key
        found = self._pod_groups.get(key)
        if found is not None:
            policy = found.spec.scheduling_policy
            if policy.basic is not None and policy.gang is None:
                return None
            count = policy.gang.min_count if policy.gang else found.spec.min_member
            return Gang(
                key=key,
                pods=tuple(pods),
                at_least=count,
                same=tuple(item.key for item in found.spec.scheduling_constraints.topology),
                claims=found.spec.resource_claims,
            )
        policy_ = self._of_workload(namespace, name) if source == _KUBERNETES else None
        if policy_ is not None:
            if policy_.basic is not None and policy_.gang is None:
                return None
            least = policy_.gang.min_count if policy_.gang else None
            return Gang(key=key, pods=tuple(pods), at_least=least)
        at_least = _size(pods) if source == GANG_LABEL else None
        return Gang(key=key, pods=tuple(pods), at_least=at_least, known=source == GANG_LABEL)

    def _of_workload(self, namespace: str, name: str) -> SchedulingPolicy | None:
        workload, _, group = name.partition("/")
        found = self._workloads.get((namespace, workload))
        groups = {item.name: item.policy for item in found.spec.pod_groups} if found else {}
        return groups.get(group.partition("/")[0])


def key_of_gang(pod: Pod) -> GangKey | None:
    """The gang that a pod names, if any. Kubernetes' own word goes before labels."""
    namespace = pod.metadata.namespace or "default"
    spec, labels, annotations = pod.spec, pod.metadata.labels, pod.metadata.annotations
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return _KUBERNETES, namespace, spec.scheduling_group.pod_group_name
    if spec.workload_ref is not None and spec.workload_ref.name:
        reference = spec.workload_ref
        parts = (reference.name, reference.pod_group, reference.pod_group_replica_key)
        return _KUBERNETES, namespace, "/".join(filter(None, parts))
    name = labels.get(GANG_LABEL) or annotations.get(GANG_LABEL)
    if name:
        return GANG_LABEL, namespace, name
    if labels.get(_COSCHEDULING_LABEL):
        return _COSCHEDULING, namespace, labels[_COSCHEDULING_LABEL]
    if annotations.get(_VOLCANO_ANNOTATION):
        return _VOLCANO, namespace, annotations[_VOLCANO_ANNOTATION]
    return None


def gangs(pods: Iterable[Pod], groups: Groups) -> tuple[tuple[Gang, ...], tuple[Pod, ...]]:
    """The gangs, in order of their first pods, and the pods that belong to none."""
    pods = tuple(pods)
    members: dict[GangKey, list[Pod]] = {}
    for pod in pods:
        key = key_of_gang(pod)
        if key is not None:
            members.setdefault(key, []).append(pod)
    found = {key: gang for key, mine in members.items() if (gang := groups.gang(key, mine)) is not None}
    return tuple(found.values()), tuple(pod for pod in pods if key_of_gang(pod) not in found)


def _size(pods: Sequence[Pod]) -> int | None:
    """The largest size that a pod of the gang tells. Raises ``InputError`` for what is no number."""
    sizes = []
    for pod in pods:
        text = pod.metadata.annotations.get(GANG_SIZE_ANNOTATION)
        if text is None:
            continue
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise InputError(
                f"annotation {GANG_SIZE_ANNOTATION}: {text!r} is no number of pods",
                where=Where(object=f"Pod {pod.metadata.namespace or 'default'}/{pod.metadata.name}"),
                next_step="write a whole number of 1 or more",
            )
        sizes.append(int(text))
    return max(sizes, default=None)


def _typed(body: Mapping[str, Any], struct: type[Any]) -> Any:
    try:
        return msgspec.convert(_without_nulls(body), struct)
    except msgspec.ValidationError as error:
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        raise InputError(
            str(error),
            where=Where(object=f"{body.get('kind')} {name or '?'}"),
            next_step="give the field the type that the API declares",
        ) from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
