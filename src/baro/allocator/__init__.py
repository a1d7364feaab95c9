"""Which devices of one node satisfy a set of claims: requests, constraints, search, policies.

``validity`` judges results by code of its own and shares no helper with the search.
"""
