"""What a pod says about its claims and its node, in the form in which placement compares it.

Nothing is judged here: ``nodes.why_excluded`` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import TOPOLOGY_ANNOTATION


def demands(pod: Pod | None) -> bytes:
    """What ``why_excluded`` looks at, in one value: equal values admit the same nodes."""
    if pod is None:
        return b""
    spec = pod.spec
    affinity = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    if not spec.tolerations and not spec.node_selector and affinity is None:
        return b""
    return msgspec.json.encode((spec.tolerations, sorted(spec.node_selector.items()), affinity))


def wish(claim: ResourceClaim) -> str:
    """The topology annotation of a claim, ``""`` without one."""
    return claim.metadata.annotations.get(TOPOLOGY_ANNOTATION, "")


def with_wish(claims: Sequence[ResourceClaim], pod: Pod | None) -> Sequence[ResourceClaim]:
    """The claims, with the pod's topology annotation where they have none."""
    wanted = pod.metadata.annotations.get(TOPOLOGY_ANNOTATION) if pod else None
    if wanted is None:
        return claims
    return [
        msgspec.structs.replace(
            claim,
            metadata=msgspec.structs.replace(
                claim.metadata, annotations={TOPOLOGY_ANNOTATION: wanted, **claim.metadata.annotations}
            ),
        )
        for claim in claims
    ]
