"""The devices of a cluster as dictionary-encoded columns, with pools and what is in use.

Built from API objects, from files or from a watch alike. Decides nothing.
"""
