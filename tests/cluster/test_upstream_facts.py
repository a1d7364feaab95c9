"""What the real kube-scheduler and API server do, without baro, where the planner's rules build on it.

When one of these fails with a newer Kubernetes, a rule of ``docs/planner.md`` has lost its reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from baro.kube.api import guard
from baro.kube.errors import ConflictError, InvalidError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from tests.support.acceptance import World
from tests.support.acceptance_objects import SHARED
from tests.support.acceptance_picture import Picture, devices
from tests.support.real_access import Cluster
from tests.support.real_site import RealSite


@pytest.fixture
def alone(own_cluster: Cluster, namespace: str) -> Iterator[World]:
    """A world in which no planner ever runs."""
    site = RealSite(own_cluster)
    made = World(site, namespace)
    yield made
    made.close()
    site.close()


def holders(seen: Picture, device: str) -> list[str]:
    return sorted(c.metadata.name for c in seen.all(ResourceClaim) if device in devices(c))


@pytest.mark.parametrize("released", [False, True])
def test_kube_scheduler_gives_a_device_to_two_pods_once_a_second_holder_gave_it_back(
    alone: World, released: bool
) -> None:
    """It keeps allocated devices as a plain set: the first of two holders that goes takes the device out."""
    alone.node("a")
    alone.occupy("a", [0])
    alone.claim("second", cls=SHARED)
    alone.allocate("second", "a", [0], alone.pod("holder", claims=["second"]))
    if released:
        alone.clear_allocation("second")
    alone.template("one", cls=SHARED)
    names = [f"p{i}" for i in range(4)]  # and three GPUs that nobody holds
    for name in names:
        alone.pod(name, templates=["one"], gated=False)
    if released:
        alone.until_bound(*names)
        alone.wait(
            lambda seen: len(holders(seen, f"{alone.name('a')}/gpu-0")) == 2, "gpu-0 belongs to two pods"
        )
        return
    alone.until_count_bound(4)  # the tenant's and three
    alone.wait(
        lambda seen: any(
            "cannot allocate all claims" in condition.message
            for pod in seen.all(Pod)
            for condition in pod.status.conditions
        ),
        "one is told that there is no device",
    )


def nominate(world: World, pod: Pod, node: str) -> Pod:
    body = {"metadata": guard(pod), "status": {"nominatedNodeName": node}}
    return world.api.patch_merge(Pod, world.ns, pod.metadata.name, body, "status")


def test_a_nomination_is_refused_for_a_bound_pod_and_overtaken_when_its_version_is_old(alone: World) -> None:
    """The version is compared before anything is judged: with it baro is never told that a pod is bound."""
    alone.node("a")
    gated = alone.pod("p")
    nominated = nominate(alone, gated, alone.name("a"))
    assert nominated.status.nominated_node_name == alone.name("a")
    with pytest.raises(InvalidError, match=r"status\.nominatedNodeName"):
        nominate(alone, nominated, "no node's name!")
    with pytest.raises(ConflictError):
        nominate(alone, gated, "no node's name!")
    bound = alone.pod("q", node="a")
    alone.wait(
        lambda seen: (pod := seen.find(Pod, "q")) is not None and pod.status.phase == "Running", "q runs"
    )
    with pytest.raises(ConflictError):
        nominate(alone, bound, alone.name("a"))
    answers: list[Exception | Pod] = []
    while not answers:
        try:
            answers.append(nominate(alone, alone.api.get(Pod, alone.ns, "q"), alone.name("a")))
        except ConflictError:
            continue  # kwok writes as well
        except InvalidError as error:
            answers.append(error)
    if isinstance(answers[0], Exception):  # as from 1.35 on
        assert "may not be set on pods that are already bound to a node" in str(answers[0])
