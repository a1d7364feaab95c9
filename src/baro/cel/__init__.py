"""The Common Expression Language as Kubernetes configures it for DRA device selectors.

Parse, check, compile to closures, evaluate one device or the distinct tuples of a column table.
Knows values and columns, not claims, pools or nodes.
"""
