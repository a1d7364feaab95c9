"""Reading bodies that may hold anything: a value of the wrong shape counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The mappings in the value if it is a list, else none."""
    return [item for item in sequence(value) if isinstance(item, Mapping)]


def never_ran(ended: Mapping[str, Any]) -> bool:
    """Whether a container ended before its program ran: the message is the runtime's then, else the
    program's own."""
    return ended.get("reason") in ("StartError", "ContainerCannotRun")
