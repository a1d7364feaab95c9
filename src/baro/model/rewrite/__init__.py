"""Edits made in a text: comments, order, quotes and indentation stay, only what is meant changes.

Works by spans: an edit (``baro.model.edits``) becomes replacements of characters, which are made together.
Nothing is taken on trust: the new text is read again and must give exactly what the edits give as data; an
edit that does not is left out and reported as not placed. Aliases and merges are covered by the same rule:
an edit that would change other places too does not give the same data.
"""

from baro.model.rewrite.places import PlaceError, Replacement
from baro.model.rewrite.plan import combine, planned, replaced, replacements

__all__ = ["PlaceError", "Replacement", "combine", "planned", "replaced", "replacements"]
