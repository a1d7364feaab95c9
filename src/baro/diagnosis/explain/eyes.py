"""How an explanation looks into the allocator: the few facts of a ``NodeProblem`` that funnels are made of.

One place for it, so that the allocator's inside may change without the explanations noticing. Everything
here is a verdict or a value that the search itself uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from baro.allocator.capacity import CapacityError
from baro.allocator.constraints import ConstraintData
from baro.allocator.plan import Alternative, Constraint
from baro.allocator.problem import NodeProblem
from baro.model.kinds.resource import DeviceTaint


def here(problem: NodeProblem) -> int:
    """Mask of devices that the node can reach; one whose node selection cannot be read counts, since the
    search meets its error."""
    return sum(1 << device for device, reach in enumerate(problem.frame.on_node) if reach)


def selected(problem: NodeProblem, alternative: Alternative, count: int, device: int) -> bool | str:
    """Whether the first ``count`` selectors of a request (those of its class first) select a device;
    upstream's text where that fails."""
    shorter = msgspec.structs.replace(
        alternative, selectors=alternative.selectors[:count], expressions=alternative.expressions[:count]
    )
    return problem.verdict(shorter, device)


def taints(problem: NodeProblem, device: int) -> tuple[DeviceTaint, ...]:
    """The taints that count."""
    return problem.frame.taints(device)


def capacities(problem: NodeProblem, device: int) -> Mapping[str, tuple[Any, Any]]:
    """Full name → (value on the wire, policy)."""
    return problem.frame.capacities(device)


def could_hold(problem: NodeProblem, alternative: Alternative, device: int) -> bool:
    """Whether a device that nobody uses has what is asked for; an amount that cannot be read counts as no."""
    try:
        return not problem.features.consumable_capacity or problem.frame.could_hold(alternative, device)
    except CapacityError:
        return False


def constrained(problem: NodeProblem, constraint: Constraint, index: int, by: Alternative) -> ConstraintData:
    """The values of a claim's constraint number ``index`` as one of the requests sees them."""
    return problem.constraint(constraint)[by.views[by.constraints.index(index)]]
