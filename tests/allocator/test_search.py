"""The search: bounded work on upstream's worst cases, and the rules that no upstream scenario covers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import Features, Outcome, Policy, allocate
from baro.allocator.bounds import can_match
from baro.allocator.capacity import amounts
from baro.allocator.validity import violations
from baro.inventory import Inventory
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CELDeviceSelector,
    Counter,
    CounterSet,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ResourceClaim,
)
from baro.model.quantity import Quantity
from tests.support.cluster import DRIVER, claim, cluster, device, holding, node_slice, request

GIB = 2**30 * 10**9


def _worst(letter: str, k: int) -> tuple[list[Any], list[ResourceClaim], bool]:
    """(devices, claims, fits) of a recipe that upstream needs exponential time for."""
    few = [device(f"gpu-{index}", numaNode=0) for index in range(k - 1)]
    numa = "resource.kubernetes.io/numaNode"
    both = (
        DeviceSubRequest(name="two", device_class_name="gpu.nvidia.com", count=2),
        DeviceSubRequest(name="one", device_class_name="gpu.nvidia.com", count=1),
    )
    match letter:
        case "A":
            return few, [claim(request(count=k))], False
        case "B":
            return few, [claim(request(), name=f"c{index}") for index in range(k)], False
        case "C":
            return few, [claim(*(request(f"r{index}") for index in range(k)))], False
        case "D":
            devices = [device(f"gpu-{index:02}", numaNode=index % 2) for index in range(2 * (k - 1))]
            return devices, [claim(request(count=k), match=numa)], False
        case "E":
            groups = [(group, k if group == 7 else k - 1) for group in range(8)]
            devices = [
                device(f"gpu-{group}-{index:02}", numaNode=group)
                for group, size in groups
                for index in range(size)
            ]
            return devices, [claim(request(count=k), match=numa)], True
        case _:
            requests = [DeviceRequest(name=f"r{index}", first_available=both) for index in range(k)]
            return few, [claim(*requests)], False


@pytest.mark.parametrize("k", [8, 20, 32])
@pytest.mark.parametrize("letter", "ABCDEF")
def test_what_is_exponential_upstream_takes_few_tries(letter: str, k: int) -> None:
    devices, claims, fits = _worst(letter, k)
    decision = allocate(Inventory(cluster({"n": devices})), "n", claims, policy=Policy.FIRST_FIT)
    assert decision.outcome is (Outcome.FIT if fits else Outcome.NO_FIT)
    assert decision.work <= 4 * k


@pytest.mark.parametrize("policy", [Policy.FIRST_FIT, Policy.TOPOLOGY])
def test_all_devices_after_requests_that_take_some_of_them_are_refused_by_counting(policy: Policy) -> None:
    devices = [device(f"gpu-{index:02}", slot=index) for index in range(17)]
    everything = claim(request("one"), request("all", allocation_mode="All"), name="last")
    wanted = [claim(request(), name="a"), claim(request(), request("two", 2), name="b"), everything]
    decision = allocate(Inventory(cluster({"n": devices})), "n", wanted, policy=policy)
    assert decision.outcome is Outcome.NO_FIT
    assert decision.work <= 5


@pytest.mark.parametrize("policy", [Policy.FIRST_FIT, Policy.TOPOLOGY])
def test_what_counters_cannot_give_is_refused_however_different_the_devices_are(policy: Policy) -> None:
    """No two partitions alike, so that no state repeats: 20 wanted, the counter has room for 16."""
    sets = (CounterSet(name="s", counters={"a": Counter(value="1000"), "b": Counter(value="9999")}),)
    devices = [
        msgspec.structs.replace(
            device(f"part-{at:02}"),
            consumes_counters=(
                DeviceCounterConsumption(
                    counter_set="s",
                    counters={"a": Counter(value=str(53 + at)), "b": Counter(value=str(1 + at * at % 7))},
                ),
            ),
        )
        for at in range(30)
    ]
    counters = node_slice("n", (), name="counters", count=2)
    counters = msgspec.structs.replace(
        counters, spec=msgspec.structs.replace(counters.spec, shared_counters=sets)
    )
    slices = (counters, node_slice("n", devices, name="parts", count=2))
    inventory = Inventory(msgspec.structs.replace(cluster({"n": ()}), slices=slices))
    # 53 + 54 + … + 68 = 968.
    assert allocate(inventory, "n", [claim(request(count=16))], policy=policy).fits
    refused = allocate(inventory, "n", [claim(request(), request("more", 20))], policy=policy)
    assert refused.outcome is Outcome.NO_FIT
    assert refused.work <= 1_000


def test_all_of_other_devices_still_fits_after_requests_for_one() -> None:
    devices = [device(f"gpu-{index}", type="gpu" if index else "other") for index in range(4)]
    others = (
        DeviceSelector(cel=CELDeviceSelector(expression=f"device.attributes['{DRIVER}'].type == 'gpu'")),
    )
    wanted = [claim(request("one"), request("all", allocation_mode="All", selectors=others))]
    decision = allocate(Inventory(cluster({"n": devices})), "n", wanted, policy=Policy.FIRST_FIT)
    assert [key.device for key in decision.devices] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


def test_a_missing_attribute_never_satisfies_match_attribute_not_even_for_one_device() -> None:
    inventory = Inventory(cluster({"n": [device("gpu-0")]}))
    wanted = claim(request(), match="resource.kubernetes.io/numaNode")
    assert allocate(inventory, "n", [wanted]).outcome is Outcome.NO_FIT


def test_distinct_values_are_compared_with_all_devices_chosen_not_only_the_last() -> None:
    values = [1, 2, 1, 3]
    devices = [device(f"gpu-{index}", slot=value) for index, value in enumerate(values)]
    distinct = DeviceConstraint(distinct_attribute="gpu.nvidia.com/slot")
    base = claim(request(count=3))
    spec = msgspec.structs.replace(
        base.spec, devices=msgspec.structs.replace(base.spec.devices, constraints=(distinct,))
    )
    wanted = msgspec.structs.replace(base, spec=spec)
    decision = allocate(Inventory(cluster({"n": devices})), "n", [wanted], policy=Policy.FIRST_FIT)
    assert [key.device for key in decision.devices] == ["gpu-0", "gpu-1", "gpu-3"]


def test_admin_access_takes_a_device_in_use_and_leaves_it_to_others() -> None:
    inventory = Inventory(cluster({"n": [device("gpu-0")]}, busy={"n": ["gpu-0"]}))
    assert allocate(inventory, "n", [claim(request(admin_access=True))]).fits
    assert not allocate(inventory, "n", [claim()]).fits
    off = Features(admin_access=False)
    refused = allocate(inventory, "n", [claim(request(admin_access=True))], features=off)
    assert refused.outcome is Outcome.ERROR and "admin access is requested" in str(refused.error)


def test_more_than_32_devices_are_refused_in_upstreams_words() -> None:
    inventory = Inventory(cluster({"n": [device("gpu-0")]}))
    decision = allocate(inventory, "n", [claim(request(count=33))])
    assert decision.error == (
        "claim default/c, request gpu: adding 33 devices exceeds the claim limit of 32, "
        "with 0 already accounted for"
    )


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 63)), max_size=5))
def test_halls_condition_is_exactly_the_existence_of_a_matching(needs: list[tuple[int, int]]) -> None:
    def assign(rest: list[int], taken: int) -> bool:
        if not rest:
            return True
        return any(
            assign(rest[1:], taken | 1 << bit)
            for bit in range(6)
            if rest[0] >> bit & 1 and not taken >> bit & 1
        )

    singles = [mask for count, mask in needs for _ in range(count)]
    expected = len(singles) <= 6 and assign(singles, 0)
    assert can_match(needs) is expected


@pytest.mark.parametrize(
    ("requested", "expected"), [(None, 10), ("5Gi", 10), ("15Gi", 20), ("20Gi", 20), ("61Gi", None)]
)
def test_a_range_policy_rounds_up_in_steps_and_stops_at_its_maximum(
    requested: str | None, expected: int | None
) -> None:
    policy = CapacityRequestPolicy(
        default="10Gi", valid_range=CapacityRequestPolicyRange(min="10Gi", max="60Gi", step="10Gi")
    )
    wanted = {} if requested is None else {"memory": requested}
    found = amounts({"memory": ("80Gi", policy)}, wanted, exact=False)
    assert found == (None if expected is None else {"memory": Quantity.from_scaled(expected * GIB)})


@settings(max_examples=80)
@given(
    numa=st.lists(st.sampled_from([0, 1, None]), min_size=2, max_size=6),
    busy=st.sets(st.integers(0, 5)),
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    match=st.booleans(),
)
def test_the_first_fit_is_the_first_valid_assignment_in_order(
    numa: list[int | None], busy: set[int], counts: list[int], match: bool
) -> None:
    """Brute force over all ordered assignments, judged by the checker alone."""
    devices = [
        device(f"gpu-{index}") if value is None else device(f"gpu-{index}", numaNode=value)
        for index, value in enumerate(numa)
    ]
    held = [f"gpu-{index}" for index in sorted(busy) if index < len(numa)]
    snapshot = cluster({"n": devices}, busy={"n": held})
    requests = [request(f"r{index}", count) for index, count in enumerate(counts)]
    wanted = claim(*requests, match="resource.kubernetes.io/numaNode" if match else None)
    decision = allocate(Inventory(snapshot), "n", [wanted], policy=Policy.FIRST_FIT)
    free = [index for index in range(len(numa)) if f"gpu-{index}" not in held]
    expected = _first(counts, free, numa if match else None)
    assert decision.fits is (expected is not None)
    if expected is not None:
        assert [key.device for key in decision.devices] == [f"gpu-{index}" for index in expected]
        judged = violations(
            snapshot.slices,
            snapshot.classes,
            Node(metadata=ObjectMeta(name="n")),
            [wanted],
            snapshot.claims,
            decision.allocations,
            selects=lambda expression, item, device: True,
        )
        assert judged == []


def _first(counts: list[int], free: list[int], numa: list[int | None] | None) -> list[int] | None:
    def go(rest: list[int], left: int, start: int, chosen: list[int]) -> list[int] | None:
        if left == 0:
            return chosen if len(rest) == 1 else go(rest[1:], rest[1], 0, chosen)
        for index in free:
            if index < start or index in chosen:
                continue
            if numa is not None and (numa[index] is None or any(numa[c] != numa[index] for c in chosen)):
                continue
            found = go(rest, left - 1, index + 1, [*chosen, index])
            if found is not None:
                return found
        return None

    return go(counts, counts[0], 0, [])


def test_the_checker_sees_a_device_in_use_a_wrong_value_and_a_missing_device() -> None:
    devices = [device(f"gpu-{index}", numaNode=index % 2) for index in range(4)]
    snapshot = cluster({"n": devices})
    wanted = claim(request(count=2), match="resource.kubernetes.io/numaNode")
    decision = allocate(Inventory(snapshot), "n", [wanted])
    node = Node(metadata=ObjectMeta(name="n"))

    def judge(taken: str, *names: str) -> list[str]:
        results = holding("n", *names).status.allocation
        assert results is not None
        mended = msgspec.structs.replace(results, node_selector=decision.allocations[0].node_selector)
        return violations(
            snapshot.slices,
            snapshot.classes,
            node,
            [wanted],
            [holding("n", taken)] if taken else [],
            [mended],
            selects=lambda expression, item, device: True,
        )

    assert judge("", "gpu-0", "gpu-2") == []
    assert any("in use" in text for text in judge("gpu-2", "gpu-0", "gpu-2"))
    assert any("differ" in text for text in judge("", "gpu-0", "gpu-1"))
    assert any("not available" in text for text in judge("", "gpu-0", "gpu-9"))
    assert any("2 asked for" in text for text in judge("", "gpu-0"))
