"""Starting, failing, being killed: whatever happens to the supervisor, no program of it stays.

Clusters here are etcd and the API server only, which start in a few seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_access import REPOSITORY, eventually
from tests.support.real_build import PINNED
from tests.support.real_cluster import RealCluster
from tests.support.real_process import ComponentError

VERSION = os.environ.get("KUBE_VERSION", PINNED)
CHILD = """
import json, signal, sys, time
from tests.support.real_cluster import RealCluster

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
with RealCluster(version=sys.argv[1], controllers=False) as cluster:
    pids = [component.pid for component in cluster.components.values()]
    print(json.dumps({"pids": pids, "folder": str(cluster.folder)}), flush=True)
    time.sleep(120)
"""


@pytest.fixture(autouse=True)
def only_here() -> None:
    if os.environ.get("BARO_TEST_KUBECONFIG"):
        pytest.skip("nothing is started when BARO_TEST_KUBECONFIG names a cluster")


@pytest.fixture
def small() -> Iterator[RealCluster]:
    """etcd and the API server."""
    with RealCluster(version=VERSION, controllers=False) as cluster:
        yield cluster


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_a_supervisor_that_is_told_to_end(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, VERSION], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stderr is not None
        told = json.loads(supervisor.stdout.readline() or b"{}")
        assert len(told["pids"]) == 2
        supervisor.send_signal(number)
        supervisor.communicate(timeout=30)
    eventually(lambda: not any(map(alive, told["pids"])), "all programs ended")
    if number is signal.SIGINT:
        assert not Path(told["folder"]).exists()


def test_a_server_that_cannot_start_is_named_with_the_end_of_its_log() -> None:
    cluster = RealCluster(version=VERSION, controllers=False, feature_gates={"NoSuchGate": True})
    with pytest.raises(ComponentError) as caught, cluster:
        pass
    message = str(caught.value)
    assert message.startswith("kube-apiserver ended with exit code 1\nthe end of ")
    assert "unrecognized feature gate: NoSuchGate" in message
    assert not cluster.components
    assert (cluster.folder / "kube-apiserver.log").exists(), "the log that the message names stays"
    cluster.stop()
    assert not cluster.folder.exists()


@pytest.mark.parametrize("victim", ["kube-apiserver", "etcd"])
def test_what_was_stored_survives_kill_9(small: RealCluster, victim: str) -> None:
    small.kubectl("create", "configmap", "kept", "--from-literal=a=1", "-n", "default")
    small.components[victim].kill()
    assert not small.components[victim].running
    small.components[victim].start()
    small.components[victim].wait_ready(30)
    small.components["kube-apiserver"].wait_ready(30)
    assert small.get("configmap", "kept", "-n", "default")["data"] == {"a": "1"}


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
