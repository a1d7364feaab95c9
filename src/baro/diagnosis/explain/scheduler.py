"""What kube-scheduler said about a pod, beside what it should say by the evidence.

Its message counts reasons over nodes: ``0/3 nodes are available: 2 cannot allocate all claims, 1 node(s) were
unschedulable. …``. The same message follows from an explanation; where the two differ, either the cluster has
changed since, or something is at work that the evidence does not show, and both are said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from baro.diagnosis.explain.kinds import Kind
from baro.diagnosis.explain.references import Standing
from baro.diagnosis.explain.result import SchedulerWord
from baro.diagnosis.explain.world import World, moment
from baro.model.kinds.core import Event, Pod

_COUNTED = re.compile(r"^0/(\d+) nodes are available: (.*)$", re.DOTALL)
_AFTERWARDS = re.compile(r"\.? *(?:still not schedulable, )?preemption: .*$", re.DOTALL)
_TAINT = re.compile(r"node\(s\) had untolerated taint(?: \{[^}]*\}|\(s\))")
_NOT_MODELLED = re.compile(
    r"anti-affinity|pod affinity rules|topology spread|free ports|[Vv]olume|persistentvolume|pvc|disk"
    r"|required features|scheduler-enforced"
)
_ERROR = 'running "DynamicResources" filter plugin: '


class Said(msgspec.Struct, frozen=True):
    """A message taken apart: ``reasons`` over ``nodes`` nodes, or one ``word`` for the pod as such."""

    nodes: int | None = None
    reasons: Mapping[str, int] = {}
    word: str = ""


def last_word(world: World, pod: Pod) -> tuple[str, str | None, str] | None:
    """(message, when, ``condition`` or ``event``): the condition on the pod, else the last event."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status != "True" and condition.message:
            return condition.message, condition.last_transition_time, "condition"
    scheduler = [event for event in world.events_of(pod) if _by_scheduler(event)]
    if not scheduler:
        return None
    return scheduler[-1].message, moment(scheduler[-1]) or None, "event"


def not_modelled(message: str) -> tuple[str, ...]:
    """Reasons in a message that come from rules which an explanation does not look at, sorted."""
    said = parse(message)
    return tuple(sorted(reason for reason in (*said.reasons, said.word) if _NOT_MODELLED.search(reason)))


def _by_scheduler(event: Event) -> bool:
    return event.reason == "FailedScheduling"


def parse(message: str) -> Said:
    """Takes a message apart. Versions before 1.35 name the taint; that counts as the same reason."""
    counted = _COUNTED.match(message.strip())
    if counted is None:
        return Said(word=message.strip().rstrip("."))
    body = _AFTERWARDS.sub("", counted[2]).rstrip(". ")
    reasons: Counter[str] = Counter()
    for part in re.split(r", (?=\d+ )", body):
        number = re.match(r"(\d+) (.*)$", part, re.DOTALL)
        if number is None:
            return Said(nodes=int(counted[1]), word=body)
        reasons[_TAINT.sub("node(s) had untolerated taint(s)", number[2].rstrip("."))] += int(number[1])
    return Said(nodes=int(counted[1]), reasons=reasons)


def expected(world: World, standing: Standing, kinds: Iterable[Kind]) -> str:
    """The message that follows from the evidence; empty for a pod that fits or is not even queued."""
    if not standing.queued:
        return ""
    total = len(world.inventory.nodes)
    if standing.word:
        return f"0/{total} nodes are available: {standing.word}."
    reasons: Counter[str] = Counter()
    for kind in kinds:
        said = kind.answer
        nodes = sum(name in world.inventory.nodes for name in kind.nodes)
        if said.error is not None and not said.on_node:
            return f"{_ERROR}{said.error}"
        if not said.scheduler and nodes:
            return ""
        for word in said.scheduler:
            reasons[word] += nodes
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    return f"0/{total} nodes are available: {listed}." if listed else ""


def compare(word: tuple[str, str | None, str], should: str, *, fits: bool, gated: bool) -> SchedulerWord:
    """Whether kube-scheduler's last word and the explanation agree."""
    message, at, source = word
    agrees, why = _agree(parse(message), parse(should) if should else None, fits=fits, gated=gated)
    return SchedulerWord(said=message, at=at, source=source, expected=should, agrees=agrees, why=why)


def _agree(said: Said, should: Said | None, *, fits: bool, gated: bool) -> tuple[bool | None, str]:
    if said.word.startswith("Scheduling is blocked due to non-empty scheduling gates"):
        return gated, "" if gated else "the pod has no gate any more"
    if fits:
        return False, "by the evidence it would fit now: the message may be older than what changed since"
    if should is None:
        return None, "there is nothing to compare it with"
    if said.word or should.word:
        same = _same(said.word, should.word)
        return same, "" if same else "the evidence leads to another reason"
    if dict(said.reasons) == dict(should.reasons):
        return True, ""
    if said.reasons.keys() == should.reasons.keys():
        return True, "the same reasons, on other numbers of nodes"
    extra = sorted(said.reasons.keys() - should.reasons.keys())
    absent = sorted(should.reasons.keys() - said.reasons.keys())
    parts = [
        *(f"kube-scheduler also said: {', '.join(extra)}" for _ in extra[:1]),
        *(f"the evidence also gives: {', '.join(absent)}" for _ in absent[:1]),
    ]
    return False, "; ".join(parts)


def _same(one: str, other: str) -> bool:
    """The same word; an error counts by its selector, since which device is met first is chance."""

    def plain(text: str) -> str:
        return re.sub(r" on device [^:]+:", "", text.rstrip(". ")).removeprefix(_ERROR)

    return bool(one) and bool(other) and (plain(one) in plain(other) or plain(other) in plain(one))
