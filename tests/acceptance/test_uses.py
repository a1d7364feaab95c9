"""The judge of devices in use twice does not depend on which watch is quicker."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from tests.support.acceptance_uses import Uses

CLAIMS = ("one", "other")


def claim(name: str, version: int, *, gpu: str | None) -> ResourceClaim:
    """``name`` holds a GPU for the pod of that name, or nothing."""
    status: dict[str, object] = {}
    if gpu is not None:
        result = {"request": "r", "driver": "d", "pool": "p", "device": gpu}
        consumer = {"resource": "pods", "name": name, "uid": f"pod-{name}"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    meta = {"name": name, "uid": name, "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


def pod(name: str, version: int, *, bound: bool, phase: str = "Running") -> Pod:
    meta = {"name": name, "uid": f"pod-{name}", "resourceVersion": str(version)}
    spec = {"nodeName": "n"} if bound else {}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def test_two_bound_pods_with_one_device_are_found_in_any_order_of_the_watches() -> None:
    claims = [
        claim("one", 1, gpu="0"),
        claim("other", 2, gpu="0"),
        claim("one", 5, gpu=None),
        claim("other", 6, gpu=None),
    ]
    pods = [pod("one", 3, bound=True), pod("other", 4, bound=True)]
    for order in (claims + pods, pods + claims, [*claims[:3], *pods, claims[3]]):
        uses = Uses()
        for each in order:
            uses.told(each)
        assert uses.found == ["d/p/0 is in use through one and other"]


def test_a_claim_that_yielded_before_its_pod_was_bound_is_no_fault_however_late_that_is_seen() -> None:
    uses = Uses()
    for each in (
        claim("one", 1, gpu="0"),
        claim("other", 2, gpu="0"),
        pod("one", 3, bound=True),
        pod("other", 9, bound=True),  # placed anew: the watch of claims has not told yet
    ):
        uses.told(each)
    assert not uses.found
    uses.told(claim("other", 5, gpu="1"))
    uses.told(claim("one", 10, gpu=None))
    assert not uses.found


def test_what_changed_in_a_gap_of_a_watch_is_not_held_against_anybody() -> None:
    uses = Uses()
    uses.told(claim("one", 1, gpu="0"))
    uses.told(pod("one", 2, bound=True))
    # The watch of claims breaks off; meanwhile "one" gives its device back, and "other" gets it.
    uses.told(pod("other", 8, bound=True))
    uses.listed(ResourceClaim, [claim("one", 5, gpu=None), claim("other", 7, gpu="0")])
    uses.told(claim("other", 9, gpu=None))
    assert not uses.found


def test_a_pod_that_has_ended_uses_nothing() -> None:
    uses = Uses()
    for each in (
        claim("one", 1, gpu="0"),
        pod("one", 2, bound=True),
        pod("one", 3, bound=True, phase="Succeeded"),
        claim("other", 4, gpu="0"),
        pod("other", 5, bound=True),
        claim("one", 6, gpu=None),
    ):
        uses.told(each)
    assert not uses.found


@st.composite
def histories(draw: st.DrawFn) -> list[KubeObject]:
    """What happens to two claims and their pods, one write after the other."""
    writes: list[KubeObject] = []
    bound = dict.fromkeys(CLAIMS, False)
    held: dict[str, str | None] = dict.fromkeys(CLAIMS)
    for version in range(1, draw(st.integers(2, 12)) + 1):
        name = draw(st.sampled_from(CLAIMS))
        if not bound[name] and draw(st.booleans()):
            bound[name] = True
            writes.append(pod(name, version, bound=True))
        else:
            held[name] = draw(st.sampled_from([None, "0", "1"]))
            writes.append(claim(name, version, gpu=held[name]))
    return writes


@given(history=histories(), data=st.data())
def test_what_is_found_is_what_was_at_one_moment_whatever_the_order_of_the_watches(
    history: list[KubeObject], data: st.DataObject
) -> None:
    held: dict[str, tuple[str, ...]] = {}
    bound: set[str] = set()
    wrong = False
    for each in history:
        if isinstance(each, ResourceClaim):
            found = each.status.allocation
            held[each.metadata.name] = tuple(r.device for r in found.devices.results) if found else ()
        else:
            bound.add(each.metadata.name)
        wrong |= bound == set(CLAIMS) and bool(set(held.get("one", ())) & set(held.get("other", ())))
    uses = Uses()
    waiting = {kind: [each for each in history if isinstance(each, kind)] for kind in (Pod, ResourceClaim)}
    while any(waiting.values()):
        kind = data.draw(st.sampled_from([kind for kind, left in waiting.items() if left]))
        uses.told(waiting[kind].pop(0))
    end = len(history) + 1
    uses.told(claim("last", end, gpu=None))  # both watches come to the end
    uses.told(pod("last", end, bound=False))
    assert bool(uses.found) == wrong
