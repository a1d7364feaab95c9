"""Fixtures of the tests against a real control plane; ``BARO_CLUSTER=1`` or ``make test-cluster`` runs them.

One cluster for the whole run. ``BARO_TEST_KUBECONFIG`` names an existing one instead; tests that add nodes
are skipped there unless ``BARO_TEST_NODES=1`` says that kwok manages nodes, ``deploy/`` is applied and no
planner runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from baro.kube.client import KubeClient
from tests.support.real_access import Cluster, ExternalCluster
from tests.support.real_build import PINNED, build
from tests.support.real_cluster import RealCluster

collect_ignore_glob = [] if os.environ.get("BARO_CLUSTER") else ["test_*.py"]
"""``make test`` leaves this folder alone."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Builds what is missing before the first test: it takes minutes, and no test may take that long."""
    here = Path(__file__).parent
    wanted = any(here in item.path.parents for item in items)
    if not wanted or config.option.collectonly or os.environ.get("BARO_TEST_KUBECONFIG"):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        build(os.environ.get("KUBE_VERSION", PINNED))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with baro's classes, CRD and permissions, as ``kubectl apply -f deploy/`` gives it."""
    external = os.environ.get("BARO_TEST_KUBECONFIG")
    if external:
        existing = ExternalCluster(Path(external), tmp_path_factory.mktemp("external"))
        existing.owns_nodes = os.environ.get("BARO_TEST_NODES") == "1"
        yield existing
        return
    with RealCluster(version=os.environ.get("KUBE_VERSION", PINNED)) as own:
        own.install_baro()
        yield own


@pytest.fixture
def own_cluster(cluster: Cluster) -> Cluster:
    """A cluster to which tests may add nodes, which kwok keeps Ready; skips on others."""
    if not cluster.owns_nodes:
        pytest.skip("adds nodes: set BARO_TEST_NODES=1 if the cluster of BARO_TEST_KUBECONFIG has kwok")
    return cluster


@pytest.fixture
def started_cluster(cluster: Cluster) -> RealCluster:
    """The control plane that this run started, with its programs; skips on somebody else's."""
    if not isinstance(cluster, RealCluster):
        pytest.skip("is about the control plane that the tests start themselves")
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """An empty namespace, deleted afterwards."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def api(cluster: Cluster) -> Iterator[KubeClient]:
    """baro's own client, as administrator."""
    with KubeClient.connect(kubeconfig_path=str(cluster.kubeconfig)) as client:
        yield client
