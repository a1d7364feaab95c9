"""What a pod asks of a node and of the resource API, read from the pod object alone.

Sums of requests are kube-scheduler's (``k8s.io/component-helpers/resource.PodRequests``): containers together
with sidecars, or the largest moment of the init containers, plus overhead. Pure functions; nothing here
knows a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Container, Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate
from baro.model.names import PLACEMENT_GATE
from baro.model.quantity import Quantity, QuantityError

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a claim made from a template: the entry of ``spec.resourceClaims`` that it serves."""
EXTENDED_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""On the claim that kube-scheduler makes for extended resources which DRA serves."""

UNIT = 10**9
"""Amounts are exact integers in units of 10^-9."""
Amounts = Mapping[str, int]
"""Resource name → amount."""


class ClaimRef(msgspec.Struct, frozen=True):
    """An entry of a pod's ``resourceClaims``. ``name`` is the claim's, ``None`` while it is not known.

    ``template`` is set for an entry that names one. ``needed`` is false where the pod's status says that no
    claim is to be made. With neither name the entry is one that the API server refuses.
    """

    entry: str
    name: str | None
    template: str | None = None
    needed: bool = True


def done(pod: Pod) -> bool:
    """Whether the pod has ended and uses nothing any more."""
    return pod.status.phase in ("Succeeded", "Failed")


def gated(pod: Pod) -> bool:
    """Whether the pod waits for baro's planner."""
    return any(gate.name == PLACEMENT_GATE for gate in pod.spec.scheduling_gates)


def claim_refs(pod: Pod, owned: Iterable[ResourceClaim] = ()) -> tuple[ClaimRef, ...]:
    """The claims of a pod. ``owned`` are claims whose controller is this pod.

    A template's claim is named by the pod's status; while that is not written yet, the annotation on an owned
    claim tells as well.
    """
    named = {status.name: status for status in pod.status.resource_claim_statuses}
    by_entry = {claim.metadata.annotations.get(POD_CLAIM_ANNOTATION): claim for claim in owned}
    refs: list[ClaimRef] = []
    for entry in pod.spec.resource_claims:
        template = entry.resource_claim_template_name or None
        if entry.resource_claim_name:
            refs.append(ClaimRef(entry.name, entry.resource_claim_name))
        elif entry.name in named:
            name = named[entry.name].resource_claim_name
            refs.append(ClaimRef(entry.name, name, template, needed=name is not None))
        else:
            claim = by_entry.get(entry.name)
            refs.append(ClaimRef(entry.name, claim.metadata.name if claim else None, template))
    return tuple(refs)


def owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made for this very pod, not for an earlier one of the same name.

    In files without UIDs the owner's name has to do.
    """
    return any(
        owner.controller
        and (
            owner.uid == pod.metadata.uid
            if owner.uid and pod.metadata.uid
            else (owner.kind, owner.name) == ("Pod", pod.metadata.name)
        )
        for owner in claim.metadata.owner_references
    )


def made_from(template: ResourceClaimTemplate, namespace: str, name: str) -> ResourceClaim:
    """The claim that kube-controller-manager makes of a template, but for its owner and its own marks."""
    annotations = template.spec.metadata.get("annotations")
    labels = template.spec.metadata.get("labels")
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=namespace,
            name=name,
            labels=dict(labels) if isinstance(labels, dict) else {},
            annotations=dict(annotations) if isinstance(annotations, dict) else {},
        ),
        spec=template.spec.spec,
    )


def requests(pod: Pod) -> dict[str, int]:
    """What the pod asks of a node. ``pods`` is one. Amounts that are no quantity count as nothing."""
    running: dict[str, int] = {}
    for container in pod.spec.containers:
        add(running, asked(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        wanted = asked(container)
        if is_sidecar(container):
            add(sidecars, wanted)
            wanted = {}
        _max(peak, _sum(sidecars, wanted))
    total = _sum(running, sidecars)
    _max(total, peak)
    add(total, _scaled(pod.spec.overhead))
    total["pods"] = UNIT
    return total


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside everything that follows it."""
    return container.restart_policy == "Always"


def asked(container: Container) -> dict[str, int]:
    """What one container asks. A limit without a request is the request, as the API server writes it."""
    return _scaled({**container.resources.limits, **container.resources.requests})


def add(total: dict[str, int], more: Amounts, sign: int = 1) -> None:
    """Add amounts in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def scaled(raw: str | int | float | None) -> int | None:
    """A quantity on the wire in units of 10^-9; ``None`` where there is none or it is no quantity."""
    if raw is None:
        return None
    try:
        return Quantity.parse(raw).scaled
    except QuantityError:
        return None


def shown(amount: int, resource: str = "") -> str:
    """An amount as people write it: ``8``, ``500m``, ``64Gi`` for memory."""
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    if binary and amount % UNIT == 0:
        return _binary(amount // UNIT)
    return str(Quantity.from_scaled(amount))


def _binary(number: int) -> str:
    for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        unit = 1024**power
        if abs(number) >= unit:
            return f"{number / unit:.4g}{suffix}"
    return str(number)


def extended(amounts: Amounts) -> Sequence[str]:
    """The extended resources among them (``nvidia.com/gpu``), sorted: a domain, and not Kubernetes' own."""
    return sorted(name for name, amount in amounts.items() if amount and is_extended(name))


def is_extended(name: str) -> bool:
    """``IsExtendedResourceName``, and what DRA serves under an implicit name."""
    domain, slash, _ = name.partition("/")
    if not slash or domain.startswith("requests."):
        return False
    return not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io")) or domain == IMPLICIT_DOMAIN


IMPLICIT_DOMAIN = "deviceclass.resource.kubernetes.io"
"""``deviceclass.resource.kubernetes.io/<class>`` always names that class."""


def _scaled(raw: Mapping[str, str | int | float]) -> dict[str, int]:
    return {name: amount for name, value in raw.items() if (amount := scaled(value)) is not None}


def _sum(one: Amounts, other: Amounts) -> dict[str, int]:
    total = dict(one)
    add(total, other)
    return total


def _max(total: dict[str, int], other: Amounts) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0), amount)
