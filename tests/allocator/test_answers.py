"""Answers of a selector over all devices at once, kept in step with the devices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator.cel_selectors import CelSelectors
from baro.inventory import Inventory
from tests.support.cluster import DRIVER, cluster, device, node_slice

EXPRESSIONS = (
    f"device.attributes['{DRIVER}'].index == 1",
    f"device.attributes['{DRIVER}'].kind == 'a' || device.attributes['{DRIVER}'].index == 2",
    "device.attributes.exists(domain, domain == 'resource.kubernetes.io')",
    "this does not compile",
)
_WORTH = st.dictionaries(st.sampled_from(["index", "kind", "numaNode"]), st.just(None))


def _device(index: int, facts: dict[str, None]) -> dict[str, Any]:
    values: dict[str, Any] = {"index": index % 3, "kind": "ab"[index % 2], "numaNode": index % 2}
    return {name: values[name] for name in facts}


def _code(answer: bool | str) -> int:
    return 2 if isinstance(answer, str) else int(answer)


@settings(max_examples=40, deadline=None)
@given(
    before=st.lists(_WORTH, min_size=2, max_size=12),
    after=st.lists(_WORTH, min_size=1, max_size=3),
    expression=st.sampled_from(EXPRESSIONS),
)
def test_answers_over_all_rows_are_those_of_each_row(
    before: list[dict[str, None]], after: list[dict[str, None]], expression: str
) -> None:
    nodes = {f"n{at}": [device("gpu-0", **_device(at, facts))] for at, facts in enumerate(before)}
    inventory = Inventory(cluster(nodes))
    engine = CelSelectors(inventory)
    engine.refresh(expression, None)
    for at, facts in enumerate(after):
        inventory.set_slice(node_slice("n0", [device(f"new-{at}", **_device(at, facts))]))
        rows = [row for record in inventory.slices() if record.node_name == "n0" for row in record.rows]
        engine.refresh(expression, rows)
        for record in inventory.slices():
            for row in record.rows:
                alone = CelSelectors(inventory).verdict(expression, row)
                assert engine.answers(expression)[row] == _code(alone)


def test_a_changed_device_is_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = Inventory(cluster({f"n{at}": [device("gpu-0", index=at)] for at in range(40)}))
    engine = CelSelectors(inventory)
    assert sum(engine.answers(EXPRESSIONS[0])) == 1
    inventory.set_slice(node_slice("n7", [device("gpu-0", index=1)]))
    looked: list[int] = []
    verdict = engine.verdict

    def noted(expression: str, row: int) -> bool | str:
        looked.append(row)
        return verdict(expression, row)

    monkeypatch.setattr(engine, "verdict", noted)
    engine.refresh(EXPRESSIONS[0], [7])
    assert looked == [7] and sum(engine.answers(EXPRESSIONS[0])) == 2
