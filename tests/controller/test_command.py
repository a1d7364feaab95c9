"""``baro controller`` from the outside: exit codes and what is printed where."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from baro.apiserver import create_app, run_in_thread
from baro.cli import main
from baro.kube.client import KubeClient
from tests.support.controller import Cluster


@pytest.fixture
def url() -> Iterator[str]:
    with run_in_thread(create_app()) as server:
        yield server.url


def test_once_places_what_fits_and_exits_with_0(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KubeClient.connect(url=url) as api:
        cluster = Cluster(api)
        cluster.node("a", 4)
        cluster.claim("c", 2)
        cluster.pod("p", "c")
        assert not main(["controller", "--server", url, "--once", "--policy", "first-fit"])
        assert cluster.devices("c") == ["a/gpu-0", "a/gpu-1"]
        assert not cluster.get_pod("p").spec.scheduling_gates
    out, err = capsys.readouterr()
    assert out == ""  # stdout is for data
    assert "Ungate Pod default/p: done" in err


def test_once_exits_with_1_when_a_pod_still_waits(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KubeClient.connect(url=url) as api:
        cluster = Cluster(api)
        cluster.node("a", 1)
        cluster.claim("c", 2)
        cluster.pod("p", "c")
        assert main(["controller", "--server", url, "--once"]) == 1
        assert len(cluster.events("NoPlacement")) == 1
    assert "kubectl describe pod -n default p" in capsys.readouterr().err


def test_once_keeps_to_its_namespace(url: str) -> None:
    with KubeClient.connect(url=url) as api:
        cluster = Cluster(api)
        cluster.node("a", 4)
        cluster.claim("c", 2)
        cluster.pod("p", "c")
        assert not main(["controller", "--server", url, "--once", "-n", "elsewhere"])
        assert cluster.get_pod("p").spec.scheduling_gates


def test_a_server_that_is_not_there_is_exit_code_3_and_one_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with run_in_thread(create_app()) as server:
        url = server.url
    assert main(["controller", "--server", url, "--once"]) == 3
    err = capsys.readouterr().err
    assert url in err
    assert "Traceback" not in err
