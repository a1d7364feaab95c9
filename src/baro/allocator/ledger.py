"""What a search has given away so far: devices, shares of devices, counters. Every entry can be undone.

The rules are those of ``allocateDevice``: counters are charged once per shareable device, admin access
charges them as well, every counter of a pool must stay at zero or above, and the devices of a counter set
must have a compatibility group in common.
"""

from __future__ import annotations

import msgspec

from baro.allocator.groups import NOBODY, Group, admits, joined
from baro.allocator.plan import Alternative
from baro.allocator.problem import CounterName, NodeProblem


class Pick(msgspec.Struct, frozen=True, gc=False):
    """One device for one request. ``device`` is the local number."""

    claim: int
    alternative: Alternative
    device: int


class Ledger:
    """Entries of one run. ``taken`` and ``in_claim`` are masks: all claims, and the claim being worked on."""

    def __init__(self, problem: NodeProblem, *, admin_blocks: bool) -> None:
        self._problem = problem
        self._consumption = problem.frame.consumption
        self._admin_blocks = admin_blocks
        self._grouping = problem.features.compatibility_groups
        self._counters: dict[int, dict[CounterName, int]] = {}
        """By pool."""
        self._groups: dict[int, dict[str, Group]] = {}
        self.picks: list[Pick] = []
        self.taken = 0
        self.in_claim = 0
        self.results = 0
        """Devices of the claim being worked on."""
        self.in_flight: dict[int, dict[str, int]] = {}
        """Shareable device → what is given away of each capacity; ``#`` counts the shares."""

    def available(self, alternative: Alternative, mask: int) -> int:
        """Those devices of a mask that nobody has; with admin access, that this claim does not have."""
        if alternative.admin:
            return mask & ~self.in_claim
        return mask & self._problem.free & ~self.taken

    def choose(self, claim: int, alternative: Alternative, device: int) -> bool:
        """Take a device if counters and capacity allow; ``unchoose`` undoes it."""
        problem = self._problem
        bit = 1 << device
        shareable = bool(problem.shareable & bit)
        in_flight = self.in_flight.get(device)
        counted = device in self._consumption
        if counted and not self.counters_suffice(device):
            return False
        if (shareable or problem.shared_before & bit) and not problem.has_capacity(
            alternative, device, in_flight
        ):
            return False
        first = device not in self.in_flight
        if shareable:
            amounts = problem.amounts(alternative, device) or {}
            sums = dict(in_flight or {})
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount.scaled
            sums["#"] = sums.get("#", 0) + 1
            self.in_flight[device] = sums
        elif not alternative.admin or self._admin_blocks:
            self.taken |= bit
        if counted and not (shareable and (not first or problem.shared_before & bit)):
            self._consume(device, 1)
        if not shareable:
            self.in_claim |= bit
        self.results += 1
        self.picks.append(Pick(claim, alternative, device))
        return True

    def unchoose(self, alternative: Alternative, device: int) -> None:
        problem = self._problem
        bit = 1 << device
        pick = self.picks.pop()
        self.results -= 1
        charged = True
        if problem.shareable & bit:
            sums = dict(self.in_flight[device])
            amounts = problem.amounts(alternative, device) or {}
            for name, amount in amounts.items():
                sums[name] -= amount.scaled
            sums["#"] -= 1
            if sums["#"]:
                self.in_flight[device] = sums
                charged = False
            else:
                del self.in_flight[device]
                charged = not problem.shared_before & bit
        if charged:
            self._consume(device, -1)
        mine = [p for p in self.picks if p.device == device]
        if not any(not p.alternative.admin or self._admin_blocks for p in mine):
            self.taken &= ~bit
        if not any(p.claim == pick.claim for p in mine):
            self.in_claim &= ~bit

    def counters_suffice(self, device: int) -> bool:
        """Whether groups and counters allow the device: every counter of the pool must stay at zero or above,
        also those that the device does not use."""
        wanted = self._consumption.get(device)
        if wanted is None:
            return True
        problem = self._problem
        bit = 1 << device
        if problem.shareable & bit and (device in self.in_flight or problem.shared_before & bit):
            return True
        if self._grouping and not self._groups_admit(device):
            return False
        left = self._pool_counters(device)
        return all(value >= wanted.get(name, 0) for name, value in left.items())

    def _consume(self, device: int, sign: int) -> None:
        wanted = self._consumption.get(device)
        if wanted is None:
            return
        left = self._pool_counters(device)
        for name, amount in wanted.items():
            left[name] -= sign * amount
        if self._grouping:
            self._groups.pop(self._problem.frame.pool_of[device], None)

    def _pool_counters(self, device: int) -> dict[CounterName, int]:
        index = self._problem.frame.pool_of[device]
        left = self._counters.get(index)
        if left is None:
            left = self._counters[index] = self._problem.counters(index)
        return left

    def _groups_admit(self, device: int) -> bool:
        groups = self._pool_groups(self._problem.frame.pool_of[device])
        return all(
            admits(groups.get(part.counter_set, NOBODY), part.compatibility_groups)
            for part in self._problem.rare[device].consumes_counters
        )

    def _pool_groups(self, pool: int) -> dict[str, Group]:
        """Found anew after each change: intersections cannot be undone."""
        found = self._groups.get(pool)
        if found is None:
            frame, found = self._problem.frame, self._problem.groups(pool)
            charged = dict.fromkeys(pick.device for pick in self.picks)
            for device in charged:
                if frame.pool_of[device] != pool or self._charged_before(device):
                    continue
                for part in frame.rare[device].consumes_counters:
                    before = found.get(part.counter_set, NOBODY)
                    found[part.counter_set] = joined(before, part.compatibility_groups)
            self._groups[pool] = found
        return found

    def _charged_before(self, device: int) -> bool:
        problem = self._problem
        return bool(problem.shareable & problem.shared_before & 1 << device)
