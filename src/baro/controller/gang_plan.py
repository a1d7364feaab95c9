"""The next writes for the pods of a gang: all members in one decision, no gate off before all have a place.

What a gang is, and what it lacks, is in ``gangs``. No effects here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from baro.controller import pods
from baro.controller.actions import Action, Explain, Release
from baro.controller.draft import Claims, Draft, node_of, ready
from baro.controller.gangs import Gang, GangKey, gang_from, gang_of
from baro.controller.indexes import Key
from baro.controller.marks import ours
from baro.controller.placer import Choice, GangPlacer, with_policy
from baro.controller.soundness import only_for
from baro.controller.view import key_of
from baro.model.errors import BaroError
from baro.model.kinds.core import Pod
from baro.placement.gang import GangMember, GangPlacement

Members = Sequence[tuple[Pod, Claims]]


class GangPlan:
    """The gangs of one round. What was found of a gang is kept, as every member asks for it."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._gangs: dict[GangKey, Gang] = {}
        self._homeless: dict[GangKey, str] = {}
        """Gangs for which there is no place now, and why."""
        self._complete: dict[GangKey, tuple[int, bool]] = {}
        """What ``complete`` found of a gang, and how many claims were busy then."""

    def of(self, pod: Pod) -> Gang | None:
        """The gang with which a gated pod is placed, ``None`` for one that is placed alone."""
        key = gang_of(pod) if pods.gated(pod) else None
        if key is None:
            return None
        if key not in self._gangs:
            self._gangs[key] = gang_from(key, self._draft.view.indexes.gangs.get(key, {}).values())
        return self._gangs[key]

    def complete(self, gang: Gang) -> bool:
        """Whether as many members as the gang needs have a place."""
        busy = len(self._draft.busy)  # it only grows
        known = self._complete.get(gang.key)
        if known is None or known[0] != busy:
            there = sum(self._has_place(member) for member in gang.members)
            known = self._complete[gang.key] = (busy, gang.lacks is None and there >= gang.size)
        return known[1]

    def hold_back(self, gang: Gang, claims: Claims) -> Iterator[Action]:
        """A member that has all it needs waits for the others, unless there are too few of them now."""
        if gang.lacks is not None:
            for claim in claims:
                if ours(claim):
                    yield Release(claim, gang.lacks)

    def place(self, pod: Pod, gang: Gang) -> Iterator[Action]:
        """Every member that has no place yet, in one decision; what it holds goes back when there is none."""
        draft = self._draft
        why = gang.lacks or self._homeless.get(gang.key)
        if why is not None:
            yield Explain(pod, "NoPlacement" if gang.lacks is None else "WaitingForGang", why)
            return
        asking: list[tuple[Pod, Claims]] = []
        settled: list[tuple[Pod, Claims]] = []
        for member in gang.members:
            claims, waits = draft.claims(member)
            if pods.gated(member) and waits:
                yield Explain(pod, "WaitingForGang", f"pod {member.metadata.name} {waits}")
                return
            if draft.unsettled(claims):
                return
            (settled if self._has_place(member) else asking).append((member, claims))
        wait = draft.deference(pod, min(draft.memory.quiet_s(claims) for _, claims in asking))
        if wait is not None:
            yield wait
            return
        found = self._choose(gang, asking, settled)
        if isinstance(found, GangPlacement):
            yield from self._allocate(asking, found)
        else:
            yield from self._give_up(pod, gang, settled, found)

    def _has_place(self, pod: Pod) -> bool:
        """The pod runs, is on its way, or has all it needs, as a watch has shown."""
        if not pods.gated(pod):
            return True
        claims, waits = self._draft.claims(pod)
        return not waits and not self._draft.unsettled(claims) and ready(pod, claims)

    def _choose(self, gang: Gang, asking: Members, settled: Members) -> GangPlacement | str:
        """Where the members go, or why there is no place."""
        view = self._draft.view
        members = [
            GangMember(
                claims=tuple(claim for claim in claims if claim.status.allocation is None),
                pod=member,
                allocated=tuple(claim.status.allocation for claim in claims if claim.status.allocation),
            )
            for member, claims in asking
        ]
        beside = [member.spec.node_name or node_of(claims) or "" for member, claims in settled]
        placer = self._draft.placer
        placer = placer if isinstance(placer, GangPlacer) else with_policy("topology")
        try:
            found = placer.gang(
                view.inventory,
                members,
                at_least=max(1, gang.size - len(settled)),
                beside=[node for node in beside if node],
                room=lambda node, some: view.rooms.takes(node, [(p, view.requests(p)) for p in some]),
            )
        except BaroError as error:
            return str(error)
        except Exception as error:
            # A bug of baro's that one gang's claims bring out must not keep all other pods waiting.
            return f"baro failed on this gang, please report it: {type(error).__name__}: {error}"
        return found if found.fits else f"gang {gang.key[1]}: " + "; ".join(found.reasons)

    def _allocate(self, asking: Members, found: GangPlacement) -> Iterator[Action]:
        written: set[Key] = set()
        for seated in found.seated:
            member, claims = asking[seated.seat.member]
            keys = {key_of(claim) for claim in claims if claim.status.allocation is None}
            if keys & written:
                continue  # shares a claim with a member before: it reserves that when it is confirmed
            written |= keys
            choice = Choice(seated.node, seated.allocations, found.reasons[0])
            yield self._draft.allocate(member, claims, choice)

    def _give_up(self, pod: Pod, gang: Gang, settled: Members, why: str) -> Iterator[Action]:
        self._homeless[gang.key] = why
        held = [claim for m, claims in settled for claim in claims if pods.gated(m) and only_for(claim, m)]
        for claim in held:
            yield Release(claim, "the rest of its gang has no place")
        if not held:
            yield Explain(pod, "NoPlacement", why)
