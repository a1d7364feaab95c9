"""The explanation of one pod or claim: verdict, causes, funnels per kind of node, near misses.

The order is kube-scheduler's: gates and references first, then the filters of nodes, then the allocator. The
verdict is the allocator's own (``first-fit``, upstream's exact answer; ``topology`` for a pod that waits for
baro's planner), and an error of one node is an error of the pod, as it is in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from baro.allocator import Outcome, Policy
from baro.diagnosis.explain import scheduler
from baro.diagnosis.explain.bench import Budget
from baro.diagnosis.explain.causes import causes
from baro.diagnosis.explain.extended import served, variants
from baro.diagnosis.explain.gangs import gang_answer, with_gang
from baro.diagnosis.explain.kinds import Kind, Question, groups, kinds
from baro.diagnosis.explain.otherclass import other_classes
from baro.diagnosis.explain.otherrule import other_rule, other_rules
from baro.diagnosis.explain.placed import NOT_KNOWN, holding, unprepared
from baro.diagnosis.explain.plugin import plugin_notes
from baro.diagnosis.explain.references import Standing, class_names, standing
from baro.diagnosis.explain.result import Cause, Explanation, Holding, Miss, SchedulerWord, Step, Verdict
from baro.diagnosis.explain.rules import rules_of
from baro.diagnosis.explain.subjects import Subject
from baro.diagnosis.explain.whatif import misses
from baro.diagnosis.explain.words import nodes_text
from baro.diagnosis.explain.world import World, key_of
from baro.model import pods
from baro.model.errors import InputError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import REASON_ANNOTATION
from baro.placement.demands import with_wish

_CAUSE_BUDGET = 200
_NOTHING: tuple[Verdict, Step | None, tuple[Cause, ...]] = (Verdict.PENDING, None, ())
"""The judgement where no node was asked."""
_DEFAULT_SCHEDULER = "default-scheduler"


def explain(world: World, subject: Subject) -> Explanation:
    """The explanation of a subject that is in the evidence."""
    if subject.kind == "pod":
        return _pod(world, world.pods[subject.key])
    return _claim(world, world.claims[subject.key])


# --- pods ---------------------------------------------------------------------------------------------------


def _pod(world: World, pod: Pod) -> Explanation:
    if pods.done(pod) or pod.metadata.deletion_timestamp:
        return _ended(pod)
    if pod.spec.node_name:
        return _bound(world, pod)
    stands = standing(world, pod)
    planner = pods.gated(pod)
    names = _names(world)
    open_claims = with_wish(stands.open, pod)
    question = Question(
        pod=pod,
        resources=served(world, pod),
        claims_of=variants(world, pod, open_claims, names),
        allocated=stands.allocated,
        policy=Policy.TOPOLOGY if planner else Policy.FIRST_FIT,
        planner=planner,
    )
    found = kinds(world, question, names) if _answerable(world, stands, pod) else []
    verdict, step, said = _judged(world, question, found) if found or not stands.causes else _NOTHING
    notes = [*_notes(world, pod, stands), *plugin_notes(world, pod)]
    unread = _unread(world, pod, stands)
    if unread is not None and stands.step is None:
        verdict, step, said = Verdict.UNKNOWN, None, (unread,)
    gang = gang_answer(world, pod)
    alone = verdict is Verdict.FITS
    if stands.step is not None:
        notes += _behind_the_gate(verdict, found, said, by_itself=gang is not None and bool(gang.causes))
        verdict, step, said = Verdict.PENDING, stands.step, (*stands.causes, *said)
    if gang is not None:
        notes += gang.notes
        verdict, step, said = with_gang(gang, (verdict, step, said), alone=alone)
    word = scheduler.last_word(world, pod)
    other = other_rules(world, pod, word[0]) if verdict is Verdict.FITS and word is not None else ()
    if other:
        verdict, step, said = Verdict.PENDING, Step.NODE, (other_rule(found, other[0]),)
    return _explanation(
        world,
        pod,
        question,
        found,
        more_misses=(
            *(gang.misses if gang is not None else ()),
            *other_classes(world, question, stands, names),
        ),
        verdict=verdict,
        step=step,
        causes=said,
        notes=tuple(notes),
        word=None
        if word is None
        else scheduler.compare(
            word,
            scheduler.expected(world, stands, found),
            fits=verdict is Verdict.FITS,
            gated=stands.step is Step.GATE,
        ),
    )


def _explanation(  # noqa: PLR0913
    world: World,
    pod: Pod,
    question: Question,
    found: Sequence[Kind],
    *,
    more_misses: tuple[Miss, ...],
    verdict: Verdict,
    step: Step | None,
    causes: tuple[Cause, ...],
    notes: tuple[str, ...],
    word: SchedulerWord | None,
) -> Explanation:
    fitting = sorted(name for kind in found if kind.answer.step is Step.FITS for name in kind.nodes)
    namespace, name = key_of(pod)
    return Explanation(
        kind="pod",
        namespace=namespace,
        name=name,
        verdict=verdict,
        headline=_headline(verdict, causes, fitting),
        node=fitting[0] if verdict is Verdict.FITS and fitting else None,
        step=step,
        causes=causes,
        groups=groups(found),
        misses=(*more_misses, *misses(world, question, found)),
        scheduler=word,
        notes=notes,
    )


def _unread(world: World, pod: Pod, stands: Standing) -> Cause | None:
    """A source that could not be read and on which the answer depends."""
    needed = []
    if not _answerable(world, stands, pod):
        needed += ["resourceclaims", "resourceclaimtemplates"]
    if stands.open:
        needed += ["resourceslices"]
        if any(
            name not in world.inventory.classes for claim in stands.open for _, name in class_names(claim)
        ):
            needed += ["deviceclasses"]
    lacking = world.evidence.lacks(*needed)
    if not lacking:
        return None
    return Cause(
        code="pending-no-evidence",
        message=f"{lacking[0].source} could not be read: {lacking[0].why}",
        next=lacking[0].next_step,
    )


def _names(world: World) -> tuple[str, ...]:
    """The nodes that are looked at. Raises ``InputError`` for a ``--node`` that is not there."""
    names = world.inventory.node_names()
    if world.options.node is None:
        return names
    if world.options.node not in names:
        raise InputError(
            f"there is no node {world.options.node} in the evidence",
            next_step=f"known nodes: {', '.join(names[:12]) or 'none'}",
        )
    return (world.options.node,)


def _answerable(world: World, stands: Standing, pod: Pod) -> bool:
    """Whether asking nodes means anything: every claim (at least its template) and every class is known."""
    if any(cause.code == "device-class-not-found" for cause in stands.causes):
        return False
    wanted = sum(ref.needed for ref in pods.claim_refs(pod, world.owned(pod)))
    return wanted == len(stands.open) + len(stands.allocated)


def _judged(
    world: World, question: Question, found: Sequence[Kind]
) -> tuple[Verdict, Step | None, tuple[Cause, ...]]:
    """kube-scheduler's verdict, or for a pod of the planner the planner's."""
    fatal = [kind for kind in found if kind.answer.outcome == Outcome.ERROR.value and not kind.answer.on_node]
    fits = any(kind.answer.step is Step.FITS for kind in found)
    if fits and (question.planner or not fatal):
        return Verdict.FITS, Step.FITS, ()
    step, said = causes(world, question, fatal or found, Budget(_CAUSE_BUDGET))
    if fatal:
        if fits:
            others = sorted(name for kind in found if kind.answer.step is Step.FITS for name in kind.nodes)
            more = f"it would fit on {nodes_text(others)} if that device were not there"
            said = (msgspec.structs.replace(said[0], evidence=(*said[0].evidence, more)), *said[1:])
        return Verdict.ERROR, step, said
    if any(kind.answer.step is Step.UNDECIDED for kind in found):
        return Verdict.UNDECIDED, Step.UNDECIDED, said
    return Verdict.PENDING, step, said


def _headline(verdict: Verdict, found: Sequence[Cause], fitting: Sequence[str]) -> str:
    match verdict:
        case Verdict.FITS:
            return f"would fit now, on {nodes_text(fitting)}"
        case Verdict.ERROR | Verdict.PENDING | Verdict.UNDECIDED | Verdict.UNKNOWN if found:
            return found[0].message
    return verdict.value


def _behind_the_gate(
    verdict: Verdict, found: Sequence[Kind], said: Sequence[Cause], *, by_itself: bool
) -> list[str]:
    """What would come next, once what stops the pod is gone. ``by_itself``: its gang has no place."""
    if not found:
        return []
    if verdict is Verdict.FITS:
        fitting = sorted(name for kind in found if kind.answer.step is Step.FITS for name in kind.nodes)
        return [
            f"{'by itself' if by_itself else 'apart from that'} it would fit now, on {nodes_text(fitting)}"
        ]
    return [f"apart from that: {said[0].message}"] if said else []


def _notes(world: World, pod: Pod, stands: Standing) -> list[str]:
    found = []
    told = pod.metadata.annotations.get(REASON_ANNOTATION)
    if told and not pods.gated(pod):
        found.append(f"the planner said: {told}")
    if stands.assumed:
        found.append(f"taken from their templates, since they are not made yet: {', '.join(stands.assumed)}")
    if pod.spec.scheduler_name not in ("", _DEFAULT_SCHEDULER):
        found.append(
            f"the pod is for scheduler {pod.spec.scheduler_name}; kube-scheduler's rules are assumed"
        )
    rules = rules_of(world, pod)
    found += rules.notes()
    if pods.gated(pod) and rules.names:
        found.append(f"the planner does not look at the pod's {', '.join(rules.names)}; kube-scheduler does")
    found += [f"{item.source}: {item.why}" for item in world.evidence.missing if item.source in _NEEDED]
    found += [error.what for error in world.evidence.unreadable[:2]]
    found += _pool_notes(world)
    return found


_NEEDED = ("pods", "nodes", "resourceslices", "resourceclaims", "deviceclasses", "resourceclaimtemplates")


def _pool_notes(world: World) -> list[str]:
    """Slices and devices that do not count. Not for whole clusters: then it is diagnose's to say."""
    names = world.inventory.node_names()
    if len(names) > 64:
        return []
    return list(world.inventory.problems())[:6]


def _ended(pod: Pod) -> Explanation:
    namespace, name = key_of(pod)
    going = pod.metadata.deletion_timestamp
    headline = f"is being deleted (since {going})" if going else f"has ended ({pod.status.phase})"
    return Explanation(
        kind="pod",
        namespace=namespace,
        name=name,
        verdict=Verdict.DONE,
        headline=headline,
        node=pod.spec.node_name or None,
    )


def _bound(world: World, pod: Pod) -> Explanation:
    namespace, name = key_of(pod)
    node = pod.spec.node_name
    held = _held(world, pod)
    found = tuple(unprepared(world, pod)) if pod.status.phase in ("", "Pending") else ()
    notes = [*_placed_notes(world, pod, held), *plugin_notes(world, pod)]
    lines = "; ".join(item.line for item in held)
    return Explanation(
        kind="pod",
        namespace=namespace,
        name=name,
        verdict=Verdict.PENDING if found else Verdict.PLACED,
        headline=found[0].message if found else lines or f"runs on node {node}",
        node=node,
        step=Step.REFERENCE if found else None,
        causes=found,
        holdings=held,
        notes=tuple(notes),
    )


def _held(world: World, pod: Pod) -> tuple[Holding, ...]:
    names = [ref.name for ref in pods.claim_refs(pod, world.owned(pod)) if ref.name]
    made = world.extended_claim(pod)
    claims = [world.claims.get((key_of(pod)[0], name)) for name in names]
    return tuple(
        holding(world, claim, pod.spec.node_name or None)
        for claim in [*claims, made]
        if claim is not None and claim.status.allocation is not None
    )


def _placed_notes(world: World, pod: Pod, held: Sequence[Holding]) -> list[str]:
    found = []
    told = pod.metadata.annotations.get(REASON_ANNOTATION)
    if told:
        found.append(f"the planner said: {told}")
    elif any(len(item.devices) > 1 for item in held):
        found.append("no planner left a reason on the pod")
    if any(item.first_fit for item in held):
        found.append(NOT_KNOWN)
    if pod.status.phase == "Pending":
        warnings = [event for event in world.events_of(pod) if event.type == "Warning"]
        if warnings:
            found.append(f"last warning ({warnings[-1].reason}): {warnings[-1].message}")
    return found


# --- claims -------------------------------------------------------------------------------------------------


def _claim(world: World, claim: ResourceClaim) -> Explanation:
    namespace, name = key_of(claim)
    users = world.users.get((namespace, name), ())
    if claim.status.allocation is not None:
        held = holding(world, claim, next((pod.spec.node_name for pod in users if pod.spec.node_name), None))
        notes = [
            f"reserved for {', '.join(ref.name for ref in claim.status.reserved_for) or 'nobody'}",
            *([NOT_KNOWN] if held.first_fit else []),
        ]
        return Explanation(
            kind="claim",
            namespace=namespace,
            name=name,
            verdict=Verdict.PLACED,
            headline=held.line,
            node=held.node,
            holdings=(held,),
            notes=tuple(notes),
        )
    waiting = [pod for pod in users if not pod.spec.node_name]
    if waiting:
        said = _pod(world, waiting[0])
        more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        note = f"explained with its pod {waiting[0].metadata.name}{more}, whose claims are allocated together"
        return msgspec.structs.replace(
            said, kind="claim", namespace=namespace, name=name, notes=(note, *said.notes)
        )
    return _alone(world, claim, users)


def _alone(world: World, claim: ResourceClaim, users: Sequence[Pod]) -> Explanation:
    """A claim that no waiting pod refers to: nobody allocates it, by design."""
    names = _names(world)
    question = Question(claims_of={(): (claim,)})
    found = kinds(world, question, names)
    verdict, step, said = _judged(world, question, found)
    if verdict is Verdict.FITS:
        verdict = Verdict.UNUSED
    by_design = "no pod refers to it: a claim is allocated when a pod that uses it is scheduled"
    if users:
        by_design = f"its pod {users[0].metadata.name} is bound, and nobody allocates a claim after that"
    missing = [
        Cause(code="device-class-not-found", message=message, next="kubectl get deviceclasses")
        for message in _missing_classes(world, claim)
    ]
    fitting = sorted(name for kind in found if kind.answer.step is Step.FITS for name in kind.nodes)
    namespace, name = key_of(claim)
    return Explanation(
        kind="claim",
        namespace=namespace,
        name=name,
        verdict=verdict,
        headline=f"{by_design}; it would fit on {nodes_text(fitting)}"
        if verdict is Verdict.UNUSED
        else _headline(verdict, (*missing, *said), fitting),
        step=step,
        causes=(*missing, *said),
        groups=groups(found),
        misses=misses(world, question, found),
        notes=(
            by_design,
            "taints, selectors and room of nodes are a pod's business and not looked at for a claim alone",
            *_pool_notes(world),
        ),
    )


def _missing_classes(world: World, claim: ResourceClaim) -> list[str]:
    known = world.inventory.classes
    return [
        f"device class {name} does not exist (request {request});"
        f" existing: {', '.join(sorted(known)) or 'none'}"
        for request, name in class_names(claim)
        if name and name not in known
    ]
