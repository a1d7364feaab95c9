"""What stops a pod before nodes are looked at: gates, claims that are not there, classes that do not exist.

Follows kube-scheduler 1.37: PreEnqueue (scheduling gates; every claim exists, is the pod's own and is not
being deleted), then PreFilter of DynamicResources (a shared claim has room, the classes exist). A pod that
fails PreEnqueue is not even queued, so it has no event. Claims that are not there yet but will be made from a
template are assumed, so that the devices can be explained all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from baro.diagnosis.explain.result import Cause, Step
from baro.diagnosis.explain.rules import rules_of
from baro.diagnosis.explain.world import World, key_of, near
from baro.model import pods
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import PLACEMENT_GATE, SELECTOR_ANNOTATION

MOST_CONSUMERS = 256
"""``ResourceClaimReservedForMaxSize``."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod stands before nodes are looked at.

    ``step`` is ``None`` when nothing stops it. ``word`` is what kube-scheduler's event then says instead of
    reasons per node, ``queued`` false when there is no event at all. ``open`` are claims to allocate, in the
    pod's order, ``allocated`` those that are. ``assumed`` names claims that do not exist yet.
    """

    step: Step | None = None
    causes: tuple[Cause, ...] = ()
    word: str = ""
    queued: bool = True
    open: tuple[ResourceClaim, ...] = ()
    allocated: tuple[ResourceClaim, ...] = ()
    assumed: tuple[str, ...] = ()


def standing(world: World, pod: Pod) -> Standing:
    """Everything that is in the way, worst first; the first entry of ``causes`` is what stops the pod."""
    found = _Claims(world, pod)
    found.read()
    gates = list(_gates(world, pod))
    volumes = [] if pods.gated(pod) else list(rules_of(world, pod).stops())
    late = [*volumes, *_reserved(world, pod, found.allocated), *_classes(world, found.open)]
    exclusive = list(_exclusive(world, pod, found.open))
    causes = [*gates, *found.causes, *(cause for cause, _ in late), *exclusive]
    if gates:
        step: Step | None = Step.GATE
    elif causes:
        step = (
            Step.CLASS if not found.causes and late and late[0][0].code == "device-class-not-found" else None
        )
        if volumes and not found.causes:
            step = Step.VOLUMES
        step = step or (Step.CLASS if exclusive and not found.causes and not late else Step.REFERENCE)
    else:
        step = None
    return Standing(
        step=step,
        causes=tuple(causes),
        word=late[0][1] if late and not found.causes else "",
        queued=not gates and not found.causes,
        open=tuple(found.open),
        allocated=tuple(found.allocated),
        assumed=tuple(found.assumed),
    )


def _step(causes: Sequence[Cause]) -> Step | None:
    """The step of the first cause."""
    if not causes:
        return None
    classes = ("device-class-not-found", "pending-exclusive-class")
    return Step.CLASS if causes[0].code in classes else Step.REFERENCE


def _gates(world: World, pod: Pod) -> Iterator[Cause]:
    others = [gate.name for gate in pod.spec.scheduling_gates if gate.name != PLACEMENT_GATE]
    if others:
        yield Cause(
            code="pending-gate",
            message=f"the pod waits for the scheduling gate{'s' * (len(others) > 1)} {', '.join(others)}",
            evidence=("kube-scheduler does not look at a pod with a gate; whoever set it must remove it",),
            next=f"kubectl -n {key_of(pod)[0]} get pod {pod.metadata.name} -o yaml",
        )
    if pods.gated(pod):
        yield Cause(
            code="pending-planner",
            message=f"the pod waits for baro's planner (gate {PLACEMENT_GATE})",
            evidence=_planner_evidence(world, pod),
            next="kubectl get lease -A | grep baro; kubectl -n baro-system get pods",
        )


def _planner_evidence(world: World, pod: Pod) -> tuple[str, ...]:
    from baro.model.names import REASON_ANNOTATION  # noqa: PLC0415 - beside its only use

    said = pod.metadata.annotations.get(REASON_ANNOTATION)
    found = [f"the planner said: {said}"] if said else ["the planner has left no word on the pod"]
    planner = [
        item
        for item in world.snapshot.pods
        if "baro-controller" in item.metadata.name or item.metadata.labels.get("app") == "baro-controller"
    ]
    if planner:
        running = sum(item.status.phase == "Running" for item in planner)
        found.append(f"{running} of {len(planner)} planner pods in the evidence are running")
    return tuple(found)


# --- claims -------------------------------------------------------------------------------------------------


class _Claims:
    """Goes through ``spec.resourceClaims`` in order."""

    def __init__(self, world: World, pod: Pod) -> None:
        self._world = world
        self._pod = pod
        self._namespace = key_of(pod)[0]
        self.open: list[ResourceClaim] = []
        self.allocated: list[ResourceClaim] = []
        self.assumed: list[str] = []
        self.causes: list[Cause] = []

    def read(self) -> None:
        owned = self._world.owned(self._pod)
        for ref in pods.claim_refs(self._pod, owned):
            if not ref.needed:
                continue
            claim = self._one(ref)
            if claim is not None:
                held = claim.status.allocation is not None
                (self.allocated if held else self.open).append(claim)
        if self._world.evidence.lacks("resourceclaims") and not self._world.claims:
            self.causes = []  # not seen is not missing

    def _one(self, ref: pods.ClaimRef) -> ResourceClaim | None:
        if ref.name is None and ref.template is None:
            self._say(
                "pending-claim-entry-empty",
                f"entry {ref.entry} of spec.resourceClaims names neither a claim nor a template",
                ("the level `source` was removed in Kubernetes 1.31: move the name up one level",),
            )
            return None
        key = (self._namespace, ref.name or "")
        claim = self._world.claims.get(key)
        if ref.template is None:
            if claim is None:
                self._missing("claim", ref.name or "", self._world.claims, "resourceclaims")
                return None
        elif claim is None:
            return self._from_template(ref, ref.template)
        elif not pods.owned_by(claim, self._pod) and claim.metadata.owner_references:
            self._say(
                "pending-claim-of-other",
                f"claim {'/'.join(key)} was not made for this pod: {_owner(claim)} owns it",
                (f"ResourceClaim {'/'.join(key)} was not created for Pod {self._namespace}/"
                 f"{self._pod.metadata.name} (Pod is not owner)",),
            )  # fmt: skip
            return None
        if claim.metadata.deletion_timestamp:
            self._say(
                "pending-claim-deleting",
                f"claim {'/'.join(key)} is being deleted (since {claim.metadata.deletion_timestamp})",
                (f'resourceclaim "{claim.metadata.name}" is being deleted', *_finalizers(claim)),
                f"kubectl -n {self._namespace} get resourceclaim {claim.metadata.name} -o yaml",
            )
            return None
        return claim

    def _from_template(self, ref: pods.ClaimRef, template_name: str) -> ResourceClaim | None:
        template = self._world.templates.get((self._namespace, template_name))
        if template is None:
            if not self._world.evidence.lacks("resourceclaimtemplates"):
                self._missing("template", template_name, self._world.templates, "resourceclaimtemplates")
            return None
        name = ref.name or f"{self._pod.metadata.name}-{ref.entry}"
        self.assumed.append(name)
        if self._pod.status.phase or self._pod.metadata.uid:
            self._say(
                "pending-claim-not-made",
                f"the claim of template {template_name} (entry {ref.entry}) has not been made",
                ("kube-controller-manager's resourceclaim controller makes it within seconds",),
                "kubectl -n kube-system get pods -l component=kube-controller-manager",
            )
        return pods.made_from(template, self._namespace, name)

    def _missing(self, what: str, name: str, known: Iterable[tuple[str, str]], resource: str) -> None:
        here = [other for namespace, other in known if namespace == self._namespace]
        elsewhere = sorted(namespace for namespace, other in known if other == name)
        evidence = [
            *([f"a {what} of that name is in namespace {', '.join(elsewhere)}"] if elsewhere else []),
            *([f"nearest name: {', '.join(near(name, here))}"] if near(name, here) else []),
            f"{what}s in namespace {self._namespace}: {', '.join(sorted(here)[:8]) or 'none'}",
        ]
        code = "pending-claim-missing" if what == "claim" else "pending-template-missing"
        self._say(
            code,
            f"the {what} {self._namespace}/{name} does not exist",
            tuple(evidence),
            f"kubectl -n {self._namespace} get {resource}",
        )

    def _say(self, code: str, message: str, evidence: tuple[str, ...] = (), step: str = "") -> None:
        self.causes.append(Cause(code=code, message=message, evidence=evidence, next=step))


def _owner(claim: ResourceClaim) -> str:
    owner = claim.metadata.owner_references[0]
    return f"{owner.kind or 'owner'} {owner.name}"


def _finalizers(claim: ResourceClaim) -> Iterator[str]:
    if claim.metadata.finalizers:
        yield f"finalizers: {', '.join(claim.metadata.finalizers)}"
    consumers = [ref.name for ref in claim.status.reserved_for]
    if consumers:
        yield f"still reserved for {', '.join(consumers[:4])}"


# --- PreFilter ----------------------------------------------------------------------------------------------


def _reserved(world: World, pod: Pod, allocated: Sequence[ResourceClaim]) -> Iterator[tuple[Cause, str]]:
    """A shared claim that takes no more pods."""
    for claim in allocated:
        consumers = claim.status.reserved_for
        mine = any(
            ref.uid == pod.metadata.uid if ref.uid and pod.metadata.uid else ref.name == pod.metadata.name
            for ref in consumers
        )
        if mine or len(consumers) < MOST_CONSUMERS:
            continue
        name = "/".join(key_of(claim))
        yield (
            Cause(
                code="pending-claim-full",
                message=f"claim {name} is reserved for {len(consumers)} pods, which is the limit",
                evidence=(f"first of them: {', '.join(ref.name for ref in consumers[:4])}",),
                next=f"kubectl -n {key_of(claim)[0]} describe resourceclaim {claim.metadata.name}",
            ),
            "resourceclaim in use",
        )


def _classes(world: World, claims: Sequence[ResourceClaim]) -> Iterator[tuple[Cause, str]]:
    """Classes that no one has made. kube-scheduler names the first; all of them are told."""
    if world.evidence.lacks("deviceclasses"):
        return
    known = world.inventory.classes
    for claim in claims:
        for request, name in class_names(claim):
            if not name or name in known:
                continue
            close = near(name, known)
            who = f"claim {'/'.join(key_of(claim))}, request {request.rpartition('/')[2]}"
            yield (
                Cause(
                    code="device-class-not-found",
                    message=f"device class {name} does not exist ({who})",
                    evidence=(
                        *((f"nearest name: {', '.join(close)}",) if close else ()),
                        f"existing: {', '.join(sorted(known)) or 'none'}",
                        f"{who}: could not retrieve device class {name}: "
                        f'deviceclass.resource.k8s.io "{name}" not found',
                    ),
                    next="kubectl get deviceclasses",
                ),
                f"request {request}: device class {name} does not exist",
            )


def class_names(claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    """(``request`` or ``request/subrequest``, class) in order."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly.device_class_name
        for sub in request.first_available:
            yield f"{request.name}/{sub.name}", sub.device_class_name


def _exclusive(world: World, pod: Pod, claims: Sequence[ResourceClaim]) -> Iterator[Cause]:
    """Classes that only baro's planner allocates, asked for by a pod that does not wait for it."""
    if pods.gated(pod):
        return
    seen = set[str]()
    for claim in claims:
        for request, name in class_names(claim):
            item = world.inventory.classes.get(name)
            if item is None or name in seen or not exclusive(item):
                continue
            seen.add(name)
            yield Cause(
                code="pending-exclusive-class",
                message=f"class {name} (request {request}) is allocated by baro's planner only,"
                f" and the pod has no gate {PLACEMENT_GATE}",
                evidence=(
                    "its selector is `false`, so kube-scheduler never takes a device of it;"
                    f" the real one is in the annotation {SELECTOR_ANNOTATION}",
                ),
                next=f"add `schedulingGates: [{{name: {PLACEMENT_GATE}}}]` to the pod's spec"
                " (it cannot be added to a pod that exists)",
            )


def exclusive(item: object) -> bool:
    """Whether kube-scheduler can never allocate from the class."""
    from baro.allocator.plan import class_selectors  # noqa: PLC0415
    from baro.model.kinds.resource import DeviceClass  # noqa: PLC0415

    return isinstance(item, DeviceClass) and class_selectors(item) is not item.spec.selectors


def made_again(claim: ResourceClaim) -> ResourceClaim:
    """The claim as it would be before anything was allocated to it."""
    status = msgspec.structs.replace(claim.status, allocation=None, reserved_for=(), devices=())
    return msgspec.structs.replace(claim, status=status)
