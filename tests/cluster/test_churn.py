"""Thousands of pods while API server, etcd, kube-scheduler and planner are killed with SIGKILL, at any point.

About four minutes. ``BARO_CHURN_PODS``, ``BARO_CHURN_KILLS`` and ``BARO_CHURN_SEED`` make it longer or
another one, such as every night. etcd runs without fsync here, which is no help against it: what a killed
process has written stays in the kernel's memory. A power cut would be another test.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.support.acceptance import world
from tests.support.churn import GATED, PLAIN, Churn, Settings, timed
from tests.support.real_build import PINNED
from tests.support.real_cluster import RealCluster
from tests.support.real_site import RealSite

VICTIMS = ("kube-apiserver", "etcd", "kube-scheduler")
SERVERS = frozenset({"kube-apiserver", "etcd"})
NODES = {GATED: 6, PLAIN: 2}


@pytest.fixture
def own() -> Iterator[RealCluster]:
    """A cluster of its own: what is killed here is nobody else's."""
    if os.environ.get("BARO_TEST_KUBECONFIG"):
        pytest.skip("kills what it starts, and nothing of a cluster of yours")
    with RealCluster(version=os.environ.get("KUBE_VERSION", PINNED)) as cluster:
        cluster.install_baro()
        yield cluster


@pytest.mark.timeout(0)  # every wait in it has a deadline of its own
def test_after_any_kill_no_device_is_held_twice_and_nothing_leaks(
    own: RealCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            sys.stderr.write(f"churn: {line}\n")

    site = RealSite(own)
    site.wait_s = 180.0
    settings = Settings.from_environment(pods=2_000, alive=40, kills=4)
    victims = {name: own.components[name] for name in VICTIMS}
    with own.namespace() as namespace, world(site, namespace) as made:
        for zone, count in NODES.items():
            for index in range(count):
                made.node(f"{zone}-{index}", "hgx-h100-8", zone=zone)
        churn = Churn(made, settings, victims, servers=SERVERS, say=timed(say))
        churn.run()
        made.check()
        made.drain()
        made.check()
        churn.finish()
    site.close()
