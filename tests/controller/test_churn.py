"""Two planners, kube-scheduler, the claim controller and chaos in any order: the end is always clean.

Hypothesis chooses the order. Each planner places its own half of the pods, as two namespaces would split
them, and knows of the rest only what its watches have told so far, kind by kind; both are killed and
restarted at any write, and get conflicts. The judge shares no code with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from baro.controller.reconcile import Planner
from baro.kube.api import EventType
from baro.kube.errors import ConflictError
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from tests.support.controller import GATE, Cluster, in_step, judge
from tests.support.kube import FakeApi, Killed, Write

NODES = ("a", "b", "c")
KINDS: tuple[type[KubeObject], ...] = (Pod, ResourceClaim, Node, ResourceSlice, DeviceTaintRule)


class Churn(RuleBasedStateMachine):
    """Names of pods and claims are numbers that are never used twice, but for the shared claim."""

    writers = 1

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.made = 0
        self.planners: list[Planner] = []
        self.apis: list[FakeApi] = []
        self.heard: list[dict[type[KubeObject], int]] = []

    @initialize()
    def begin(self) -> None:
        for node in NODES:
            self.cluster.node(node, 3, allocatable={"cpu": "3"})
        self.cluster.claim("shared", 1)
        for _ in range(2):
            self.apis.append(self.cluster.fake.other())
            self.planners.append(self.cluster.planner())
            self.heard.append({})
        for which in (0, 1):
            self.restart(which)

    def restart(self, which: int) -> None:
        """A new process: nothing remembered, everything listed."""
        self.apis[which] = self.cluster.fake.other()
        self.planners[which].close()
        planner = self.planners[which] = self.cluster.planner(self.apis[which], writers=self.writers)
        planner._skip = self.half(which)  # type: ignore[method-assign,assignment]
        self.look(which)

    def half(self, which: int) -> Callable[[datetime], frozenset[str]]:
        """The pods that this planner does not place."""
        return lambda now: frozenset(
            pod.metadata.uid for pod in self.pods() if int(pod.metadata.name[1:]) % 2 != which
        )

    def look(self, which: int) -> None:
        """The planner's watches are up to date."""
        self.planners[which].view.load(self.cluster.api)
        self.heard[which] = dict.fromkeys(KINDS, self.cluster.fake.store.version)

    # --- users ---------------------------------------------------------------------------------------------

    @rule(
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=2), gated=st.sampled_from([True, True, False])
    )
    def new_pod(self, counts: list[int], gated: bool) -> None:
        self.made += 1
        names = [f"c{self.made}-{i}" for i in range(len(counts))]
        for name, count in zip(names, counts, strict=True):
            self.cluster.claim(name, count)
        self.cluster.pod(f"p{self.made}", *names, gated=gated)

    @rule()
    def pod_that_shares(self) -> None:
        self.made += 1
        self.cluster.pod(f"p{self.made}", "shared")

    @precondition(lambda self: self.pods())
    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(self.pods()))
        self.cluster.api.delete(Pod, "default", pod.metadata.name)

    @precondition(lambda self: self.pods())
    @rule(data=st.data())
    def pod_ends(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(self.pods()))
        if pod.spec.node_name:
            body = {"status": {"phase": "Succeeded"}}
            self.cluster.api.patch_merge(Pod, "default", pod.metadata.name, body, "status")

    # --- planners ------------------------------------------------------------------------------------------

    @rule(which=st.integers(0, 1), kind=st.sampled_from(KINDS), count=st.integers(1, 10))
    def planner_hears(self, which: int, kind: type[KubeObject], count: int) -> None:
        """The next few events of one watch, in their order."""
        store, view = self.cluster.fake.store, self.planners[which].view
        news = [e for e in store.log if e[1] is kind and e[0] > self.heard[which][kind]]
        for version, _, event, body in news[:count]:
            obj = store.decode(kind, body)
            if event is EventType.DELETED:
                view.deleted(obj)
            else:
                view.observed(obj)
            self.heard[which][kind] = version

    @rule(which=st.integers(0, 1), look=st.booleans(), wait=st.sampled_from([0, 1, 100]))
    def planner_works(self, which: int, look: bool, wait: int) -> None:
        self.cluster.clock.advance(wait)
        if look:
            self.look(which)
        self.planners[which].round(patient=False)
        in_step(self.planners[which].view)

    @rule(which=st.integers(0, 1), number=st.integers(1, 6))
    def planner_dies(self, which: int, number: int) -> None:
        self.apis[which].kill_before(number)
        try:
            for _ in range(2):
                self.look(which)
                self.planners[which].round(patient=False)
        except Killed:
            pass
        self.restart(which)

    @rule(which=st.integers(0, 1), number=st.integers(1, 6))
    def planner_is_overtaken(self, which: int, number: int) -> None:
        self.apis[which].conflict_on(number)
        self.planners[which].round(patient=False)
        self.apis[which].before = None

    @rule(rounds=st.integers(1, 3))
    def planners_work_at_once(self, rounds: int) -> None:
        """Neither has heard of what the other is writing."""
        for _ in range(rounds):
            self.look(0)
            self.look(1)
            self.planners[0].round(patient=False)
            self.planners[1].round(patient=False)

    @rule(number=st.integers(1, 6))
    def planners_interleave(self, number: int) -> None:
        one, other = self.planners
        api = self.apis[0]

        turn = threading.Semaphore(1)  # with several writers, more than one write may have that number

        def before(write: Write) -> None:
            if write.number >= number and turn.acquire(blocking=False):
                other.round(patient=False)

        api.writes.clear()
        api.before = before
        one.round(patient=False)
        api.before = None

    # --- the rest of the control plane, and the machines --------------------------------------------------

    @rule()
    def scheduler_binds(self) -> None:
        self.cluster.schedule()

    @rule()
    def controller_collects(self) -> None:
        self.cluster.collect()

    @rule()
    def scheduler_takes_back(self) -> None:
        for pod in self.pods():
            gated = any(gate.name == GATE for gate in pod.spec.scheduling_gates)
            if gated or pod.spec.node_name:
                continue
            for entry in pod.spec.resource_claims:
                claim = self.cluster.get_claim(entry.resource_claim_name or "")
                consumers = {consumer.uid for consumer in claim.status.reserved_for}
                if claim.status.allocation and consumers <= {pod.metadata.uid}:
                    self.cluster.post_filter(claim.metadata.name)

    @rule(node=st.sampled_from(NODES), gpus=st.integers(0, 4))
    def slices_are_published_anew(self, node: str, gpus: int) -> None:
        self.made += 1
        self.cluster.publish(node, gpus, generation=10 + self.made)

    @rule(node=st.sampled_from(NODES), cordoned=st.booleans())
    def node_is_cordoned(self, node: str, cordoned: bool) -> None:
        self.cluster.api.patch_merge(Node, "", node, {"spec": {"unschedulable": cordoned or None}})

    # --- looking -------------------------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        return list(self.cluster.api.list(Pod).items)

    def teardown(self) -> None:
        if not self.planners:
            return
        for planner in self.planners:
            planner.close()
        self.cluster.api.patch_merge(Node, "", "a", {"spec": {"unschedulable": None}})
        steps: tuple[Callable[[], None], ...] = (self.cluster.schedule, self.cluster.collect)
        for _ in range(6):
            for step in steps:
                try:
                    step()
                except ConflictError:
                    continue
            self.cluster.planner().settle()
            self.cluster.clock.advance(120)
        judge(self.cluster)
        self.nobody_lost()

    def nobody_lost(self) -> None:
        """No claim keeps a finalizer without an allocation unless a pod still waits for it."""
        waited_for = {
            entry.resource_claim_name
            for pod in self.pods()
            if not pod.spec.node_name
            for entry in pod.spec.resource_claims
        }
        for claim in self.cluster.api.list(ResourceClaim).items:
            if claim.metadata.finalizers and claim.status.allocation is None:
                assert claim.metadata.name in waited_for


class ChurnAtOnce(Churn):
    """The same with planners that write several pods at a time."""

    writers = 3


ChurnAtOnce.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestChurnAtOnce = ChurnAtOnce.TestCase
Churn.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestChurn = Churn.TestCase
