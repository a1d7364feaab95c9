"""Which devices of one node satisfy a set of claims: requests, constraints, search, policies.

``validity`` judges results by code of its own and shares no helper with the search.
"""

from baro.allocator.allocate import WORK_LIMIT, allocate, cel_engine
from baro.allocator.decision import NodeDecision, Outcome, Score
from baro.allocator.features import DEFAULT_1_37, Features, Policy
from baro.allocator.graph import predict_set
from baro.allocator.plan import Plan, compile_plan
from baro.allocator.selectors import SelectorEngine

__all__ = [
    "DEFAULT_1_37",
    "WORK_LIMIT",
    "Features",
    "NodeDecision",
    "Outcome",
    "Plan",
    "Policy",
    "Score",
    "SelectorEngine",
    "allocate",
    "cel_engine",
    "compile_plan",
    "predict_set",
]
