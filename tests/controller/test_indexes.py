"""The subsets that a round of planning starts from: as if looked for among everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baro.controller.indexes import Turns, concerns
from baro.controller.view import key_of
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Pod, PodSchedulingGate, PodSpec, PodStatus

GATE = (PodSchedulingGate(name="baro.dev/placement"),)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    meta = ObjectMeta(
        name=draw(st.sampled_from(["a", "b", "c", "d"])),
        namespace=draw(st.sampled_from(["x", "y"])),
        creation_timestamp=draw(st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"])),
        deletion_timestamp=draw(st.sampled_from([None, None, None, "2026-01-02T00:00:00Z"])),
        annotations=draw(st.sampled_from([{}, {"baro.dev/placement-reason": "r"}])),
    )
    spec = PodSpec(
        priority=draw(st.sampled_from([None, 0, 5, -1])),
        scheduling_gates=draw(st.sampled_from([(), GATE, GATE])),
        node_name=draw(st.sampled_from(["", "", "n"])),
    )
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase=draw(st.sampled_from(["", "Running"]))))


@given(st.lists(st.tuples(pods(), st.booleans()), max_size=30))
def test_pods_come_in_order_of_priority_age_and_name_whatever_came_and_went(
    steps: list[tuple[Pod, bool]],
) -> None:
    turns, there = Turns(), dict[tuple[str, str], Pod]()
    for pod, goes in steps:
        if goes:
            turns.drop(key_of(pod))
            there.pop(key_of(pod), None)
        else:
            turns.put(key_of(pod), pod)
            there[key_of(pod)] = pod
    waiting = [pod for pod in there.values() if concerns(pod)]
    expected = sorted(
        waiting,
        key=lambda p: (-(p.spec.priority or 0), p.metadata.creation_timestamp or "", *key_of(p)),
    )
    assert list(turns) == expected
    assert len(turns) == len(expected)
