"""Why one filter of kube-scheduler keeps a pod off a node: the value that all filters give."""

from __future__ import annotations

import msgspec

from baro.diagnosis.explain.result import Step


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node is out. ``key`` names what would have to change: a taint, a label, a resource.

    ``scheduler`` are the reasons as kube-scheduler counts them; empty where only baro's planner minds.
    ``evidence`` is about this very node, ``lift`` says how it reads when the filter were not in the way.
    """

    step: Step
    plugin: str
    reason: str
    key: str = ""
    scheduler: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    """Of each resource that is short: ``used`` up, ``never`` enough, all ``sick``, ``gone`` or ``absent``."""
    evidence: tuple[str, ...] = ()
    lift: str = ""

    @property
    def hopeless(self) -> bool:
        """Whether the node lacks something that it never had: it is no place for the pod anyway."""
        return "absent" in self.states or "never" in self.states
