"""Leader election: take-over, renewal, release, clocks that disagree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from baro.kube.lease import Elector, LeaseSettings
from baro.model.errors import InputError
from baro.model.kinds.core import Lease
from tests.support.kube import FakeApi, Write

START = datetime(2026, 1, 1, tzinfo=UTC)


class Steady:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def elector(api: FakeApi, clock: Steady, identity: str) -> Elector:
    settings = LeaseSettings(identity=identity)
    return Elector(api, settings, clock=clock, utc=lambda: START + timedelta(seconds=clock.now))


def holder(api: FakeApi) -> Lease:
    return api.get(Lease, "kube-system", "baro-controller")


def test_the_first_takes_the_lease_and_the_second_waits() -> None:
    api, clock = FakeApi(), Steady()
    one, two = elector(api, clock, "one"), elector(api, clock, "two")
    assert one.tick()
    assert not two.tick()
    assert holder(api).spec.holder_identity == "one"


def test_a_holder_that_renews_keeps_the_lease() -> None:
    api, clock = FakeApi(), Steady()
    one, two = elector(api, clock, "one"), elector(api, clock, "two")
    for _ in range(20):
        assert one.tick()
        assert not two.tick()
        clock.now += 2
    assert holder(api).spec.lease_transitions == 0


def test_a_silent_holder_loses_the_lead_before_anybody_else_gets_it() -> None:
    api, clock = FakeApi(), Steady()
    one, two = elector(api, clock, "one"), elector(api, clock, "two")
    one.tick()
    two.tick()
    for _ in range(20):
        clock.now += 1
        leads, takes = one.leads, two.tick()
        assert not (leads and takes)
    assert two.leads
    assert not one.leads
    assert holder(api).spec.lease_transitions == 1


def test_a_released_lease_is_taken_at_once() -> None:
    api, clock = FakeApi(), Steady()
    one, two = elector(api, clock, "one"), elector(api, clock, "two")
    one.tick()
    assert not two.tick()
    one.release()
    assert not one.leads
    assert two.tick()


def test_of_two_that_write_at_once_one_leads() -> None:
    api, clock = FakeApi(), Steady()
    slow = api.other()
    one, two = elector(slow, clock, "one"), elector(api, clock, "two")

    def before(write: Write) -> None:
        slow.before = None
        assert two.tick()

    slow.before = before
    assert not one.tick()
    assert two.leads


def test_a_server_that_is_away_costs_the_lead_only_after_the_deadline() -> None:
    api, clock = FakeApi(), Steady()
    one = elector(api, clock, "one")
    one.tick()
    api.down = True
    clock.now += 5
    assert one.tick()
    clock.now += 6
    assert not one.tick()
    one.release()  # nothing to give back, and nothing raised
    api.down = False
    assert one.tick()


def test_a_renew_deadline_beyond_the_lease_is_refused() -> None:
    with pytest.raises(InputError, match="renew deadline"):
        LeaseSettings(identity="x", renew_deadline_s=20)
