"""The search: depth first in upstream's order, cut by counting and by memory of failed states.

Claims in order, requests in order, alternatives by preference, devices ascending within a request: the first
solution found is the one that upstream finds (``allocateOne``). What makes it fast changes nothing in the
answer: bounds (``bounds``), devices that are alike are tried once per level, and a state that failed is not
entered again. Where a selector failed on a device, the bounds are off for that request, so that the error is
met exactly where upstream meets it.
"""

from __future__ import annotations

from enum import Enum
from itertools import chain

from baro.allocator.bounds import can_match, can_take, one_group
from baro.allocator.constraints import ConstraintData, State
from baro.allocator.ledger import Ledger, Pick
from baro.allocator.plan import MAX_RESULTS, Alternative, Request
from baro.allocator.problem import Fatal, NodeProblem, bits

_MAX_CLASSES = 12
"""With more kinds of devices than this, counting per kind costs more than it saves."""


class OutOfWork(Exception):  # noqa: N818 - an answer, not a defect
    """The work limit was reached before the search could decide."""


class _Result(Enum):
    FOUND = 1
    FAILED = 2
    TOO_MANY = 3
    """Over 32 devices in the claim: give up to the nearest choice of alternatives (kubernetes#130593)."""


class Search:
    """One node, one plan; ``run`` may be called repeatedly with different restrictions."""

    def __init__(self, problem: NodeProblem, *, work_limit: int, ignore_errors: bool) -> None:
        self.problem = problem
        self.plan = problem.plan
        self.work = 0
        self._limit = work_limit
        self._all: dict[int, list[int]] = {}
        self._fit: dict[int, int] = {}
        self._errors: dict[int, int] = {}
        self._constraints: list[list[ConstraintData]] = []
        self._prepare(ignore_errors)
        self._has_admin = any(a.admin for _, _, a in self.plan.alternatives())
        self._consumption = {
            device: problem.consumption(device)
            for device in range(problem.size)
            if problem.rare[device].consumes_counters
        }
        self._classes = self._device_classes()
        self._class_of = [0] * problem.size
        for mask in self._classes:
            for device in bits(mask):
                self._class_of[device] = mask

    # --- set-up: upstream's checks in upstream's order -----------------------------------------------------

    def _prepare(self, ignore_errors: bool) -> None:
        for claim in self.plan.claims:
            least = 0
            for request in claim.requests:
                if request.refusal is not None:
                    raise Fatal(request.refusal)
                for alternative in request.alternatives:
                    if alternative.refusal is not None:
                        raise Fatal(alternative.refusal)
                    if alternative.all_devices:
                        self._all[alternative.id] = self.problem.all_devices(alternative, claim.name)
                least += min(self.need(alternative) for alternative in request.alternatives)
            if least > MAX_RESULTS:
                raise Fatal(
                    f"claim {claim.name}: number of requested devices {least} "
                    f"exceeds the claim limit of {MAX_RESULTS}"
                )
            if claim.refusal is not None:
                raise Fatal(claim.refusal)
        for _, _, alternative in self.plan.alternatives():
            fit, errors = self.problem.candidates(alternative)
            self._fit[alternative.id] = fit
            self._errors[alternative.id] = 0 if ignore_errors or alternative.all_devices else errors
        for claim in self.plan.claims:
            self._constraints.append([self.problem.constraint(item) for item in claim.constraints])

    def need(self, alternative: Alternative) -> int:
        """How many devices an alternative takes."""
        return len(self._all[alternative.id]) if alternative.all_devices else alternative.count

    def selector_error(self) -> str | None:
        """The first selector failure on a device that could have been taken, in order of requests."""
        for _, _, alternative in self.plan.alternatives():
            _, errors = self.problem.candidates(alternative)
            for device in bits(errors):
                return str(self.problem.verdict(alternative, device))
        return None

    def eligible(self, alternative: Alternative) -> int:
        """The devices that an alternative may take before anything is chosen."""
        if alternative.all_devices:
            return sum(1 << device for device in self._all[alternative.id])
        return self._fit[alternative.id]

    def constraint_data(self, claim: int) -> list[ConstraintData]:
        return self._constraints[claim]

    def _device_classes(self) -> list[int]:
        """Masks of devices that no part of the search can tell apart."""
        problem = self.problem
        everything = (1 << problem.size) - 1
        single = problem.shareable
        for members in self._all.values():
            for device in members:
                single |= 1 << device
        apart: dict[object, int] = {}
        for device, consumption in self._consumption.items():
            kind = (problem.pool_of[device], *sorted(consumption.items()))
            apart[kind] = apart.get(kind, 0) | 1 << device
        classes = [everything & ~single] if everything & ~single else []
        values = (data.masks.values() for claim in self._constraints for data in claim)
        for mask in chain(
            (problem.free,), self._fit.values(), self._errors.values(), apart.values(), chain(*values)
        ):
            classes = [part for own in classes for part in (own & mask, own & ~mask) if part]
        return classes + [1 << device for device in bits(single)]

    # --- running -------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        allowed: tuple[int, ...] | None = None,
        fixed: dict[tuple[int, int], int] | None = None,
        admin_blocks: bool = True,
    ) -> tuple[Pick, ...] | None:
        """The first solution, or ``None``. Raises ``Fatal`` and ``OutOfWork``.

        ``allowed`` is a mask of devices per claim; ``fixed`` maps (claim, request) to the index of the
        alternative to take.
        """
        self._allowed = allowed
        self._fixed = fixed or {}
        self._ledger = Ledger(self.problem, self._consumption, admin_blocks=admin_blocks)
        self._states: tuple[State, ...] = ()
        self._failed: set[object] = set()
        return tuple(self._ledger.picks) if self._claim(0) is _Result.FOUND else None

    def _claim(self, claim: int) -> _Result:
        if claim == len(self.plan.claims):
            return _Result.FOUND
        ledger = self._ledger
        saved = (ledger.in_claim, ledger.results, self._states)
        ledger.in_claim, ledger.results = 0, 0
        self._states = (None,) * len(self._constraints[claim])
        result = self._request(claim, 0)
        if result is not _Result.FOUND:
            ledger.in_claim, ledger.results, self._states = saved
        return _Result.FAILED if result is _Result.TOO_MANY else result

    def _request(self, claim: int, index: int) -> _Result:
        requests = self.plan.claims[claim].requests
        if index == len(requests):
            return self._claim(claim + 1)
        key = self._key(claim, index, -1, 0, 0)
        if key in self._failed:
            return _Result.FAILED
        if self._clean(claim, index) and not self._enough(claim, index):
            result = _Result.FAILED
        else:
            result = self._alternatives(claim, index, requests[index])
        if result is _Result.FAILED:
            self._failed.add(key)
        return result

    def _alternatives(self, claim: int, index: int, request: Request) -> _Result:
        choices = self._choices(claim, index, request)
        too_many = request.prioritized
        for alternative in choices:
            if alternative.all_devices:
                result = self._take_all(claim, index, alternative)
            else:
                result = self._take(claim, index, alternative, 0, 0)
            if result is _Result.FOUND or (result is _Result.TOO_MANY and not request.prioritized):
                return result
            too_many = too_many and result is _Result.TOO_MANY
        return _Result.TOO_MANY if too_many else _Result.FAILED

    def _choices(self, claim: int, index: int, request: Request) -> tuple[Alternative, ...]:
        fixed = self._fixed.get((claim, index))
        return request.alternatives if fixed is None else (request.alternatives[fixed],)

    def _take(self, claim: int, index: int, alternative: Alternative, done: int, start: int) -> _Result:
        """Device number ``done`` of a request, at or after local number ``start``."""
        need = alternative.count - done
        if need == 0:
            return self._request(claim, index + 1)
        if self._ledger.results + need > MAX_RESULTS:
            return _Result.TOO_MANY
        fit = self._available(claim, alternative, self._fit[alternative.id]) >> start << start
        errors = self._available(claim, alternative, self._errors[alternative.id]) >> start << start
        covering = [(self._constraints[claim][i], self._states[i]) for i in alternative.constraints]
        if not errors and not can_take(need, fit, covering):
            return _Result.FAILED
        key = self._key(claim, index, alternative.id, done, start)
        if key in self._failed:
            return _Result.FAILED
        for data, state in covering:
            fit &= data.compatible(state)
        result = self._try_each(claim, index, alternative, done, fit, errors)
        if result is _Result.FAILED:
            self._failed.add(key)
        return result

    def _try_each(
        self, claim: int, index: int, alternative: Alternative, done: int, fit: int, errors: int
    ) -> _Result:
        left = fit | errors
        while left:
            device = (left & -left).bit_length() - 1
            self._count_work()
            if errors >> device & 1:
                raise Fatal(str(self.problem.verdict(alternative, device)))
            left &= left - 1
            if not self._ledger.choose(claim, alternative, device):
                continue
            states = self._states
            self._states = self._added(claim, alternative, device)
            result = self._take(claim, index, alternative, done + 1, device + 1)
            if result is _Result.FOUND:
                return result
            self._states = states
            self._ledger.unchoose(alternative, device)
            if result is _Result.TOO_MANY:
                return result
            # Devices that nothing tells apart fail alike; erring ones must still be met.
            if self._allowed is None:
                left &= ~(self._class_of[device] & ~errors)
        return _Result.FAILED

    def _take_all(self, claim: int, index: int, alternative: Alternative) -> _Result:
        """Mode All: exactly the devices found at the start, no choice."""
        devices = self._all[alternative.id]
        if not devices:
            return _Result.FAILED
        states, chosen = self._states, list[int]()
        result = _Result.FAILED
        for position, device in enumerate(devices):
            if self._ledger.results + len(devices) - position > MAX_RESULTS:
                result = _Result.TOO_MANY
                break
            self._count_work()
            if not self._take_this(claim, alternative, device):
                break
            chosen.append(device)
        else:
            result = self._request(claim, index + 1)
        if result is not _Result.FOUND:
            self._states = states
            for device in reversed(chosen):
                self._ledger.unchoose(alternative, device)
        return result

    def _take_this(self, claim: int, alternative: Alternative, device: int) -> bool:
        free = self._available(claim, alternative, 1 << device)
        if not free or not (alternative.admin or self.problem.free >> device & 1):
            return False
        if not self._ledger.counters_suffice(device):
            return False
        if not self._fit[alternative.id] >> device & 1:
            return False
        for i in alternative.constraints:
            if not self._constraints[claim][i].compatible(self._states[i]) >> device & 1:
                who = f"claim {self.plan.claims[claim].name}, request {alternative.own_name}"
                key = self.problem.keys[device]
                raise Fatal(
                    f"{who}: cannot add device {key} because a claim constraint would not be satisfied"
                )
        if not self._ledger.choose(claim, alternative, device):
            return False
        self._states = self._added(claim, alternative, device)
        return True

    # --- state ---------------------------------------------------------------------------------------------

    def _available(self, claim: int, alternative: Alternative, mask: int) -> int:
        if self._allowed is not None:
            mask &= self._allowed[claim]
        return self._ledger.available(alternative, mask)

    def _added(self, claim: int, alternative: Alternative, device: int) -> tuple[State, ...]:
        if not alternative.constraints:
            return self._states
        states = list(self._states)
        for i in alternative.constraints:
            states[i] = self._constraints[claim][i].add(states[i], device)
        return tuple(states)

    def _count_work(self) -> None:
        self.work += 1
        if self.work > self._limit:
            raise OutOfWork

    def _key(self, claim: int, index: int, alternative: int, done: int, start: int) -> object:
        """The state, up to the exchange of devices that nothing tells apart."""
        ledger = self._ledger
        taken = ledger.taken
        if self._allowed is not None or len(self._classes) > _MAX_CLASSES:
            where: object = (taken, start)
        else:
            rest = -1 << start
            where = tuple(
                ((taken & mask).bit_count(), (taken & mask & rest).bit_count(), (mask & rest).bit_count())
                for mask in self._classes
            )
        flight: object = ()
        if ledger.in_flight:
            flight = frozenset((d, frozenset(sums.items())) for d, sums in ledger.in_flight.items())
        admin: object = ()
        if self._has_admin:
            admin = (ledger.in_claim, tuple(p.device for p in ledger.picks if p.alternative.admin))
        return (claim, index, alternative, done, ledger.results, where, self._states, flight, admin)

    # --- bounds --------------------------------------------------------------------------------------------

    def _clean(self, claim: int, index: int) -> bool:
        """Whether no selector can fail from here on, so that skipping ahead hides no error."""
        for number in range(claim, len(self.plan.claims)):
            requests = self.plan.claims[number].requests
            for request in requests[index if number == claim else 0 :]:
                if any(a.all_devices or self._errors[a.id] for a in request.alternatives):
                    return False
        return True

    def _enough(self, claim: int, index: int) -> bool:
        """Counting over all requests that are still open, in this claim and those after it."""
        everything: list[tuple[int, int]] = []
        for number in range(claim, len(self.plan.claims)):
            here = number == claim
            states: tuple[State, ...] = self._states if here else (None,) * len(self._constraints[number])
            covered: dict[int, list[tuple[int, int]]] = {}
            requests = self.plan.claims[number].requests
            for position in range(index if here else 0, len(requests)):
                choices = self._choices(number, position, requests[position])
                masks = [self._open(number, a, states) for a in choices]
                mask = 0
                for part in masks:
                    mask |= part
                if any(a.admin for a in choices) or mask & self.problem.shareable:
                    continue
                need = min(a.count for a in choices)
                everything.append((need, mask))
                for i in set.intersection(*(set(a.constraints) for a in choices)):
                    covered.setdefault(i, []).append((need, mask))
            if not all(
                one_group(needs, self._constraints[number][i], states[i]) for i, needs in covered.items()
            ):
                return False
        return can_match(everything)

    def _open(self, claim: int, alternative: Alternative, states: tuple[State, ...]) -> int:
        mask = self._available(claim, alternative, self._fit[alternative.id])
        for i in alternative.constraints:
            mask &= self._constraints[claim][i].compatible(states[i])
        return mask
