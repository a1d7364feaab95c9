"""A churn: thousands of pods come, finish and go while parts of the cluster are killed with SIGKILL.

``Churn`` drives one ``World`` through it, by a plan that a seed makes: what each pod asks for, which pod ends
how, ahead of which step who is killed. It writes as a user would, again and again until the server has
answered; it never waits for a time, only for something to happen. What must hold afterwards is what
``acceptance.world`` checks after every scenario; ``Churn`` adds that a planner never ends by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final, Protocol

import msgspec

from baro.kube.errors import AlreadyExistsError, NotFoundError
from baro.model.errors import ForbiddenError, UnreachableError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from tests.support.acceptance import World
from tests.support.acceptance_objects import SHARED
from tests.support.acceptance_picture import Picture, ended
from tests.support.acceptance_planner import PlannerProcess
from tests.support.real_access import eventually

STALL_S: Final = 120.0
"""So long nothing at all may happen to any pod, on a machine that is busy with other things."""
GATED: Final = "gated"
PLAIN: Final = "plain"
SHAPES: Final = (("one", 1, False), ("two", 2, True), ("four", 4, True), ("eight", 8, False))
"""Template, GPUs, on one island; the last needs a whole node."""
WEIGHTS: Final = (8, 6, 3, 1)
TOO_MANY: Final = ("nine", 9)
"""More than any node has: must be explained, again after every restart."""
CONSUMERS: Final = 3
"""Pods of one shared claim."""


class Victim(Protocol):
    """Something that is killed and started again. ``kill`` is SIGKILL, ``start`` does not wait."""

    def kill(self) -> object: ...

    def start(self) -> None: ...

    def wait_ready(self, timeout_s: float) -> None: ...


class PlannerVictim:
    """``baro controller`` as a process; each start is a new one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process: PlannerProcess | None = None

    def kill(self) -> str:
        self.must_live()
        assert self._process is not None
        said = self._process.kill()
        self._process = None
        return said

    def start(self) -> None:
        if self._process is None:
            self._process = self._world.command()

    def wait_ready(self, timeout_s: float) -> None:
        """It has no health URL; that it works is seen by the pods."""
        self.must_live()

    def must_live(self) -> None:
        """A planner that was not killed runs, whatever happened to the others."""
        if self._process is not None and not self._process.alive:
            raise AssertionError(f"the planner ended by itself:\n{self._process.kill()}")

    def stop(self) -> None:
        """SIGTERM: ends with success."""
        if self._process is not None:
            self._process.stop()


class Kill(msgspec.Struct, frozen=True):
    """Ahead of step ``at`` these are killed; they stay down for ``steps`` (servers start again at once)."""

    at: int
    victims: tuple[str, ...]
    steps: int


class Settings(msgspec.Struct, frozen=True):
    """How large a churn is. ``alive`` pods are there at a time; every victim is killed ``kills`` times.

    ``mixed``: pods with and without the gate go to the same nodes, else to nodes of their own.
    """

    pods: int
    alive: int
    kills: int
    seed: int
    mixed: bool = False

    @classmethod
    def from_environment(cls, *, pods: int, alive: int, kills: int) -> Settings:
        """``BARO_CHURN_PODS``, ``BARO_CHURN_KILLS`` and ``BARO_CHURN_SEED`` make a longer, or another one."""
        return cls(
            pods=int(os.environ.get("BARO_CHURN_PODS", pods)),
            alive=alive,
            kills=int(os.environ.get("BARO_CHURN_KILLS", kills)),
            seed=int(os.environ.get("BARO_CHURN_SEED", "1")),
            mixed=bool(os.environ.get("BARO_CHURN_MIXED")),
        )


def kills(settings: Settings, victims: Mapping[str, Victim]) -> list[Kill]:
    """Each victim ``settings.kills`` times, at random steps; every third time the planner goes with it."""
    random = Random(settings.seed)  # noqa: S311 - who dies when, not a secret
    order = [name for name in victims for _ in range(settings.kills)]
    random.shuffle(order)
    steps = sorted(random.sample(range(settings.pods // 20, settings.pods - settings.pods // 20), len(order)))
    return [
        Kill(
            step,
            (name, "planner") if name != "planner" and random.random() < 1 / 3 else (name,),
            random.randrange(settings.alive),
        )
        for step, name in zip(steps, order, strict=True)
    ]


class Churn:
    """One churn in one world. ``servers`` are the victims without which no write succeeds.

    Unless ``mixed``, the world's nodes are in the zones ``GATED`` and ``PLAIN``.
    """

    def __init__(
        self,
        world: World,
        settings: Settings,
        victims: Mapping[str, Victim],
        *,
        servers: frozenset[str],
        say: Callable[[str], None],
    ) -> None:
        self._world = world
        self._settings = settings
        self._random = Random(settings.seed)  # noqa: S311 - which pod, not a secret
        self._planner = PlannerVictim(world)
        self._victims: dict[str, Victim] = {**victims, "planner": self._planner}
        self._servers = servers
        self._say = say
        self._kills = kills(settings, self._victims)
        self._due: dict[str, int] = {}
        """Who is down, and the step at which it comes back."""
        self._claims: dict[str, set[str]] = {}
        """Shared claims and the pods of each."""
        self._ended: list[str] = []

    def run(self) -> None:
        """The whole churn. At its end everything runs, and ``alive`` pods or so are there."""
        self._say(f"{self._settings}")
        for name, count, island in SHAPES:
            self._world.template(name, count, island=island)
            self._world.template(f"plain-{name}", count, cls=SHARED, island=island)
        self._world.template(*TOO_MANY)
        self._planner.start()
        for step in range(self._settings.pods):
            self._bring_back(step)
            if self._kills and self._kills[0].at == step:
                self._kill(self._kills.pop(0), step)
            self._arrive(step)
            self._make_room(step)
        self._bring_back(None)
        for kind in (GATED, PLAIN):
            prefix = "" if kind == GATED else "plain-"
            self._create(f"{kind}-last", kind, [f"{prefix}eight" if kind == PLAIN else TOO_MANY[0]], [])
        self._planner.must_live()

    def finish(self) -> None:
        """After everything has drained: shared claims go, and nothing of any pod is left."""
        self._planner.must_live()
        self._planner.stop()
        for name in self._claims:
            self._persist(partial(self._world.api.delete, ResourceClaim, self._world.ns, name))
        self._world.wait(lambda seen: not seen.all(ResourceClaim), "all claims are gone")

    # --- arriving, finishing, going ------------------------------------------------------------------------

    def _arrive(self, step: int) -> None:
        draw = self._random
        kind = PLAIN if draw.random() < 0.25 else GATED
        (shape,) = draw.choices([name for name, _, _ in SHAPES], WEIGHTS)
        name = f"{kind}-{step}"
        if kind == PLAIN:
            self._create(name, kind, [f"plain-{shape}"], [])
        elif draw.random() < 0.1:
            self._create(name, kind, ["one"], [self._shared_claim(name)])
        else:
            self._create(name, kind, [shape], [])

    def _create(self, name: str, kind: str, templates: list[str], claims: list[str]) -> None:
        zone = None if self._settings.mixed else kind
        self._persist(
            lambda: self._world.pod(
                name, claims=claims, templates=templates, gated=kind == GATED, zone=zone, cpu="10m"
            )
        )

    def _shared_claim(self, pod: str) -> str:
        latest = next(reversed(self._claims), None)
        if latest is None or len(self._claims[latest]) >= CONSUMERS:
            latest = f"shared-{len(self._claims)}"
            self._claims[latest] = set()
            name = latest
            self._persist(lambda: self._world.claim(name, 1))
        self._claims[latest].add(pod)
        return latest

    def _make_room(self, step: int) -> None:
        """Ends pods until no more than ``alive`` are there; one in twenty goes whatever its state is."""
        if self._random.random() < 0.05:
            living = sorted(pod.metadata.name for pod in self._living(self._world.seen.picture))
            if living:
                self._delete(self._random.choice(living))
        while len(self._living(self._world.seen.picture)) > self._settings.alive:
            self._end_one(step)
        while len(self._ended) > self._settings.alive // 4:
            self._delete(self._ended.pop(0))

    def _end_one(self, step: int) -> None:
        """One that is bound succeeds or is deleted. Waits for one when there is none."""

        def candidates(seen: Picture) -> list[str]:
            return sorted(pod.metadata.name for pod in self._living(seen) if pod.spec.node_name)

        if not candidates(self._world.seen.picture) and self._due:
            self._bring_back(None)  # whoever is down is missed
        alive = self._settings.alive
        self._world.seen.wait(
            lambda seen: bool(candidates(seen)) or len(self._living(seen)) <= alive,
            f"a pod bound at step {step}",
            STALL_S,
        )
        bound = candidates(self._world.seen.picture)
        if not bound:
            return
        name = self._random.choice(bound)
        pod = self._world.seen.picture.find(Pod, name)
        # A kubelet that is about to say that a pod runs would take its end back.
        if self._random.random() < 0.5 or pod is None or pod.status.phase != "Running":
            self._delete(name)
            return
        body = {"status": {"phase": "Succeeded"}}
        self._persist(lambda: self._world.api.patch_merge(Pod, self._world.ns, name, body, "status"))
        self._world.seen.wait(
            lambda seen: name not in {pod.metadata.name for pod in self._living(seen)},
            f"{name} ended",
            STALL_S,
        )
        self._ended.append(name)

    def _delete(self, name: str) -> None:
        self._persist(lambda: self._world.delete_pod(name))
        self._world.seen.wait(
            lambda seen: (pod := seen.find(Pod, name)) is None or bool(pod.metadata.deletion_timestamp),
            f"{name} gone",
            STALL_S,
        )

    def _living(self, seen: Picture) -> list[Pod]:
        return [pod for pod in seen.all(Pod) if not ended(pod) and not pod.metadata.deletion_timestamp]

    def _persist(self, call: Callable[[], object]) -> None:
        """Until the server has answered; that it was done before the answer was lost is fine."""

        def attempt() -> bool:
            try:
                call()
            except (AlreadyExistsError, NotFoundError):
                return True
            except (UnreachableError, ForbiddenError):  # the authorizer of a server that starts knows nothing
                return False
            return True

        eventually(attempt, "an answer of the API server", timeout_s=STALL_S)

    # --- killing -------------------------------------------------------------------------------------------

    def _kill(self, kill: Kill, step: int) -> None:
        self._planner.must_live()
        for name in kill.victims:
            if name in self._due:
                continue
            self._victims[name].kill()
            self._due[name] = step if name in self._servers else step + kill.steps
        self._say(f"step {step}: killed {' and '.join(kill.victims)}")
        for name in kill.victims:
            if name in self._servers and name in self._due:
                del self._due[name]
                self._victims[name].start()

    def _bring_back(self, step: int | None) -> None:
        """Starts who is due; ``None``: everybody, and waits until all are ready."""
        for name in [name for name, due in self._due.items() if step is None or due <= step]:
            del self._due[name]
            self._victims[name].start()
        if step is None:
            for victim in self._victims.values():
                victim.wait_ready(STALL_S)


def timed(say: Callable[[str], None]) -> Callable[[str], None]:
    """``say`` with the seconds since now in front."""
    began = time.monotonic()
    return lambda line: say(f"{time.monotonic() - began:6.1f} s  {line}")
