"""From the answers of all nodes to causes: what is in the way, with evidence and the next command.

The main cause is that of the nodes which come nearest to a fit: those that were filtered although their
devices would do, else those where the funnel goes furthest. Nodes without GPUs never hide a GPU node's cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from baro.diagnosis.explain.bench import Budget
from baro.diagnosis.explain.filtered import GIVE_BACK, of_filtered
from baro.diagnosis.explain.funnel import some
from baro.diagnosis.explain.kinds import FILTERED, Kind, Question, nearness, pinned
from baro.diagnosis.explain.result import Answer, Cause, Step
from baro.diagnosis.explain.whatif import lifted, would
from baro.diagnosis.explain.words import nodes_text
from baro.diagnosis.explain.world import World, near

_CODES = {
    Step.PUBLISHED: "pending-no-devices",
    Step.HERE: "pending-no-devices",
    Step.CLASS: "pending-class-matches-nothing",
    Step.SELECTOR: "pending-no-match",
    Step.FREE: "pending-in-use",
    Step.TAINT: "pending-tainted",
    Step.CAPACITY: "pending-capacity",
    Step.CONSTRAINT: "pending-constraint",
    Step.COUNTERS: "pending-counters",
    Step.SET: "pending-together",
    Step.TOPOLOGY: "pending-island",
    Step.FEATURE: "pending-feature",
    Step.LIMIT: "pending-claim-refused",
    Step.REQUEST: "pending-claim-refused",
    Step.UNDECIDED: "pending-undecided",
}
_WRONG_NODES = (Step.PUBLISHED, Step.HERE, Step.CLASS, Step.SELECTOR)
"""Steps at which a node falls out that has not what is asked for: where others have it, it is no cause."""
_MOST_BEHIND = 12
"""Kinds of filtered nodes whose devices are looked at."""


def causes(
    world: World, question: Question, kinds: Sequence[Kind], budget: Budget
) -> tuple[Step | None, tuple[Cause, ...]]:
    """(the step of the main cause, all causes, the main one first)."""
    asked = sorted(
        (kind for kind in kinds if kind.answer.outcome != FILTERED), key=lambda kind: nearness(kind.answer)
    )
    filtered = [kind for kind in kinds if kind.answer.outcome == FILTERED]
    behind = _behind(world, question, filtered, budget)
    main: list[tuple[Step, Cause]] = [
        *((Step.NODE, cause) for cause in _pinned_elsewhere(world, question, kinds)),
        *((kind.answer.step, of_filtered(world, question, kind)) for kind in _first_of(behind)),
    ]
    if asked:
        step = asked[0].answer.step
        found = (step, _of_answers(world, [kind for kind in asked if kind.answer.step is step]))
        if not behind:
            main.append(found)
        elif step not in _WRONG_NODES:
            main.insert(len(main) - len(_first_of(behind)), found)
    elif not main:
        main = [(kind.answer.step, of_filtered(world, question, kind)) for kind in _first_of(filtered)]
    if not main:
        return Step.NODE, (_no_nodes(world),)
    return main[0][0], tuple(cause for _, cause in main)


def _behind(world: World, question: Question, filtered: Sequence[Kind], budget: Budget) -> list[Kind]:
    """Filtered nodes whose devices would do."""
    found = []
    ranked = sorted(filtered, key=lambda kind: (kind.rejected is None, -len(kind.nodes)))
    for kind in ranked[:_MOST_BEHIND]:
        if kind.rejected is None:
            continue
        if would(world, question, kind, kind.nodes[0], budget) and not _also_hopeless(world, question, kind):
            found.append(kind)
    found = [kind for kind in found if _alone(world, question, kind)] or found
    return [kind for kind in found if not _hopeless(kind)] or found


def _alone(world: World, question: Question, kind: Kind) -> bool:
    """Whether nothing but the one filter keeps the pod off the node."""
    trial = None if kind.rejected is None or question.pod is None else lifted(question.pod, kind.rejected)
    return trial is None or trial.rejection(world, question, kind.nodes[0]) is None


def _also_hopeless(world: World, question: Question, kind: Kind) -> bool:
    """Whether a node that one filter rejects would be rejected for good by the next."""
    out, pod = kind.rejected, question.pod
    trial = None if out is None or pod is None else lifted(pod, out)
    then = None if trial is None else trial.rejection(world, question, kind.nodes[0])
    return then is not None and then.hopeless


def _first_of(kinds: Iterable[Kind]) -> list[Kind]:
    """One kind per filter and key, with the nodes of all that share them: first those that could be a place
    for the pod, then by number of nodes."""
    merged: dict[object, Kind] = {}
    for kind in kinds:
        out = kind.rejected
        key = (out.plugin, out.key, out.states) if out else kind.answer.reason
        known = merged.get(key)
        nodes = (*known.nodes, *kind.nodes) if known else kind.nodes
        merged[key] = msgspec.structs.replace(known or kind, nodes=tuple(sorted(nodes)))
    return sorted(merged.values(), key=lambda kind: (_hopeless(kind), -len(kind.nodes)))


def _hopeless(kind: Kind) -> bool:
    return kind.rejected is not None and kind.rejected.hopeless


def _pinned_elsewhere(world: World, question: Question, kinds: Sequence[Kind]) -> Iterator[Cause]:
    """An allocated claim whose only node does not let the pod in."""
    answers = {name: kind.answer for kind in kinds for name in kind.nodes}
    for claim in question.allocated:
        node = pinned(claim)
        if node is None:
            continue
        said = answers.get(node)
        if said is not None and said.outcome != FILTERED:
            continue
        why = said.reason if said is not None else "there is no such node"
        where = f"allocated on node {node}, where the pod cannot go"
        yield Cause(
            code="pending-claim-elsewhere",
            message=f"claim {claim.metadata.name} is {where}: {why}",
            next=GIVE_BACK,
        )


def _no_nodes(world: World) -> Cause:
    lacking = world.evidence.lacks("nodes", "resourceslices")
    if lacking:
        return Cause(
            code="pending-no-evidence",
            message=f"{lacking[0].source} could not be read: {lacking[0].why}",
            next=lacking[0].next_step,
        )
    return Cause(
        code="pending-no-devices",
        message="there is no node and no ResourceSlice in the evidence",
        next="kubectl get nodes,resourceslices",
    )


# --- nodes that were asked ----------------------------------------------------------------------------------


def _of_answers(world: World, kinds: Sequence[Kind]) -> Cause:
    first = kinds[0]
    said = first.answer
    names = sorted(name for kind in kinds for name in kind.nodes)
    where = nodes_text(names)
    if said.error is not None:
        return _of_error(world, kinds, where)
    stop = said.stop()
    stage = stop[1] if stop else None
    code = _pool_code(said.reason) if said.step is Step.POOL else _CODES.get(said.step, "pending-together")
    evidence = list(evidence_of(world, said))
    message = f"{where}: {said.reason}"
    if said.step in (Step.PUBLISHED, Step.HERE):
        code, message, more = _nothing_published(world, names, said)
        evidence += more
    if said.step is Step.CONSTRAINT and stage is not None and stage.step is Step.CONSTRAINT:
        attribute = stage.text.partition(" ")[2]
        if not stage.after and not is_published(world, attribute):
            code = "unknown-constraint-attribute"
            message = f"no device publishes {attribute}: {stage.text} is never met, not even by one device"
            close = near(attribute, published_names(world))
            evidence += [f"nearest published: {', '.join(close)}"] if close else []
    return Cause(code=code, message=message, evidence=tuple(dict.fromkeys(evidence)), next=_next(said.step))


def evidence_of(world: World, said: Answer) -> Iterator[str]:
    """What the stage of the stop says, and what the allocator itself said of constraints."""
    for funnel in said.funnels:
        for stage in funnel.stages:
            if stage.step is said.step and stage.after < max(funnel.need, 1):
                if stage.text and stage.step in (Step.SELECTOR, Step.CLASS):
                    yield f"{stage.label}: {stage.text}"
                yield from _held_as_one([_with_pods(world, note) for note in stage.notes])
    yield from (line for line in said.said if "mismatch" in line or ", not " in line)


def _held_as_one(notes: Sequence[str]) -> Iterator[str]:
    """Holders in one line: ``held: gpu-0 (pod default/x), gpu-1 (pod default/y) and 2 more``."""
    held = [re.fullmatch(r"held by (.+?): (.+)", note) for note in notes]
    found = [f"{match[2]} ({match[1]})" for match in held if match]
    if found:
        yield f"held: {some(found)}"
    yield from (note for note, match in zip(notes, held, strict=True) if not match)


def _with_pods(world: World, note: str) -> str:
    """The claim of a holder replaced by the pod that people know."""

    def holder(found: re.Match[str]) -> str:
        return f"held by {world.holder(found[1])}:"

    return re.sub(r"^held by claim ([^:]+):", holder, note)


def _of_error(world: World, kinds: Sequence[Kind], where: str) -> Cause:
    said = kinds[0].answer
    evidence = [said.error or ""]
    found = re.search(r"on device (\S+?)/(\S+)/([^/:\s]+):", said.error or "")
    step = "baro lint -f FILE checks claims and classes"
    code = "pending-selector-error"
    message = f"{where}: {said.reason}"
    if found and "runtime error" in (said.error or ""):
        message = (
            f"a selector fails on device {found[3]} of pool {found[2]} (driver {found[1]}):"
            f" {(said.error or '').rpartition('CEL runtime error: ')[2]}"
        )
        evidence.append(
            "kube-scheduler stops with this error and places the pod on no node, whatever others could do;"
            f" the ResourceSlice of that device lacks what the selector reads (driver {found[1]})"
        )
    elif said.on_node or said.step is Step.POOL:
        code, step = _pool_code(said.reason), "kubectl get resourceslices -o yaml"
    elif said.step in (Step.LIMIT, Step.REQUEST, Step.FEATURE, Step.CONSTRAINT, Step.CAPACITY):
        code = "pending-feature" if said.step is Step.FEATURE else "pending-claim-refused"
        message = said.error or ""
        if said.step is Step.FEATURE and world.options.told:
            evidence.append(f"feature gates are taken from {world.options.told}")
    return Cause(code=code, message=message, evidence=tuple(dict.fromkeys(evidence)), next=step)


def _pool_code(reason: str) -> str:
    """Which of the two things that keep a pool out of use a reason speaks of."""
    return "pool-incomplete" if re.search("incomplete|being updated", reason) else "pool-invalid"


def _nothing_published(world: World, names: Sequence[str], said: Answer) -> tuple[str, str, list[str]]:
    """No devices where they are needed: no slice at all, or slices with none or too few in them."""
    if not world.snapshot.slices:
        lacking = world.evidence.lacks("resourceslices")
        if lacking:
            return "pending-no-evidence", f"resourceslices could not be read: {lacking[0].why}", []
        hint = (
            "a node group that scales from zero publishes none until a node is up; autoscalers may not know"
        )
        return "autoscaler-no-resourceslice-template", "no driver has published a ResourceSlice", [hint]
    empty = [
        f"slice {item.metadata.name} of {item.spec.driver} on node {item.spec.node_name} has no device in it"
        for item in world.snapshot.slices
        if not item.spec.devices and not item.spec.shared_counters and item.spec.node_name in set(names)
    ]
    if empty:
        check = "check the driver's root path and the log of its plugin"
        return "empty-slice", f"{nodes_text(names)}: 0 devices are published", [*empty[:4], check]
    return "pending-no-devices", f"{nodes_text(names)}: {said.reason}", []


def _next(step: Step) -> str:
    match step:
        case Step.FREE | Step.COUNTERS | Step.SET:
            return "kubectl get resourceclaims -A  (who holds what)"
        case Step.SELECTOR | Step.CONSTRAINT | Step.CLASS | Step.CAPACITY:
            return "baro lint FILE  (judges selectors and constraints against what is published)"
        case Step.TAINT:
            return "kubectl get devicetaintrules; kubectl get resourceslices -o yaml  (taints)"
    return "kubectl get resourceslices"


# --- what is published --------------------------------------------------------------------------------------


def published_names(world: World) -> list[str]:
    """``domain/name`` of every attribute that some device has now."""
    return ["/".join(name) for name, column in world.inventory.table.attributes.items() if any(column.codes)]


def is_published(world: World, attribute: str) -> bool:
    """Whether some device has the attribute. One without a domain is any driver's own."""
    domain, slash, identifier = attribute.rpartition("/")
    return any(
        (name == (domain, identifier) if slash else name[1] == identifier) and any(column.codes)
        for name, column in world.inventory.table.attributes.items()
    )
