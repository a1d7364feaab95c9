"""The values of an explanation: funnels per request, answers per kind of node, causes, near misses.

Plain data that text and JSON are made of; nothing here decides. Counts are devices unless the name says
otherwise. Node names in ``Answer`` are those of one representative; ``Group.nodes`` has all nodes that got
the same answer.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """What the whole explanation comes to."""

    PLACED = "placed"
    """Bound to a node, or a claim that is allocated."""
    FITS = "fits"
    """Pending, and it would fit now."""
    PENDING = "pending"
    ERROR = "error"
    """kube-scheduler stops with an error, whatever other nodes could do."""
    UNDECIDED = "undecided"
    """The work limit was reached on the nodes that could decide it."""
    UNKNOWN = "unknown"
    """What it depends on could not be read."""
    UNUSED = "unused"
    """A claim that no pod refers to: pending by design."""
    DONE = "done"
    """The pod has ended, or is going away."""


class Step(StrEnum):
    """Where devices, nodes or the whole pod fall out, in the order in which they do."""

    GATE = "gate"
    GANG = "gang"
    REFERENCE = "reference"
    NODE = "node"
    PORTS = "ports"
    RESOURCES = "resources"
    VOLUMES = "volumes"
    SPREAD = "spread"
    NEAR = "affinity"
    PUBLISHED = "published"
    POOL = "pool"
    HERE = "on this node"
    CLASS = "class"
    SELECTOR = "selector"
    FREE = "free"
    TAINT = "untainted"
    CAPACITY = "capacity"
    CONSTRAINT = "constraint"
    COUNTERS = "counters"
    SET = "set"
    TOPOLOGY = "topology"
    FEATURE = "feature"
    LIMIT = "limit"
    REQUEST = "request"
    FITS = "fits"
    UNDECIDED = "undecided"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a funnel: ``before`` devices came in, ``after`` are left.

    For ``constraint`` and ``set`` ``after`` is the most that can go together. ``lost`` are names of devices,
    ``notes`` say what those devices have instead.
    """

    step: Step
    label: str
    text: str = ""
    before: int
    after: int
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Funnel(msgspec.Struct, frozen=True, kw_only=True):
    """One request (or one of its alternatives) on one node. ``need`` counts devices; with mode All it is as
    many as match, at least one."""

    claim: str
    request: str
    wanted: str
    """``4 devices`` or ``all matching devices``."""
    need: int
    device_class: str = ""
    all_devices: bool = False
    stages: tuple[Stage, ...] = ()
    error: str | None = None
    """Upstream's refusal or selector failure, met before or within the funnel."""

    @property
    def left(self) -> int:
        """Devices that could be taken, before constraints between devices."""
        kept = [stage.after for stage in self.stages if stage.step not in (Step.CONSTRAINT, Step.SET)]
        return kept[-1] if kept else 0

    def stops_at(self) -> Stage | None:
        """The first stage that leaves fewer than needed; ``None`` when the request could be had alone."""
        return next((stage for stage in self.stages if stage.after < max(self.need, 1)), None)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one node answers. ``step`` is where it falls out, ``reason`` the words for people.

    ``scheduler`` are the words that kube-scheduler counts in its event, one for each reason.
    """

    node: str
    outcome: str
    """The allocator's outcome (``fits``, ``no-fit``, ``error``, ``gave-up``), or ``filtered``."""
    step: Step
    reason: str = ""
    error: str | None = None
    on_node: bool = False
    scheduler: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    """The allocator's own reasons."""
    funnels: tuple[Funnel, ...] = ()
    devices: tuple[str, ...] = ()
    gbps: float | None = None
    free_gpus: int = 0
    island: int = 0

    def stop(self) -> tuple[Funnel, Stage] | None:
        """The first request that falls short at the answer's step, and where."""
        for funnel in self.funnels:
            stage = funnel.stops_at()
            if stage is not None and stage.step is self.step:
                return funnel, stage
        return None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same answer. ``nodes`` are in order of name; the first is the representative."""

    nodes: tuple[str, ...]
    answer: Answer


class MissKind(StrEnum):
    """What would have to change."""

    GANG = "gang"
    """A release that lets the whole gang in."""
    RELEASE = "release"
    TOLERATE = "tolerate"
    CLASS = "class"
    SELECTOR = "selector"
    CONSTRAINT = "constraint"
    COUNT = "count"
    CAPACITY = "capacity"
    POOL = "pool"
    NODE = "node"
    TOPOLOGY = "topology"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change, exact enough to be applied by hand or by a test.

    ``claim`` is ``namespace/name`` of a claim to change or to release, ``request`` names a request (or
    ``request/subrequest``), ``index`` a selector or constraint of it, ``value`` what takes its place
    (``None``: nothing), ``key`` a taint, a capacity, a pool or a node filter.
    """

    kind: MissKind
    claim: str = ""
    request: str = ""
    index: int = -1
    key: str = ""
    value: str | None = None


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """A change that the allocator confirmed: with it the claims fit. ``nodes`` counts where, ``first`` is
    one of those."""

    changes: tuple[Change, ...]
    text: str
    nodes: int
    first: str


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why, as a finding: a stable code of the findings table, what, evidence, and the next command."""

    code: str
    message: str
    evidence: tuple[str, ...] = ()
    next: str = ""


class SchedulerWord(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler said last. ``agrees`` is ``None`` where that cannot be told."""

    said: str
    at: str | None = None
    source: str = ""
    """``condition`` or ``event``."""
    expected: str = ""
    """The message that follows from the evidence."""
    agrees: bool | None = None
    why: str = ""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """What a placed claim holds, and what it is worth beside kube-scheduler's first fit.

    ``gbps`` and ``first_fit_gbps`` are predicted GB/s of the best ring, ``None`` when unknown.
    """

    claim: str
    node: str | None = None
    devices: tuple[str, ...] = ()
    line: str = ""
    gbps: float | None = None
    slowest: str | None = None
    first_fit: tuple[str, ...] = ()
    first_fit_gbps: float | None = None
    best: tuple[str, ...] = ()
    """What policy ``topology`` would take on the node now."""
    best_gbps: float | None = None
    problems: tuple[str, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one pod or claim."""

    kind: str
    """``pod`` or ``claim``."""
    namespace: str
    name: str
    verdict: Verdict
    headline: str
    node: str | None = None
    step: Step | None = None
    causes: tuple[Cause, ...] = ()
    groups: tuple[Group, ...] = ()
    misses: tuple[Miss, ...] = ()
    scheduler: SchedulerWord | None = None
    holdings: tuple[Holding, ...] = ()
    notes: tuple[str, ...] = ()
    """Facts that are no cause: what the planner said, what is not known."""
    alike: tuple[str, ...] = ()
    """``namespace/name`` of other pods that ask for the same in every respect."""

    @property
    def title(self) -> str:
        """``pod default/x``."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def settled(self) -> bool:
        """Whether nothing is in the way: placed, would fit, ended, or waiting for nothing."""
        return self.verdict in (Verdict.PLACED, Verdict.FITS, Verdict.DONE, Verdict.UNUSED)
