"""Gangs: all pods together or none, checked by code of its own and against trying everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from baro.allocator import Outcome, Policy
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import (
    Container,
    Node,
    NodeSpec,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from baro.model.kinds.resource import Device
from baro.placement import place
from baro.placement.gang import GangMember, GangPlacement, Seat, place_gang
from tests.support.cluster import claim, cluster, device, device_class, gpus, node_slice, request

DOMAIN = "gpu.nvidia.com/nvlinkDomain"


def member(size: int, count: int = 1, *, match: str | None = None, name: str = "c") -> GangMember:
    return GangMember(claims=(claim(request(count=size), match=match, name=name),), count=count)


def machine(node: str) -> tuple[Device, ...]:
    return gpus({f"{node}-a": range(4), f"{node}-b": range(4, 8)})


def machines(*names: str, busy: dict[str, list[int]] | None = None, nodes: Iterable[Node] = ()) -> Snapshot:
    held = {name: [f"gpu-{index}" for index in indexes] for name, indexes in (busy or {}).items()}
    return cluster({name: machine(name) for name in names}, busy=held, nodes=nodes)


def labelled(name: str, **labels: str) -> Node:
    meta = ObjectMeta(name=name, labels={key.replace("__", "/"): value for key, value in labels.items()})
    return Node(metadata=meta)


def racks(of: dict[str, str]) -> list[Node]:
    """Nodes by rack, as labels."""
    return [
        Node(metadata=ObjectMeta(name=name, labels={"topology.kubernetes.io/rack": rack}))
        for name, rack in of.items()
    ]


def taken(found: GangPlacement) -> list[tuple[str, str]]:
    """(node, device) of every result."""
    return [
        (seated.node, result.device)
        for seated in found.seated
        for allocation in seated.allocations
        for result in allocation.devices.results
    ]


def held(inventory: Inventory, found: GangPlacement, members: Sequence[GangMember], prefix: str) -> None:
    """Count everything as held, as a planner would after writing."""
    for seated in found.seated:
        for at, allocation in enumerate(seated.allocations):
            wanted = members[seated.seat.member].claims[at]
            name = f"{prefix}-{wanted.metadata.name}-{seated.seat.member}-{seated.seat.replica}"
            inventory.hold_claim(
                msgspec.structs.replace(
                    wanted,
                    metadata=msgspec.structs.replace(wanted.metadata, name=name),
                    status=msgspec.structs.replace(wanted.status, allocation=allocation),
                )
            )


# --- feasibility, by trying everything -------------------------------------------------------------------


def possible(
    devices: dict[str, list[tuple[str, str]]], pods: Sequence[tuple[int, bool]], where: frozenset[str]
) -> bool:
    """Whether all pods fit: (size, one group?) each, over free devices (name, group) of each node."""
    if not pods:
        return True
    (size, grouped), rest = pods[0], pods[1:]
    for node in where:
        for chosen in combinations(devices[node], size):
            if grouped and len({group for _, group in chosen}) > 1:
                continue
            left = {**devices, node: [item for item in devices[node] if item not in chosen]}
            if possible(left, rest, where):
                return True
    return False


@st.composite
def gangs(draw: st.DrawFn) -> tuple[dict[str, list[tuple[str, str]]], dict[str, list[str]], list[GangMember]]:
    """Free devices per node, busy ones, and a gang."""
    free: dict[str, list[tuple[str, str]]] = {}
    busy: dict[str, list[str]] = {}
    for node in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        groups = draw(st.lists(st.sampled_from("xy"), min_size=1, max_size=4))
        free[node] = [(f"d{index}", group) for index, group in enumerate(groups)]
        busy[node] = [f"d{index}" for index in range(len(groups)) if draw(st.integers(0, 4)) == 0]
    sizes = draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=4))
    members = [
        member(size, match=DOMAIN if grouped else None, name=f"c{index}")
        for index, (size, grouped) in enumerate(sizes)
    ]
    return free, busy, members


def of_groups(free: dict[str, list[tuple[str, str]]], busy: dict[str, list[str]]) -> Snapshot:
    return cluster(
        {
            node: [device(name, nvlinkDomain=f"{node}-{group}") for name, group in items]
            for node, items in free.items()
        },
        busy=busy,
    )


@given(gangs(), st.sampled_from(list(Policy)), st.randoms(use_true_random=False))
def test_a_gang_fits_exactly_when_trying_everything_finds_a_way(
    instance: tuple[dict[str, list[tuple[str, str]]], dict[str, list[str]], list[GangMember]],
    policy: Policy,
    random: object,
) -> None:
    free, busy, members = instance
    left = {node: [item for item in items if item[0] not in busy[node]] for node, items in free.items()}
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = place_gang(of_groups(free, busy), shuffled, policy=policy)
    sizes = [_asked(item) for item in members]
    assert found.outcome is (Outcome.FIT if possible(left, sizes, frozenset(left)) else Outcome.NO_FIT)
    if not found.fits:
        assert not found.seated and found.reasons
        return
    assert [seated.seat for seated in found.seated] == [Seat(at, 0) for at in range(len(members))]
    results = taken(found)
    assert len(set(results)) == len(results) == sum(size for size, _ in sizes)
    for seated in found.seated:
        size, grouped = _asked(shuffled[seated.seat.member])
        (allocation,) = seated.allocations
        names = [result.device for result in allocation.devices.results]
        assert {result.pool for result in allocation.devices.results} == {seated.node}
        groups = [dict(left[seated.node])[name] for name in names]  # a KeyError would be a busy device
        assert len(names) == size and (not grouped or len(set(groups)) == 1)


def _asked(item: GangMember) -> tuple[int, bool]:
    (wanted,) = item.claims
    exactly = wanted.spec.devices.requests[0].exactly
    assert exactly is not None
    return exactly.count, bool(wanted.spec.devices.constraints)


# --- the objective ---------------------------------------------------------------------------------------


def test_two_pods_of_four_share_a_node_with_an_island_each() -> None:
    found = place_gang(machines("a", "b", busy={"a": [0, 4]}), [member(4, 2)])
    assert found.nodes == ("b",)
    assert found.reasons[0] == "2 pods on 1 node: 2 on b; 450 GB/s ring in the slowest pod's set"
    assert sorted(taken(found)) == [("b", f"gpu-{index}") for index in range(8)]


def test_bandwidth_goes_before_few_nodes() -> None:
    # Node a has room for both pods, but one of them across its islands.
    snapshot = machines("a", "b", "c", busy={"a": [0], "b": [0, 1, 2, 3], "c": [4, 5, 6, 7]})
    found = place_gang(snapshot, [member(4, 2)])
    assert len(found.nodes) == 2
    assert found.reasons[0].endswith("450 GB/s ring in the slowest pod's set")


def test_the_answer_does_not_depend_on_the_order_of_the_members() -> None:
    snapshot = machines("a", "b", busy={"a": [0]})
    big, small = member(4, 2, name="big"), member(1, 4, name="small")
    first, second = place_gang(snapshot, [big, small]), place_gang(snapshot, [small, big])
    assert first.fits and second.fits
    assert first.nodes == second.nodes
    assert sorted(taken(first)) == sorted(taken(second))


def test_small_pods_fill_what_is_broken_before_they_break_an_island() -> None:
    snapshot = machines("a", "b", "c", busy={"a": [0, 1, 2, 4, 5, 6, 7]})
    found = place_gang(snapshot, [member(8), member(1, name="one")])
    assert [(seated.seat.member, seated.node) for seated in found.seated] == [(0, "b"), (1, "a")]


def nvl72(racks_of: dict[str, str]) -> Snapshot:
    """Trays of four GPUs, each with the clique of its rack."""
    return cluster(
        {
            node: [
                device(f"gpu-{index}", type="gpu", productName="NVIDIA GB200", clique=rack)
                for index in range(4)
            ]
            for node, rack in racks_of.items()
        }
    )


def test_one_nvlink_domain_over_several_nodes_is_kept_together() -> None:
    snapshot = nvl72({"a": "r1", "b": "r2", "c": "r1", "d": "r2", "e": "r2"})
    found = place_gang(snapshot, [member(4, 3)])
    assert found.nodes == ("b", "d", "e")
    assert found.domain == ("NVLink domain", "r2")
    assert "3 pods on 3 nodes in NVLink domain r2" in found.reasons[0]


def test_of_two_domains_the_one_that_is_left_less_empty_is_taken() -> None:
    snapshot = nvl72({"a": "r1", "b": "r1", "c": "r1", "d": "r2", "e": "r2"})
    assert place_gang(snapshot, [member(4, 2)]).nodes == ("d", "e")


def test_a_gang_too_large_for_one_domain_uses_few_of_them() -> None:
    where = {"a": "r1", "b": "r2", "c": "r2", "d": "r3", "e": "r3", "f": "r3"}
    found = place_gang(nvl72(where), [member(4, 5)])
    assert {where[node] for node in found.nodes} == {"r2", "r3"}
    assert found.domain is None


def test_a_domain_that_devices_of_several_nodes_name_counts_as_one() -> None:
    snapshot = cluster(
        {
            node: [device(f"gpu-{index}", type="gpu", nvlinkDomain=domain) for index in range(2)]
            for node, domain in {"a": "x", "b": "y", "c": "y"}.items()
        }
    )
    assert place_gang(snapshot, [member(2, 2)]).nodes == ("b", "c")


def test_racks_come_from_labels_and_a_node_without_one_is_near_to_nobody() -> None:
    nodes = racks({"b": "r1", "d": "r1"})
    found = place_gang(machines("a", "b", "c", "d", nodes=nodes), [member(8, 2)])
    assert found.nodes == ("b", "d")
    assert found.domain == ("topology.kubernetes.io/rack", "r1")


def test_a_label_that_must_be_the_same_keeps_the_gang_from_spreading() -> None:
    nodes = racks({"a": "r1", "b": "r2", "c": "r2"})
    rack = "topology.kubernetes.io/rack"
    snapshot = machines("a", "b", "c", "d", nodes=nodes)
    assert place_gang(snapshot, [member(8, 2)], same=[rack]).nodes == ("b", "c")
    found = place_gang(snapshot, [member(8, 3)], same=[rack])
    assert found.outcome is Outcome.NO_FIT
    assert found.reasons == (
        f"each of 3 pods fits by itself, not all at the same time with one value of {rack}",
    )
    assert place_gang(snapshot, [member(8, 3)]).fits


def test_a_gang_that_grows_stays_near_to_its_pods() -> None:
    snapshot = nvl72({"a": "r1", "b": "r1", "c": "r2", "d": "r2"})
    assert place_gang(snapshot, [member(4)], beside=["c"]).nodes in {("c",), ("d",)}
    assert place_gang(snapshot, [member(4, 3)], beside=["c"]).fits


# --- pods ------------------------------------------------------------------------------------------------


def pod(name: str, cpu: str = "1", **spec: object) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu})
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(containers=(Container(name="c", resources=resources),), **spec),  # type: ignore[arg-type]
    )


def test_each_pod_uses_only_nodes_that_it_may_use() -> None:
    tainted = Node(
        metadata=ObjectMeta(name="a"), spec=NodeSpec(taints=(Taint(key="train", effect="NoSchedule"),))
    )
    snapshot = machines("a", "b", nodes=[tainted])
    tolerant = pod("t", tolerations=(Toleration(key="train", operator="Exists"),))
    wanted = claim(request(count=8), name="t"), claim(request(count=8), name="p")
    members = [
        GangMember(claims=(wanted[0],), pod=tolerant),
        GangMember(claims=(wanted[1],), pod=pod("p")),
    ]
    found = place_gang(snapshot, members)
    assert [seated.node for seated in found.seated] == ["a", "b"]
    both = [msgspec.structs.replace(item, pod=pod("x")) for item in members]
    assert place_gang(snapshot, both).outcome is Outcome.NO_FIT


def test_room_for_the_pods_counts_pod_by_pod() -> None:
    snapshot = machines("a", "b")
    members = [
        GangMember(claims=(claim(request(count=2), name=f"c{index}"),), pod=pod(f"p{index}"))
        for index in range(4)
    ]
    assert place_gang(snapshot, members).nodes == ("a",)
    found = place_gang(snapshot, members, room=lambda node, pods: len(pods) <= (3 if node == "b" else 1))
    assert [seated.node for seated in found.seated].count("b") == 3
    none = place_gang(snapshot, members, room=lambda node, pods: len(pods) <= 1)
    assert none.outcome is Outcome.NO_FIT
    assert none.reasons == ("2 of 4 pods fit at the same time",)


def test_pods_that_share_a_claim_go_to_one_node_and_get_the_same_devices() -> None:
    shared = claim(request(count=2), name="shared")
    members = [
        GangMember(claims=(shared, claim(request(count=3), name=f"own-{index}")), pod=pod(f"p{index}"))
        for index in range(2)
    ]
    found = place_gang(machines("a", "b", busy={"a": [0]}), members)
    assert found.nodes == ("b",)
    first, second = (seated.allocations for seated in found.seated)
    assert first[0] == second[0]
    names = {r.device for seated in found.seated for a in seated.allocations for r in a.devices.results}
    assert len(names) == 8


def test_when_not_all_fit_as_many_as_do_are_placed_if_that_is_enough() -> None:
    snapshot = machines("a", "b")
    assert place_gang(snapshot, [member(8, 4)], at_least=3).outcome is Outcome.NO_FIT
    found = place_gang(snapshot, [member(8, 4)], at_least=2)
    assert found.fits and len(found.seated) == 2
    assert found.left_out == (Seat(0, 2), Seat(0, 3))
    assert found.reasons[1] == "2 pods found no place; 2 have one, and the gang needs 2"


def test_a_pod_that_fits_nowhere_is_named_with_its_reason() -> None:
    found = place_gang(
        machines("a"), [member(4), GangMember(claims=(claim(request(count=9), name="big"),), name="huge")]
    )
    assert found.outcome is Outcome.NO_FIT
    assert found.reasons[0].startswith("huge: ")


def test_an_error_in_a_claim_is_the_answer() -> None:
    found = place_gang(machines("a"), [GangMember(claims=(claim(request(class_name="gone")),), count=2)])
    assert found.outcome is Outcome.ERROR
    assert found.error is not None and "gone" in found.error


def test_a_work_limit_gives_no_false_answer() -> None:
    snapshot = machines("a", "b", "c", busy={"a": [0], "b": [1, 2], "c": [4, 5, 6]})
    found = place_gang(snapshot, [member(4, 2), member(2, 3)], work_limit=3)
    assert found.outcome is Outcome.GAVE_UP
    assert "neither a fit nor its absence" in found.reasons[0]


def test_one_pod_as_a_gang_gets_what_it_gets_alone() -> None:
    snapshot = machines("a", "b", "c", busy={"a": [2, 3], "b": [0], "c": [5]})
    for size in (1, 2, 3, 4, 8):
        wanted = claim(request(count=size))
        alone = place(snapshot, [wanted])
        found = place_gang(snapshot, [GangMember(claims=(wanted,))])
        assert found.fits == alone.fits
        if alone.fits:
            assert found.seated[0].allocations == alone.allocations


# --- devices that several nodes reach --------------------------------------------------------------------


def fabric(devices: int, nodes: Sequence[str] = ("a", "b")) -> Snapshot:
    """Devices on the network that every node reaches."""
    plain = node_slice("fabric", [device(f"port-{index}") for index in range(devices)])
    spec = msgspec.structs.replace(plain.spec, node_name="", all_nodes=True)
    return Snapshot(
        nodes=tuple(Node(metadata=ObjectMeta(name=name)) for name in nodes),
        slices=(msgspec.structs.replace(plain, spec=spec),),
        classes=(device_class(),),
    )


def test_devices_on_the_network_are_never_given_twice() -> None:
    inventory = Inventory(fabric(3))
    room = {"room": lambda node, pods: len(pods) <= 2}
    members = [GangMember(claims=(claim(name=f"c{index}"),), pod=pod(f"p{index}")) for index in range(4)]
    found = place_gang(inventory, members[:3], **room)  # type: ignore[arg-type]
    assert found.fits
    assert len({name for _, name in taken(found)}) == 3
    assert place_gang(inventory, members, **room).outcome is Outcome.NO_FIT  # type: ignore[arg-type]
    assert not inventory.usage.holders


def test_asking_changes_nothing_and_what_was_given_is_gone() -> None:
    inventory = Inventory(machines("a", "b", "c", "d"))
    members = [member(4, 3), member(1, 2, name="small")]
    first = place_gang(inventory, members)
    assert place_gang(inventory, members).seated == first.seated
    held(inventory, first, members, "first")
    second = place_gang(inventory, members)
    assert second.fits and not set(taken(first)) & set(taken(second))
    held(inventory, second, members, "second")
    assert place_gang(inventory, [member(8)]).outcome is Outcome.NO_FIT
    assert not list(inventory.usage.doubly_held())


# --- the objective, by trying everything -----------------------------------------------------------------


def best_of_all(free: dict[str, list[int]], pods: int, size: int) -> tuple[bool, int] | None:
    """(any pod across pairs?, nodes used) of the best way, over all ways; ``None`` when there is none."""
    best: tuple[bool, int] | None = None

    def place_rest(left: dict[str, list[int]], count: int, split: bool, used: frozenset[str]) -> None:
        nonlocal best
        if best is not None and (split, len(used)) >= best:
            return
        if count == 0:
            best = (split, len(used))
            return
        for node, gpus_left in left.items():
            for some in combinations(gpus_left, size):
                rest = {**left, node: [gpu for gpu in gpus_left if gpu not in some]}
                broken = len({gpu // 2 for gpu in some}) > 1
                place_rest(rest, count - 1, split or broken, used | {node})

    place_rest(free, pods, False, frozenset())
    return best


@given(
    st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_no_way_has_faster_pods_or_as_fast_ones_on_fewer_nodes(busy: list[set[int]], count: int) -> None:
    names = "abc"[: len(busy)]
    pairs = {name: gpus({f"{name}-0": (0, 1), f"{name}-1": (2, 3)}) for name in names}
    held_ = {name: [f"gpu-{index}" for index in sorted(used)] for name, used in zip(names, busy, strict=True)}
    free = {name: [i for i in range(4) if i not in used] for name, used in zip(names, busy, strict=True)}
    found = place_gang(cluster(pairs, busy=held_), [member(2, count)])
    truth = best_of_all(free, count, 2)
    if truth is None:
        assert found.outcome is Outcome.NO_FIT
        return
    split = any(
        len({int(r.device[4:]) // 2 for r in seat.allocations[0].devices.results}) > 1
        for seat in found.seated
    )
    assert (split, len(found.nodes)) == truth
