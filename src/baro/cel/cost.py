"""Cost of a selector: what it may cost at most (admission) and what an evaluation did cost.

Not built yet. Upstream refuses selectors estimated above 1,000,000 and stops evaluations there; until then
``folds`` limits the work of loops by a rough count, and nothing is refused for its estimate.
"""
