"""The golden kubectl sessions of the embedded server, played on a real API server: the same text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.apiserver import Kubectl
from tests.support.real_build import PINNED
from tests.support.real_cluster import BETA_APIS, RealCluster
from tests.support.transcript import play

GOLDEN = Path(__file__).resolve().parent.parent / "apiserver" / "golden"


@pytest.fixture(scope="module")
def server() -> Iterator[RealCluster]:
    """A bare cluster: the sessions delete namespaces, which controllers empty."""
    if os.environ.get("BARO_TEST_KUBECONFIG") or os.environ.get("KUBE_VERSION", PINNED) != PINNED:
        pytest.skip(f"the sessions are those of Kubernetes {PINNED}, on a server of their own")
    with RealCluster(runtime_config=BETA_APIS) as cluster:
        yield cluster


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.transcript")), ids=lambda file: str(file.stem))
def test_a_session_reads_the_same_on_a_real_server(file: Path, server: RealCluster, tmp_path: Path) -> None:
    kubectl = Kubectl(server.kubeconfig, tmp_path)

    def run(args: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        return kubectl.run(*args, stdin=stdin)

    expected = file.read_text(encoding="utf-8")
    assert play(expected, run) == expected
