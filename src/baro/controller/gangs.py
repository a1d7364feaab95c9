"""Gangs of the planner: pods with one ``baro.dev/gang``, placed and ungated all or none.

All members are placed in one decision, each gets its own allocation, and no gate comes off before as many
members as the gang needs (``baro.dev/gang-size``) have theirs. What a gang holds while it cannot be completed
is taken back, so two gangs never keep each other waiting with half of the devices each. No effects here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from baro.controller import pods
from baro.model.kinds.core import Pod
from baro.model.names import GANG_LABEL, GANG_SIZE_ANNOTATION

GangKey = tuple[str, str]
"""Namespace and value of the label."""


def gang_of(pod: Pod) -> GangKey | None:
    """The gang that a pod names, by label or annotation."""
    name = pod.metadata.labels.get(GANG_LABEL) or pod.metadata.annotations.get(GANG_LABEL)
    return (pod.metadata.namespace, name) if name else None


class Gang(msgspec.Struct, frozen=True):
    """The pods of a gang that live, and how many there must be; 0 when no pod says a usable number."""

    key: GangKey
    members: tuple[Pod, ...]
    size: int

    @property
    def lacks(self) -> str | None:
        """Why the gang cannot be placed at all, or ``None``."""
        if not self.size:
            return f"gang {self.key[1]}: annotation {GANG_SIZE_ANNOTATION} must say how many pods it needs"
        if len(self.members) < self.size:
            return f"gang {self.key[1]} needs {self.size} pods, there are {len(self.members)}"
        return None


def gang_from(key: GangKey, members: Iterable[Pod]) -> Gang:
    """The gang that these pods make up, in order of age and name."""
    live = [pod for pod in members if not pods.done(pod) and not pod.metadata.deletion_timestamp]
    live.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
    return Gang(key, tuple(live), _size(live))


def _size(members: Sequence[Pod]) -> int:
    texts = (pod.metadata.annotations.get(GANG_SIZE_ANNOTATION, "") for pod in members)
    return max((int(text) for text in texts if text.isascii() and text.isdigit()), default=0)
