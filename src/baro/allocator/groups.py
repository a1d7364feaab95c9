"""Compatibility groups (KEP-5963): which partitions of a counter set may be in use at the same time.

Devices that draw from the same counter set go together only if one group is common to all of them; devices
without groups go with devices without groups. Sets are never compared with each other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

Group: TypeAlias = frozenset[str] | None
"""What is common to all devices of a set so far; ``None`` while there are none. ``UNGROUPED`` stands for
devices that declare no groups."""
NOBODY: Final[Group] = None
UNGROUPED: Final = frozenset({""})


def admits(so_far: Group, groups: Collection[str]) -> bool:
    """Whether a device that declares ``groups`` may join."""
    if so_far is None:
        return True
    if not groups:
        return so_far is UNGROUPED
    return so_far is not UNGROUPED and not so_far.isdisjoint(groups)


def joined(so_far: Group, groups: Collection[str]) -> Group:
    """What is common after a device has joined; devices in use may be ill matched already."""
    if so_far is None:
        return frozenset(groups) if groups else UNGROUPED
    if so_far is UNGROUPED or not groups:
        return so_far
    return so_far & frozenset(groups)
