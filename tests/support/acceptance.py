"""The small world of the acceptance scenarios: one interface, whichever server is behind it.

A ``World`` is one namespace of a ``Site`` with nodes of its own, the planners that a scenario starts there,
and the judge: what is waited for, and what must hold.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from baro.kube.api import KubeApi
from baro.kube.errors import ConflictError, NotFoundError
from baro.kube.lease import Elector
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from tests.support.acceptance_objects import Objects, Site
from tests.support.acceptance_picture import Picture, devices, problems, running_twice
from tests.support.acceptance_planner import PlannerProcess, RunningPlanner, Tapped
from tests.support.kube import Write

HELD_TWICE = "baro.dev/held-twice"
"""Key of the taint by which baro keeps kube-scheduler off a device that two claims hold."""
LOOK_AGAIN_S = 0.2
"""Lists are taken again at the next news, or after so long when there are none."""


class World(Objects):
    """One namespace with its own nodes. ``close`` removes all of it and checks that nothing stays behind."""

    def __init__(self, site: Site, namespace: str, **options: Any) -> None:
        super().__init__(site, namespace, **options)
        self.planners: list[RunningPlanner] = []
        self._processes: list[PlannerProcess] = []

    # --- planners ------------------------------------------------------------------------------------------

    def planner(
        self,
        before: Callable[[Write], None] | None = None,
        *,
        elector: Callable[[KubeApi], Elector] | None = None,
        writers: int = 1,
    ) -> RunningPlanner:
        """Starts one. ``before`` is called ahead of each of its writes, in the thread that writes."""
        client = self.site.planner()
        tapped = Tapped(client, self.site.rights, before)
        running = RunningPlanner(
            client, tapped, namespace=self.ns, elector=elector, writers=writers, heard=self.seen.wake
        )
        self.planners.append(running)
        return running

    def killed_planner(self, before: Callable[[Write], None]) -> None:
        """One that works until ``before`` raises ``Killed``."""
        self.planner(before).wait_killed(self.site.wait_s)

    def command(self) -> PlannerProcess:
        """Starts ``baro controller`` as a process of its own."""
        process = PlannerProcess(self.site.planner_flags(), self.ns)
        self._processes.append(process)
        return process

    def is_planned(self) -> bool:
        """Whether a planner runs whose writes nothing meets: any other may be gone at its next one."""
        running = [planner.alive and not planner.tapped.met for planner in self.planners]
        return any(running + [process.alive for process in self._processes])

    # --- waiting and judging -------------------------------------------------------------------------------

    def report(self) -> str:
        """What a failed scenario left, and what the planners said."""
        lines = [*(f"wrong: {what}" for what in problems(self.seen.picture)), self.seen.picture.describe()]
        lines += self.seen.trouble
        lines += [f"planner {i}: {line}" for i, planner in enumerate(self.planners) for line in planner.log]
        for i, process in enumerate(self._processes):
            state = "runs" if process.alive else "has ended"
            lines += [f"process {i} {state}: {line}" for line in process.said().splitlines()[-40:]]
        return "\n".join(lines)

    def until_bound(self, *pods: str) -> None:
        self.wait(lambda seen: all(self._bound(seen, pod) for pod in pods), f"{', '.join(pods)} bound")

    def until_count_bound(self, count: int) -> None:
        """Until at least so many pods are bound."""
        self.wait(
            lambda seen: sum(bool(pod.spec.node_name) for pod in seen.all(Pod)) >= count,
            f"{count} pods bound",
        )

    def until_told(self, pod: str, reason: str) -> str:
        """Until the pod has an event of that reason; gives the last message."""
        found: list[str] = []

        def told(seen: Picture) -> bool:
            held = seen.find(Pod, pod)
            found[:] = [e.message for e in seen.told(held) if e.reason == reason] if held else []
            return bool(found)

        self.wait(told, f"{pod} is told {reason}")
        return found[-1]

    def until_claims(self, count: int) -> None:
        """Until so many claims of templates were made and named in their pods' status."""
        self.wait(
            lambda seen: sum(len(pod.status.resource_claim_statuses) for pod in seen.all(Pod)) == count,
            f"{count} claims of templates",
        )

    def until_over(self, planner: RunningPlanner) -> None:
        """Until the planner was killed, or all pods are bound and its round is at an end."""
        self.wait(
            lambda seen: (
                planner.killed.is_set()
                or (not planner.acting and all(pod.spec.node_name for pod in seen.all(Pod)))
            ),
            "the planner killed, or all pods bound",
        )

    def node_of(self, pod: str) -> str:
        return self.api.get(Pod, self.ns, pod).spec.node_name.removeprefix(f"{self.ns}-")

    def devices_of(self, pod: str) -> list[str]:
        """``node/gpu-n`` of all claims of the pod, sorted, node names short."""
        found: list[str] = []
        pod_ = self.api.get(Pod, self.ns, pod)
        names = [e.resource_claim_name for e in pod_.spec.resource_claims if e.resource_claim_name]
        names += [s.resource_claim_name for s in pod_.status.resource_claim_statuses if s.resource_claim_name]
        for name in names:
            found += devices(self.api.get(ResourceClaim, self.ns, name))
        return sorted(device.removeprefix(f"{self.ns}-") for device in found)

    def check(self) -> None:
        """The invariants: once everything has settled, in the watches and in fresh lists."""
        self.until_settled("nothing wrong any more")
        assert not self.seen.uses.found, self.seen.uses.found
        assert not [planner.failed for planner in self.planners if planner.failed]

    def until_settled(self, what: str, holds: Callable[[Picture], bool] = lambda seen: True) -> Picture:
        """Until nothing is wrong and it holds: in the watches, and in fresh lists while no planner acts.
        Gives those lists.

        A planner in the middle of its writes has a claim look wrong for a moment, and a watch may have shown
        the moment before: so a list that looks wrong is taken again, until the watches say that it stays so.
        A device in use twice is a fault at every moment.
        """
        until = math.inf
        while True:
            self.wait(lambda seen: not problems(seen) and holds(seen) and not self._acting(), what)
            until = min(until, time.monotonic() + self.site.wait_s)
            writes = self._writes()
            fresh = Picture.listed(self.api, self.ns)
            assert not running_twice(fresh), fresh.describe()
            if not problems(fresh) and holds(fresh) and not self._acting() and writes == self._writes():
                return fresh
            assert time.monotonic() < until, f"the watches do not show what lists show\n{fresh.describe()}"
            self.seen.pause(LOOK_AGAIN_S)

    def _acting(self) -> bool:
        return any(planner.acting for planner in self.planners)

    def _writes(self) -> int:
        return sum(len(planner.tapped.writes) for planner in self.planners)

    def drain(self) -> None:
        """All pods go: so must every allocation, reservation and finalizer. Named claims stay."""
        for pod in self.api.list(Pod, self.ns).items:
            with contextlib.suppress(NotFoundError):
                self.delete_pod(pod.metadata.name)
        self.wait(lambda seen: not seen.all(Pod), "all pods are gone")
        self.until_settled(
            "nothing is held any more",
            lambda seen: not any(c.status.allocation for c in seen.all(ResourceClaim)),
        )
        until = time.monotonic() + self.site.wait_s
        while left := self.shields():
            assert time.monotonic() < until, f"devices that nobody holds are kept off: {left}"
            self.seen.pause(LOOK_AGAIN_S)

    def serves_taint_rules(self) -> bool:
        """Whether the server knows DeviceTaintRules, as from 1.37 on."""
        try:
            self.api.list(DeviceTaintRule)
        except NotFoundError:
            return False
        return True

    def shields(self) -> list[str]:
        """Names of baro's taint rules for devices of this world's nodes."""
        rules = self.api.list(DeviceTaintRule).items if self.serves_taint_rules() else ()
        pools = {self.name(short) for short in self._agents}
        found = [(rule, rule.spec.device_selector) for rule in rules if rule.spec.taint.key == HELD_TWICE]
        return [rule.metadata.name for rule, selector in found if selector and selector.pool in pools]

    def close(self) -> None:
        """Stops planners, removes nodes and namespaced objects that this world made."""
        for process in self._processes:
            process.kill()
        for planner in self.planners:
            planner.stop()
        for rule in list(self._rules):
            self.drop_rule(rule)
        for rule in self.shields():
            with contextlib.suppress(NotFoundError):
                self.api.delete(DeviceTaintRule, "", rule)
        for kind in (Pod, ResourceClaim, ResourceClaimTemplate):
            for item in self.api.list(kind, self.ns).items:
                with contextlib.suppress(NotFoundError, ConflictError):
                    self.api.delete(kind, self.ns, item.metadata.name, grace_period_s=0)
        for short in list(self._agents):
            self.api.delete(Node, "", self.name(short))
        self.seen.stop()
        self.api.close()

    def _bound(self, seen: Picture, name: str) -> bool:
        pod = seen.find(Pod, name)
        return pod is not None and bool(pod.spec.node_name)


@contextlib.contextmanager
def world(site: Site, namespace: str, **options: Any) -> Iterator[World]:
    """A world for one scenario; it is checked, drained and checked again unless the scenario failed."""
    made = World(site, namespace, **options)
    try:
        yield made
        made.check()
        if not made.is_planned():
            made.planner()  # what a dead or disturbed planner leaves behind is a living one's work
        made.drain()
        made.check()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{made.report()}") from error
    finally:
        made.close()
