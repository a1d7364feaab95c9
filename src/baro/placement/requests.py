"""What is to be placed, from the objects of a snapshot: the claims of a pod together, others alone.

Claims that do not exist yet but will be made from a template are made here in the same way, so that a
manifest can be tried before anything is applied. Nothing is placed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from baro.model.errors import InputError, Where
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate

Key = tuple[str, str]
"""Namespace and name; files without a namespace mean ``default``, as kubectl does."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Claims that must be placed on one node together. ``pod`` is the pod that asks for them, if known."""

    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None

    @property
    def title(self) -> str:
        """``pod default/x`` or ``claim default/y`` for people."""
        if self.pod is not None:
            return f"pod {'/'.join(key_of(self.pod))}"
        return ", ".join(f"claim {'/'.join(key_of(claim))}" for claim in self.claims)


def key_of(item: Pod | ResourceClaim | ResourceClaimTemplate) -> Key:
    """Namespace and name of an object."""
    return item.metadata.namespace or "default", item.metadata.name


def groups(
    pods: Iterable[Pod], claims: Iterable[ResourceClaim], templates: Iterable[ResourceClaimTemplate]
) -> tuple[Group, ...]:
    """Everything unallocated: pods that are not bound first, in the order given, then claims nobody uses.

    A template that no pod uses counts as one claim. Raises ``InputError`` when a pod refers to a claim or
    template that is not there.
    """
    claims, templates = list(claims), list(templates)
    by_key = {key_of(claim): claim for claim in claims}
    templates_by_key = {key_of(template): template for template in templates}
    found: list[Group] = []
    used: set[Key] = set()
    used_templates: set[Key] = set()
    for pod in pods:
        wanted: list[ResourceClaim] = []
        for name, template_name in _references(pod):
            namespace = key_of(pod)[0]
            if template_name is not None:
                template = templates_by_key.get((namespace, template_name))
                used_templates.add((namespace, template_name))
                claim = by_key.get((namespace, name)) or _made(template, namespace, name, template_name, pod)
            else:
                existing = by_key.get((namespace, name))
                if existing is None:
                    raise _missing(pod, "claim", name)
                claim = existing
            if key_of(claim) not in used and claim.status.allocation is None:
                wanted.append(claim)
            used.add(key_of(claim))
        if wanted and not pod.spec.node_name:
            found.append(Group(claims=tuple(wanted), pod=pod))
    for claim in claims:
        if key_of(claim) not in used and claim.status.allocation is None:
            found.append(Group(claims=(claim,)))
    for template in templates:
        if key_of(template) not in used_templates:
            namespace, name = key_of(template)
            found.append(Group(claims=(_claim_of(template, namespace, name),)))
    return tuple(found)


def together(parts: Sequence[Group]) -> Group:
    """All claims as one group, for claims that one pod will use."""
    return Group(claims=tuple(claim for part in parts for claim in part.claims))


def _references(pod: Pod) -> Iterable[tuple[str, str | None]]:
    """(claim name, template name or ``None``) of each entry of the pod, in order."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            yield entry.resource_claim_name, None
        elif entry.resource_claim_template_name:
            name = made.get(entry.name) or f"{pod.metadata.name}-{entry.name}"
            yield name, entry.resource_claim_template_name


def _made(
    template: ResourceClaimTemplate | None, namespace: str, name: str, template_name: str, pod: Pod
) -> ResourceClaim:
    if template is None:
        raise _missing(pod, "claim template", template_name)
    return _claim_of(template, namespace, name)


def _claim_of(template: ResourceClaimTemplate, namespace: str, name: str) -> ResourceClaim:
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


def _missing(pod: Pod, what: str, name: str) -> InputError:
    namespace, pod_name = key_of(pod)
    return InputError(
        f"the {what} {namespace}/{name} is not in the files",
        where=Where(object=f"Pod {namespace}/{pod_name}"),
        next_step="add the file that holds it",
    )
