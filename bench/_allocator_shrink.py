"""Making a random allocator instance smaller while it still shows what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Body = dict[str, Any]


def shrink(body: Body, differs: Callable[[Body], bool]) -> Body:
    """The smallest instance found by leaving parts out that still ``differs``."""
    again = True
    while again:
        again = False
        for candidate in _smaller(body):
            if differs(candidate):
                body, again = candidate, True
                break
    return body


def _smaller(body: Any) -> Any:
    """Copies of a JSON value with one part less, larger parts first."""
    if isinstance(body, dict):
        for key in body:
            if key in _KEPT:
                continue
            yield {other: value for other, value in body.items() if other != key}
        for key, value in body.items():
            for part in _smaller(value):
                yield {**body, key: part}
    elif isinstance(body, list):
        for index in range(len(body)):
            yield [*body[:index], *body[index + 1 :]]
        for index, value in enumerate(body):
            for part in _smaller(value):
                yield [*body[:index], part, *body[index + 1 :]]


_KEPT = frozenset(
    {
        "allNodes", "allocationMode", "apiVersion", "claims", "count", "deviceClassName", "deviceClasses",
        "devices", "driver", "exactly", "features", "firstAvailable", "generation", "held", "kind",
        "metadata", "name", "node", "nodeName", "pool", "resourceSliceCount", "resourceSlices", "spec",
        "value",
    }
)  # fmt: skip
"""Parts without which an object is no object; shrinking leaves them."""
