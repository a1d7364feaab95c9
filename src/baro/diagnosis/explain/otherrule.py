"""Reasons of kube-scheduler's that no rule of this package can have found: never "it would fit"."""

from __future__ import annotations

from collections.abc import Sequence

from baro.diagnosis.explain import scheduler
from baro.diagnosis.explain.kinds import Kind
from baro.diagnosis.explain.result import Cause, Step
from baro.diagnosis.explain.rules import rules_of
from baro.diagnosis.explain.words import nodes_text
from baro.diagnosis.explain.world import World
from baro.model.kinds.core import Pod


def other_rules(world: World, pod: Pod, message: str) -> tuple[str, ...]:
    """Reasons of kube-scheduler's from rules that were not looked at, or not with all that they need."""
    rules = rules_of(world, pod)
    return tuple(word for word in scheduler.not_modelled(message) if not rules.covers(word))


def other_rule(found: Sequence[Kind], word: str) -> Cause:
    """kube-scheduler names a rule that is not looked at here; then "it would fit" would be a guess."""
    fitting = sorted(name for kind in found if kind.answer.step is Step.FITS for name in kind.nodes)
    return Cause(
        code="pending-other-rule",
        message=f"kube-scheduler names a rule that is not looked at: {word}",
        evidence=(f"by its devices and by all other rules it would fit on {nodes_text(fitting)}",),
        next="kubectl describe pod  (affinity, spread, ports, volumes)",
    )
