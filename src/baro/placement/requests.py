"""What is to be placed, from the objects of a snapshot: the claims of a pod together, others alone.

Claims that do not exist yet but will be made from a template are made here in the same way, so that a
manifest can be tried before anything is applied. Nothing is placed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from baro.model.errors import InputError, Where
from baro.model.kinds.core import Pod, PodResourceClaim
from baro.model.kinds.resource import AllocationResult, ResourceClaim, ResourceClaimTemplate
from baro.placement.gang.objects import Gang
from baro.placement.gang.units import GangMember

Key = tuple[str, str]
"""Namespace and name; files without a namespace mean ``default``, as kubectl does."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Claims that must be placed on one node together. ``pod`` is the pod that asks for them, if known."""

    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    allocated: tuple[AllocationResult, ...] = ()
    """Of other claims of the pod: its node must reach these devices."""
    shared: tuple[Key, ...] = ()
    """Claims of the pod that an earlier group brings."""

    @property
    def title(self) -> str:
        """``pod default/x`` or ``claim default/y`` for people."""
        if self.pod is not None:
            return f"pod {'/'.join(key_of(self.pod))}"
        return ", ".join(f"claim {'/'.join(key_of(claim))}" for claim in self.claims)


def key_of(item: Pod | ResourceClaim | ResourceClaimTemplate) -> Key:
    """Namespace and name of an object."""
    return item.metadata.namespace or "default", item.metadata.name


class Claims:
    """Claims and templates by name, with the claims that pods will get from templates."""

    def __init__(
        self, claims: Iterable[ResourceClaim], templates: Iterable[ResourceClaimTemplate], where: str
    ) -> None:
        self._claims = {key_of(claim): claim for claim in claims}
        self._templates = {key_of(template): template for template in templates}
        self._where = where
        self.used: set[Key] = set()
        """Claims that some pod uses."""
        self.used_templates: set[Key] = set()

    def of_pod(self, pod: Pod, gang: Gang | None = None) -> tuple[ResourceClaim, ...]:
        """The claims of a pod, in order of its entries. Those that its gang shares are the gang's.

        Raises ``InputError`` when it refers to a claim or template that is not there.
        """
        made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        of_gang = {
            (item.name, item.resource_claim_name, item.resource_claim_template_name)
            for item in (gang.claims if gang else ())
        }
        namespace = key_of(pod)[0]
        found: list[ResourceClaim] = []
        for entry in pod.spec.resource_claims:
            name, template = entry.resource_claim_name, entry.resource_claim_template_name
            if not name and template:
                shared = gang is not None and (entry.name, None, template) in of_gang
                owner = gang.key[2] if gang is not None and shared else pod.metadata.name
                name = made.get(entry.name) or f"{owner}-{entry.name}"
            if name:
                found.append(self._claim(pod, (namespace, name), entry))
        return tuple(found)

    def _claim(self, pod: Pod, key: Key, entry: PodResourceClaim) -> ResourceClaim:
        self.used.add(key)
        template_name = None if entry.resource_claim_name else entry.resource_claim_template_name
        if template_name is not None:
            self.used_templates.add((key[0], template_name))
        existing = self._claims.get(key)
        if existing is not None:
            return existing
        if template_name is None:
            raise self._missing(pod, "claim", key[1])
        template = self._templates.get((key[0], template_name))
        if template is None:
            raise self._missing(pod, "claim template", template_name)
        return claim_of(template, *key)

    def _missing(self, pod: Pod, what: str, name: str) -> InputError:
        namespace, pod_name = key_of(pod)
        return InputError(
            f"the {what} {namespace}/{name} is not in {self._where}",
            where=Where(object=f"Pod {namespace}/{pod_name}"),
            next_step="add the file that holds it",
        )


def groups(
    pods: Iterable[Pod],
    claims: Iterable[ResourceClaim],
    templates: Iterable[ResourceClaimTemplate],
    known: Claims,
) -> tuple[Group, ...]:
    """Everything unallocated: pods that are not bound first, in the order given, then claims nobody uses.

    A template that no pod uses counts as one claim. ``known`` has the claims that pods may refer to. Raises
    ``InputError`` when a pod refers to a claim or template that is not there.
    """
    found: list[Group] = []
    brought = set(known.used)
    for pod in pods:
        wanted: list[ResourceClaim] = []
        shared: list[Key] = []
        allocated: list[AllocationResult] = []
        for claim in known.of_pod(pod):
            if claim.status.allocation is not None:
                allocated.append(claim.status.allocation)
            elif key_of(claim) in brought:
                shared.append(key_of(claim))
            else:
                wanted.append(claim)
        if wanted and not pod.spec.node_name:
            brought.update(map(key_of, wanted))
            found.append(
                Group(claims=tuple(wanted), pod=pod, allocated=tuple(allocated), shared=tuple(shared))
            )
    for claim in claims:
        if key_of(claim) not in known.used and claim.status.allocation is None:
            found.append(Group(claims=(claim,)))
    for template in templates:
        if key_of(template) not in known.used_templates:
            found.append(Group(claims=(claim_of(template, *key_of(template)),)))
    return tuple(found)


def together(parts: Sequence[Group]) -> Group:
    """All claims as one group, for claims that one pod will use."""
    return Group(
        claims=tuple(claim for part in parts for claim in part.claims),
        allocated=tuple(item for part in parts for item in part.allocated),
    )


def members(gang: Gang, known: Claims) -> tuple[GangMember, ...]:
    """The pods of a gang that are not bound, each with the claims that have no devices yet."""
    return tuple(
        GangMember(
            claims=tuple(claim for claim in claims if claim.status.allocation is None),
            pod=pod,
            allocated=tuple(claim.status.allocation for claim in claims if claim.status.allocation),
        )
        for pod in gang.pods
        if not pod.spec.node_name and (claims := known.of_pod(pod, gang)) is not None
    )


def claim_of(template: ResourceClaimTemplate, namespace: str, name: str) -> ResourceClaim:
    """The claim that a template gives."""
    annotations = template.spec.metadata.get("annotations")
    metadata = msgspec.structs.replace(
        template.metadata,
        namespace=namespace,
        name=name,
        annotations=dict(annotations) if isinstance(annotations, dict) else {},
        uid="",
        resource_version="",
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)
