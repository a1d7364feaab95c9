"""Steps of a counted evaluation: what cel-go's interpreter observes and charges, step by step.

A step returns a value, or a ``Failure`` for an error that logic may still absorb. After each step its value
is left on the tracker's stack, where the call that takes it as an argument looks for it: a call whose
arguments are not all found costs nothing. Leftovers of earlier rounds of a loop are part of that game, so the
stack is kept exactly as upstream keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baro.cel import operators
from baro.cel.code import Failure
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import LIMIT_MESSAGE
from baro.cel.values import NONE, Map, Optional


class Tracker:
    """Cost so far and the stack of observed values, each with the identity of its step.

    ``_places`` finds the newest value of a step without a search; entries above the top of the stack are
    stale and skipped.
    """

    __slots__ = ("_owners", "_places", "_values", "cost", "limit")

    def __init__(self, limit: int) -> None:
        self.cost = 0
        self.limit = limit
        self._owners: list[int] = []
        self._values: list[Any] = []
        self._places: dict[int, list[int]] = {}

    def push(self, owner: int, value: Any) -> None:
        places = self._places.get(owner)
        if places is None:
            places = self._places[owner] = []
        places.append(len(self._owners))
        self._owners.append(owner)
        self._values.append(value)
        if self.cost > self.limit:
            raise CelRuntimeError(LIMIT_MESSAGE, absorbable=False)

    def _newest(self, owner: int) -> int:
        """The place of the newest value of that step, -1 when there is none."""
        places, owners = self._places.get(owner), self._owners
        while places:
            place = places.pop()
            if place < len(owners) and owners[place] == owner:
                return place
        return -1

    def drop(self, owner: int) -> None:
        """Forget the newest value of that step and everything above it."""
        place = self._newest(owner)
        if place >= 0:
            del self._owners[place:]
            del self._values[place:]

    def take(self, steps: list[int]) -> list[Any] | None:
        """The values of a call's arguments, looked for from the last; ``None`` if one is missing."""
        found: list[Any] = []
        for owner in reversed(steps):
            place = self._newest(owner)
            if place < 0:
                return None
            found.append(self._values[place])
            del self._owners[place:]
            del self._values[place:]
        return found[::-1]


class State:
    """What one evaluation works on: the device as a map, the variables and the tracker."""

    __slots__ = ("root", "slots", "tracker")

    def __init__(self, root: Map, slots: int, tracker: Tracker) -> None:
        self.root = root
        self.slots: list[Any] = [None] * slots
        self.tracker = tracker


Run = Callable[[State], Any]


def attempt(run: Callable[[], Any]) -> Any:
    """The value, or the error as a ``Failure``; what cannot be absorbed is raised."""
    try:
        return run()
    except CelRuntimeError as error:
        if not error.absorbable:
            raise
        return Failure(error)


class Step:
    """One observed step. ``owner`` identifies it on the stack."""

    constant = False

    def __init__(self, owner: int) -> None:
        self._owner = owner

    @property
    def owner(self) -> int:
        return self._owner

    def run(self, state: State) -> Any:
        raise NotImplementedError


class Constant(Step):
    """A literal, or what upstream computes ahead: free."""

    constant = True

    def __init__(self, owner: int, value: Any) -> None:
        super().__init__(owner)
        self.value = value

    def run(self, state: State) -> Any:
        state.tracker.push(self._owner, self.value)
        return self.value


class Fault(Step):
    """A list or map of constants that cannot be made: as free as a constant."""

    constant = True

    def __init__(self, owner: int, failure: Failure) -> None:
        super().__init__(owner)
        self.failure = failure

    def run(self, state: State) -> Any:
        state.tracker.push(self._owner, self.failure)
        return self.failure


# --- attributes: a variable or value with the fields and indices after it -----------------------------------


class Qualifier:
    """A field or index after a value. ``key`` is its constant; ``optional`` for ``.?`` and ``[?]``."""

    def __init__(self, owner: int, key: Any, optional: bool) -> None:
        self.owner = owner
        self.key = key
        self.optional = optional

    def key_value(self, state: State) -> Any:
        return self.key

    def apply(self, value: Any, key: Any) -> Any:
        return attempt(lambda: operators.index(value, key))

    def present(self, value: Any, key: Any) -> tuple[bool, Any]:
        """Whether the field is there, and its value."""
        found = attempt(lambda: operators.optional_index(value, key))
        if type(found) is Failure:
            return False, found
        return found.present, found.value

    def charge(self, state: State, value: Any) -> None:
        state.tracker.cost += 1
        state.tracker.push(self.owner, value)

    def qualify(self, state: State, value: Any) -> Any:
        key = self.key_value(state)
        result = key if type(key) is Failure else self.apply(value, key)
        self.charge(state, result)
        return result

    def qualify_if_present(self, state: State, value: Any) -> tuple[bool, Any]:
        """(present, value); an error comes as not present with a ``Failure``."""
        key = self.key_value(state)
        present, result = (False, key) if type(key) is Failure else self.present(value, key)
        if present:
            self.charge(state, result)
        return present, result


class TestQualifier(Qualifier):
    """The last field of ``has(…)``."""

    def apply(self, value: Any, key: Any) -> Any:
        return attempt(lambda: operators.has(value, key))

    def present(self, value: Any, key: Any) -> tuple[bool, Any]:
        found = self.apply(value, key)
        return (False, found) if type(found) is Failure else (bool(found), found)


class AttributeQualifier(Qualifier):
    """An index that is a variable or field access itself."""

    def __init__(self, owner: int, attribute: Attribute, optional: bool) -> None:
        super().__init__(owner, None, optional)
        self.attribute = attribute

    def key_value(self, state: State) -> Any:
        return self.attribute.resolve(state)


class StepQualifier(Qualifier):
    """An index that is computed."""

    def __init__(self, owner: int, step: Step, optional: bool) -> None:
        super().__init__(owner, None, optional)
        self.step = step

    def key_value(self, state: State) -> Any:
        return self.step.run(state)

    def charge(self, state: State, value: Any) -> None:
        state.tracker.drop(self.owner)
        super().charge(state, value)


class Attribute:
    """A value with qualifiers; ``base`` gives the value."""

    def __init__(self, owner: int, base: Run) -> None:
        self._owner = owner
        self.base = base
        self.qualifiers: list[Qualifier] = []

    @property
    def owner(self) -> int:
        return self.qualifiers[-1].owner if self.qualifiers else self._owner

    def add(self, qualifier: Qualifier) -> None:
        self.qualifiers.append(qualifier)

    def resolve(self, state: State) -> Any:
        value = self.base(state)
        if type(value) is Failure:
            return value
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return NONE
            value = value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            if optional:
                present, value = qualifier.qualify_if_present(state, value)
                if type(value) is Failure:
                    return value
                if not present:
                    return NONE
            else:
                value = qualifier.qualify(state, value)
                if type(value) is Failure:
                    return value
        return Optional(True, value) if optional else value


class Conditional(Attribute):
    """``condition ? a : b``; what follows it is added to both branches."""

    def __init__(self, owner: int, condition: Step, when_true: Attribute, when_false: Attribute) -> None:
        super().__init__(owner, self.resolve)
        self.condition = condition
        self.when_true = when_true
        self.when_false = when_false

    @property
    def owner(self) -> int:
        same = self.when_true.owner == self.when_false.owner
        return self.when_true.owner if same else self._owner

    def add(self, qualifier: Qualifier) -> None:
        self.when_true.add(qualifier)
        self.when_false.add(qualifier)

    def resolve(self, state: State) -> Any:
        chosen = self.condition.run(state)
        if chosen is True:
            return self.when_true.resolve(state)
        if chosen is False:
            return self.when_false.resolve(state)
        return chosen if type(chosen) is Failure else Failure(CelRuntimeError("no such overload"))


class AttributeStep(Step):
    """Reads an attribute: 1, nothing for a conditional; a presence test (``has``) takes 1 back."""

    def __init__(self, attribute: Attribute, *, test: int | None = None) -> None:
        super().__init__(0)
        self.attribute = attribute
        self.test = test

    @property
    def owner(self) -> int:
        return self.attribute.owner if self.test is None else self.test

    def run(self, state: State) -> Any:
        attribute, tracker = self.attribute, state.tracker
        value = attribute.resolve(state)
        if self.test is not None and type(value) is Optional:
            value = value.present
        if isinstance(attribute, Conditional):
            for owner in (attribute.when_false.owner, attribute.when_true.owner, attribute.condition.owner):
                tracker.drop(owner)
            charge = 0
        else:
            tracker.drop(attribute.owner)
            charge = 1
        tracker.cost += charge - (self.test is not None)
        tracker.push(self.owner, value)
        return value
