"""Machines as the agent publishes them: slices and graph from a profile, then a placement."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from baro.agent.slices import desired_slices, node_topology
from baro.inventory import Snapshot
from baro.model.kinds.resource import ResourceClaim
from baro.placement import Placement, first_fit, place
from baro.topology.bandwidth import Predictor
from baro.topology.profiles import load_profile, profile_names
from tests.support.cluster import claim, device_class, holding, request

DRIVER = "gpu.baro.dev"


def _cluster(machines: Mapping[str, str], busy: Mapping[str, list[int]], *, graphs: bool) -> Snapshot:
    """Nodes by profile, with some GPUs in use, with or without ``NodeTopology`` objects."""
    shown = {node: load_profile(profile).machine() for node, profile in machines.items()}
    return Snapshot(
        slices=tuple(item for node, machine in shown.items() for item in desired_slices(machine, node=node)),
        node_topologies=tuple(node_topology(machine, node) for node, machine in shown.items())
        if graphs
        else (),
        claims=tuple(
            holding(node, *(f"gpu-{index}" for index in used), name=f"held-{node}", driver=DRIVER)
            for node, used in busy.items()
        ),
        classes=(device_class(DRIVER, "device.attributes['gpu.baro.dev'].type == 'gpu'"),),
    )


def _wanted(count: int) -> list[ResourceClaim]:
    return [claim(request(count=count, class_name=DRIVER))]


def _indexes(found: Placement) -> list[int]:
    return sorted(int(r.device[4:]) for a in found.allocations for r in a.devices.results)


@pytest.mark.parametrize("graphs", [True, False])
def test_four_gpus_land_on_the_one_whole_island_of_the_cluster(graphs: bool) -> None:
    machines = {"a": "h200-nvl-8", "b": "h200-nvl-8-interleaved", "c": "l40s-8-switches", "d": "hgx-a100-2x4"}
    busy = {"a": [2, 3], "b": [2, 3], "c": [2, 3], "d": [2, 3, 6]}
    snapshot = _cluster(machines, busy, graphs=graphs)
    found = place(snapshot, _wanted(4))
    assert (found.node, _indexes(found)) == ("a", [4, 5, 6, 7])
    assert found.reasons == (
        "4×H200 on node a: island nvl1, 450 GB/s ring; 3 other nodes had 4 free GPUs but no island",
    )
    for there in first_fit(snapshot, _wanted(4), nodes="abcd"):
        assert [key.device for key in there.decision.devices] == ["gpu-0", "gpu-1", "gpu-4", "gpu-5"]
        assert there.gbps is not None and there.gbps < 40


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("profile", profile_names())
def test_no_set_of_a_known_machine_is_faster_than_the_chosen_one(
    profile: str, count: int, graphs: bool
) -> None:
    machine = load_profile(profile).machine()
    found = place(_cluster({"n": profile}, {}, graphs=graphs), _wanted(count))
    predictor = Predictor(machine)
    (best,) = predictor.best_sets([gpu.index for gpu in machine.gpus], count)
    chosen = predictor.predict(_indexes(found))
    assert chosen.score >= 0.93 * best.score
    if graphs and found.score is not None:
        assert found.score.gbps == chosen.gbps


def test_attributes_alone_promise_no_gbps_for_a_cube_mesh() -> None:
    found = place(_cluster({"n": "dgx-1v"}, {}, graphs=False), _wanted(4))
    assert _indexes(found) == [0, 1, 2, 3]
    assert found.reasons == ("4×V100 on node n: island nvl0",)
