"""The planner's picture of the cluster: news, old news, and what is ahead of the news."""

from __future__ import annotations

from baro.controller.view import View
from baro.inventory.usage import DeviceKey
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests.support.controller import Cluster, other_writer_allocates


def cluster() -> Cluster:
    made = Cluster()
    made.node("a", 2)
    made.claim("c")
    made.pod("p", "c")
    return made


def loaded(made: Cluster) -> View:
    view = View()
    view.load(made.api)
    return view


def test_an_answer_of_the_server_is_pending_until_the_watch_shows_it() -> None:
    made = cluster()
    view = loaded(made)
    old = made.get_claim("c")
    new = made.api.patch_merge(ResourceClaim, "default", "c", {"metadata": {"labels": {"x": "y"}}})
    view.ahead(new)
    view.observed(old)  # an older event that was still on its way
    assert view.find(ResourceClaim, "default", "c") == new
    assert ("default", "c") in view.pending
    view.observed(new)
    assert not view.pending


def test_an_answer_that_the_watch_has_overtaken_is_not_pending() -> None:
    made = cluster()
    view = loaded(made)
    first = made.api.patch_merge(ResourceClaim, "default", "c", {"metadata": {"labels": {"x": "1"}}})
    second = made.api.patch_merge(ResourceClaim, "default", "c", {"metadata": {"labels": {"x": "2"}}})
    view.observed(second)
    view.ahead(first)
    assert view.find(ResourceClaim, "default", "c") == second
    assert not view.pending


def test_a_new_object_of_the_same_name_replaces_the_old_whatever_its_version() -> None:
    made = cluster()
    view = loaded(made)
    old = made.get_pod("p")
    made.api.delete(Pod, "default", "p")
    new = made.pod("p", "c")
    view.observed(new)
    view.deleted(old)  # the deletion of the earlier one, told late
    assert view.find(Pod, "default", "p") == new


def test_a_new_list_makes_what_is_not_in_it_disappear_everywhere() -> None:
    made = cluster()
    other_writer_allocates(made, "c", "a/gpu-0")
    view = loaded(made)
    device = DeviceKey("gpu.baro.dev", "a", "gpu-0")
    assert device in view.inventory.usage.holders
    for kind in (ResourceClaim, ResourceSlice, Node, DeviceClass, Pod):
        view.swap(kind, [])
        assert not view.all(kind)
    assert device not in view.inventory.usage.holders
    assert view.inventory.row(device) is None
    assert not view.inventory.nodes
    assert not view.inventory.classes


def test_heartbeats_are_no_reason_to_try_again_and_released_devices_are() -> None:
    made = cluster()
    other_writer_allocates(made, "c", "a/gpu-0")
    view = loaded(made)
    before = view.generation
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    view.observed(made.api.patch_merge(Node, "", "a", {"status": {"conditions": [beat]}}, "status"))
    before, again = view.generation, before
    assert before == again + 1  # it became Ready
    beat["lastHeartbeatTime"] = "2026-01-01T00:00:10Z"
    view.observed(made.api.patch_merge(Node, "", "a", {"status": {"conditions": [beat]}}, "status"))
    assert view.generation == before
    made.post_filter("c")
    view.observed(made.get_claim("c"))
    assert view.generation == before + 1
