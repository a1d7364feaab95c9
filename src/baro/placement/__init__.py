"""Node and device set chosen together: the objective over nodes, and why the others lost."""

from baro.placement.nodes import why_excluded
from baro.placement.place import FirstFit, Placement, best, first_fit, place

__all__ = ["FirstFit", "Placement", "best", "first_fit", "place", "why_excluded"]
