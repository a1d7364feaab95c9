"""The search: depth first in upstream's order, cut by counting and by memory of failed states.

Claims in order, requests in order, alternatives by preference, devices ascending within a request: the first
solution found is the one that upstream finds (``allocateOne``). What makes it fast changes nothing in the
answer: bounds (``bounds``), devices that are alike are tried once per level, and a state that failed is not
entered again. Where a selector or a derived attribute failed on a device, the bounds are off for that
request, so that the error is met exactly where upstream meets it.
"""

from __future__ import annotations

from enum import Enum

from baro.allocator.alike import Kinds
from baro.allocator.bounds import can_match, most_by_counters, one_group, takeable
from baro.allocator.constraints import ConstraintData, State
from baro.allocator.frame import mask_of
from baro.allocator.ledger import Ledger, Pick
from baro.allocator.plan import MAX_RESULTS, Alternative, ClaimPlan, Request
from baro.allocator.problem import Fatal, NodeProblem, bits

View = tuple[int, ConstraintData]
"""Index of a constraint and its values as a request sees them."""


class OutOfWork(Exception):  # noqa: N818 - an answer, not a defect
    """The work limit was reached before the search could decide."""


class _Hopeless(Exception):  # noqa: N818 - an answer, not a defect
    """What counters have left rules every solution out."""


_STRUGGLING = 1_000
"""After so many devices tried, counters are looked at as a whole: most searches never get there."""


class _Result(Enum):
    FOUND = 1
    FAILED = 2
    TOO_MANY = 3
    """Over 32 devices in the claim: give up to the nearest choice of alternatives (kubernetes#130593)."""


_FOUND, _FAILED, _TOO_MANY = _Result.FOUND, _Result.FAILED, _Result.TOO_MANY


class Search:
    """One node, one plan; ``run`` may be called repeatedly with different restrictions."""

    def __init__(self, problem: NodeProblem, *, work_limit: int, ignore_errors: bool) -> None:
        self.problem = problem
        self.plan = problem.plan
        self.work = 0
        self._limit = work_limit
        self._ignore = ignore_errors
        self._all: dict[int, list[int]] = {}
        self._fit: dict[int, int] = {}
        self._errors: dict[int, int] = {}
        self._derived: dict[int, int] = {}
        """Devices whose derived attributes fail: an error, but only once a constraint asks for them."""
        self._views: dict[int, list[View]] = {}
        self._constraints: list[list[tuple[ConstraintData, ...]]] = []
        for claim in self.plan.claims:
            self._check(claim)
        for claim in self.plan.claims:
            self._constraints.append([problem.constraint(item) for item in claim.constraints])
        self.has_admin = False
        self._last_uncertain = (-1, -1)
        """The last request in which a device might be met that cannot be judged."""
        for index, claim in enumerate(self.plan.claims):
            for number, request in enumerate(claim.requests):
                for alternative in request.alternatives:
                    self._judge(index, alternative)
                    self.has_admin = self.has_admin or alternative.admin
                    if not self._is_clean(alternative):
                        self._last_uncertain = (index, number)
        self._kinds: Kinds | None = None
        self._hopeless = False
        self._violation: str | None = None
        """What upstream says of the first device of "all" that a constraint ruled out."""

    # --- set-up: upstream's checks in upstream's order -----------------------------------------------------

    def _check(self, claim: ClaimPlan) -> None:
        least = 0
        for request in claim.requests:
            if request.refusal is not None:
                raise Fatal(request.refusal)
            for alternative in request.alternatives:
                if alternative.refusal is not None:
                    raise Fatal(alternative.refusal)
                if alternative.all_devices:
                    self._all[alternative.id] = self.problem.all_devices(alternative)
            more = min([self.need(alternative) for alternative in request.alternatives])
            if more > MAX_RESULTS - least:
                raise Fatal(
                    f"claim {claim.name}, request {request.name}: adding {more} devices exceeds "
                    f"the claim limit of {MAX_RESULTS}, with {least} already accounted for"
                )
            least += more
        if claim.refusal is not None:
            raise Fatal(claim.refusal)

    def _judge(self, claim: int, alternative: Alternative) -> None:
        fit, errors = self.problem.candidates(alternative)
        views = [
            (index, self._constraints[claim][index][view])
            for index, view in zip(alternative.constraints, alternative.views, strict=True)
        ]
        derived = 0
        for _, data in views:
            for device in data.errors:
                derived |= 1 << device
        self._views[alternative.id] = views
        self._fit[alternative.id] = fit
        self._errors[alternative.id] = 0 if self._ignore or alternative.all_devices else errors
        self._derived[alternative.id] = 0 if self._ignore or alternative.all_devices else derived & fit

    def _is_clean(self, alternative: Alternative) -> bool:
        """Whether leaving this alternative out, or devices for it, hides no error. Of all devices, one that
        violates a constraint is an error."""
        mine = alternative.id
        violable = alternative.all_devices and self._views[mine]
        return not (violable or self._errors[mine] or self._derived[mine])

    def need(self, alternative: Alternative) -> int:
        """How many devices an alternative takes."""
        return len(self._all[alternative.id]) if alternative.all_devices else alternative.count

    def first_error(self) -> str | None:
        """The first failure of a selector or derived attribute on a device that could have been taken."""
        for _, _, alternative in self.plan.alternatives():
            fit, errors = self.problem.candidates(alternative)
            for device in bits(errors):
                return self.problem.failure(alternative, device)
            for _, data in self._views[alternative.id]:
                for device, text in data.errors.items():
                    if fit >> device & 1:
                        return text
        return None

    def eligible(self, alternative: Alternative) -> int:
        """The devices that an alternative may take before anything is chosen."""
        if alternative.all_devices:
            return mask_of(self._all[alternative.id])
        return self._fit[alternative.id]

    def constraint_data(self, claim: int) -> list[ConstraintData]:
        """Per constraint of a claim its values as most requests see them."""
        return [views[0] for views in self._constraints[claim]]

    @property
    def kinds(self) -> Kinds:
        """Which devices no part of the search can tell apart; found when something fails first."""
        if self._kinds is None:
            single = self.problem.shareable
            masks = [self.problem.free, *self._fit.values(), *self._errors.values(), *self._derived.values()]
            for alternative, devices in self._all.items():
                # The first of all devices that violates a constraint is named: their order matters then.
                if self._views[alternative]:
                    single |= mask_of(devices)
                else:
                    masks.append(mask_of(devices))
            for claim in self._constraints:
                for views in claim:
                    for data in views:
                        masks += data.masks.values()
                        if data.distinct:
                            single |= data.unset  # which of them comes before the others matters
            self._kinds = Kinds(self.problem.frame, masks, single)
        return self._kinds

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
        self._ledger = Ledger(self.problem, admin_blocks=admin_blocks)
        self._states: tuple[State, ...] = ()
        self._failed: set[object] = set()
        self._violation = None
        try:
            if not self._hopeless and self._claim(0) is _FOUND:
                return tuple(self._ledger.picks)
        except _Hopeless:
            self._hopeless = True
        except Fatal:
            self._complain()
            raise
        if allowed is None and not fixed:
            self._complain()
        return None

    def _complain(self) -> None:
        """The violation came first: upstream stops there."""
        if self._violation is not None:
            raise Fatal(self._violation) from None

    def _claim(self, claim: int) -> _Result:
        if claim == len(self.plan.claims):
            return _FOUND
        ledger = self._ledger
        saved = (ledger.in_claim, ledger.results, self._states)
        ledger.in_claim, ledger.results = 0, 0
        self._states = (None,) * len(self._constraints[claim])
        result = self._request(claim, 0)
        if result is not _FOUND:
            ledger.in_claim, ledger.results, self._states = saved
        return _FAILED if result is _TOO_MANY else result

    def _request(self, claim: int, index: int) -> _Result:
        requests = self.plan.claims[claim].requests
        if index == len(requests):
            return self._claim(claim + 1)
        if self._failed and self._key(claim, index, -1, 0, 0) in self._failed:
            return _FAILED
        last = index + 1 == len(requests) and claim + 1 == len(self.plan.claims)
        if not last and (claim, index) > self._last_uncertain and not self._enough(claim, index):
            return _FAILED
        result = self._alternatives(claim, index, requests[index])
        if result is _FAILED and not last:
            self._failed.add(self._key(claim, index, -1, 0, 0))
        return result

    def _alternatives(self, claim: int, index: int, request: Request) -> _Result:
        too_many = request.prioritized
        for alternative in self._choices(claim, index, request):
            if alternative.all_devices:
                result = self._take_all(claim, index, alternative)
            else:
                result = self._take(claim, index, alternative, 0, 0)
            if result is _FOUND or (result is _TOO_MANY and not request.prioritized):
                return result
            too_many = too_many and result is _TOO_MANY
        return _TOO_MANY if too_many else _FAILED

    def _choices(self, claim: int, index: int, request: Request) -> tuple[Alternative, ...]:
        fixed = self._fixed.get((claim, index)) if self._fixed else None
        return request.alternatives if fixed is None else (request.alternatives[fixed],)

    def _take(self, claim: int, index: int, alternative: Alternative, done: int, start: int) -> _Result:
        """Device number ``done`` of a request, at or after local number ``start``."""
        need = alternative.count - done
        if need == 0:
            return self._request(claim, index + 1)
        if self._ledger.results + need > MAX_RESULTS:
            return _TOO_MANY
        mine = alternative.id
        fit = self._available(claim, alternative, self._fit[mine]) >> start << start
        errors = self._errors[mine] | self._derived[mine]
        if errors:
            errors = self._available(claim, alternative, errors) >> start << start
        covering = [(data, self._states[i]) for i, data in self._views[mine]]
        if errors:
            for data, state in covering:
                fit &= data.compatible(state)
        else:
            fit = takeable(need, fit, covering)
            if not fit:
                return _FAILED
        if self._failed and self._key(claim, index, mine, done, start) in self._failed:
            return _FAILED
        result = self._try_each(claim, index, alternative, done, fit, errors)
        if result is _FAILED:
            self._failed.add(self._key(claim, index, mine, done, start))
        return result

    def _try_each(
        self, claim: int, index: int, alternative: Alternative, done: int, fit: int, errors: int
    ) -> _Result:
        left = fit | errors
        ledger = self._ledger
        while left:
            device = (left & -left).bit_length() - 1
            self._count_work()
            left &= left - 1
            if errors >> device & 1 and not self._survives(claim, alternative, device):
                continue
            if not ledger.choose(claim, alternative, device):
                continue
            states = self._states
            self._states = self._added(alternative, device)
            result = self._take(claim, index, alternative, done + 1, device + 1)
            if result is _FOUND:
                return result
            self._states = states
            ledger.unchoose(alternative, device)
            if result is _TOO_MANY:
                return result
            # Devices that nothing tells apart fail alike; erring ones must still be met.
            if self._allowed is None and left:
                left &= ~(self.kinds.of(device) & ~errors)
        return _FAILED

    def _survives(self, claim: int, alternative: Alternative, device: int) -> bool:
        """Whether a device that something is wrong with may be taken all the same.

        Raises ``Fatal`` where upstream meets the error: selectors first, what constraints ask for at the end.
        """
        if self._errors[alternative.id] >> device & 1:
            raise Fatal(self.problem.failure(alternative, device))
        ledger = self._ledger
        if not self.problem.has_capacity(alternative, device, ledger.in_flight.get(device)):
            return False
        if not ledger.counters_suffice(device):
            return False
        for i, data in self._views[alternative.id]:
            text = data.errors.get(device)
            if text is not None:
                raise Fatal(text)
            if not data.compatible(self._states[i]) >> device & 1:
                return False
        return True

    def _take_all(self, claim: int, index: int, alternative: Alternative) -> _Result:
        """Mode All: exactly the devices found at the start, no choice."""
        devices = self._all[alternative.id]
        if not devices:
            return _FAILED
        states, chosen = self._states, list[int]()
        result = _FAILED
        for position, device in enumerate(devices):
            if self._ledger.results + len(devices) - position > MAX_RESULTS:
                result = _TOO_MANY
                break
            self._count_work()
            if not self._take_this(claim, alternative, device):
                break
            chosen.append(device)
        else:
            result = self._request(claim, index + 1)
        if result is not _FOUND:
            self._states = states
            for device in reversed(chosen):
                self._ledger.unchoose(alternative, device)
        return result

    def _take_this(self, claim: int, alternative: Alternative, device: int) -> bool:
        problem = self.problem
        if not self._available(claim, alternative, 1 << device):
            return False
        if not self._ledger.counters_suffice(device):
            return False
        if not problem.frame.eligible(alternative).fit >> device & 1:
            return False
        for i, data in self._views[alternative.id]:
            if device in data.errors and not self._ignore:
                raise Fatal(data.errors[device])
            if not data.compatible(self._states[i]) >> device & 1:
                key = problem.keys[device]
                text = f"cannot add device {key} because a claim constraint would not be satisfied"
                self._violation = self._violation or f"{problem.who(alternative)}: {text}"
                if problem.features.compatibility:
                    raise Fatal(self._violation)
                return False
        if not self._ledger.choose(claim, alternative, device):
            return False
        self._states = self._added(alternative, device)
        return True

    # --- state ---------------------------------------------------------------------------------------------

    def _available(self, claim: int, alternative: Alternative, mask: int) -> int:
        if self._allowed is not None:
            mask &= self._allowed[claim]
        return self._ledger.available(alternative, mask)

    def _added(self, alternative: Alternative, device: int) -> tuple[State, ...]:
        views = self._views[alternative.id]
        if not views:
            return self._states
        states = list(self._states)
        for i, data in views:
            states[i] = data.add(states[i], device)
        return tuple(states)

    def _count_work(self) -> None:
        self.work += 1
        if self.work > self._limit:
            raise OutOfWork
        if self.work == _STRUGGLING and self._last_uncertain == (-1, -1) and not self._counters_allow():
            raise _Hopeless

    def _key(self, claim: int, index: int, alternative: int, done: int, start: int) -> object:
        """The state, up to the exchange of devices that nothing tells apart."""
        ledger = self._ledger
        where = self.kinds.pattern(ledger.taken, start, exact=self._allowed is not None)
        flight: object = ()
        if ledger.in_flight:
            flight = frozenset((d, frozenset(sums.items())) for d, sums in ledger.in_flight.items())
        admin: object = ()
        if self.has_admin:
            admin = (ledger.in_claim, tuple(p.device for p in ledger.picks if p.alternative.admin))
        return (claim, index, alternative, done, ledger.results, where, self._states, flight, admin)

    # --- bounds --------------------------------------------------------------------------------------------

    def _counters_allow(self) -> bool:
        """Whether counters leave enough for each request without alternatives, and for all of them."""
        everything = total = 0
        for _, request, alternative in self.plan.alternatives():
            if len(request.alternatives) > 1 or alternative.admin:
                continue
            need, devices = self.need(alternative), self.eligible(alternative)
            if need > most_by_counters(self.problem, devices):
                return False
            if not devices & self.problem.shareable:
                everything, total = everything | devices, total + need
        return total <= most_by_counters(self.problem, everything)

    def _enough(self, claim: int, index: int) -> bool:
        """Counting over all requests that are still open, in this claim and those after it."""
        everything: list[tuple[int, int]] = []
        for number in range(claim, len(self.plan.claims)):
            here = number == claim
            states: tuple[State, ...] = self._states if here else (None,) * len(self._constraints[number])
            covered: dict[int, list[tuple[int, int, ConstraintData]]] = {}
            requests = self.plan.claims[number].requests
            for position in range(index if here else 0, len(requests)):
                choices = self._choices(number, position, requests[position])
                mask = 0
                for alternative in choices:
                    mask |= self._open(number, alternative, states)
                if any(a.admin for a in choices) or mask & self.problem.shareable:
                    continue
                need = min([self.need(a) for a in choices])
                everything.append((need, mask))
                for i, data in self._views[choices[0].id]:
                    if all((i, data) in self._views[a.id] for a in choices[1:]):
                        covered.setdefault(i, []).append((need, mask, data))
            if not all(one_group(needs, states[i]) for i, needs in covered.items()):
                return False
        return can_match(everything)

    def _open(self, claim: int, alternative: Alternative, states: tuple[State, ...]) -> int:
        mask = self._available(claim, alternative, self._fit[alternative.id])
        for i, data in self._views[alternative.id]:
            mask &= data.compatible(states[i])
        return mask
