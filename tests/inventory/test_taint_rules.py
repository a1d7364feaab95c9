"""Taint rules laid over devices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baro.inventory import Inventory
from baro.model.kinds.resource import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from tests.support.cluster import DRIVER, cluster, device

_SELECTORS = st.none() | st.builds(
    DeviceTaintSelector,
    driver=st.sampled_from([None, DRIVER, "other"]),
    pool=st.sampled_from([None, "a", "b", "c"]),
    device=st.sampled_from([None, "gpu-0", "gpu-1"]),
)


@given(selectors=st.lists(_SELECTORS, max_size=8))
def test_a_device_has_the_taints_of_all_rules_that_name_it_in_their_order(
    selectors: list[DeviceTaintSelector | None],
) -> None:
    inventory = Inventory(cluster({node: [device("gpu-0"), device("gpu-1")] for node in "ab"}))
    inventory.set_taint_rules(
        DeviceTaintRule(
            spec=DeviceTaintRuleSpec(
                device_selector=selector, taint=DeviceTaint(key=f"rule-{number}", effect="NoSchedule")
            )
        )
        for number, selector in enumerate(selectors)
    )
    for record in inventory.slices():
        for row in record.rows:
            name = inventory.key(row).device
            expected = [
                f"rule-{number}"
                for number, selector in enumerate(selectors)
                if selector is not None
                and selector.driver in (None, DRIVER)
                and selector.pool in (None, record.pool)
                and selector.device in (None, name)
            ]
            assert [taint.key for taint in inventory.taints(row)] == expected
