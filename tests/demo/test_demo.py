"""The main job, end to end, as ``make demo`` runs it, and the cluster it leaves for kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from baro.cli import main
from baro.demo.cluster import DemoCluster, DemoNode
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim, ResourceSlice

KUBECTL = Path(sysconfig.get_path("scripts")) / "kubectl"


def test_the_demo_places_four_gpus_on_one_island_and_names_every_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    for code in (
        "cel-syntax",
        "unknown-attribute",
        "unknown-constraint-attribute",
        "deprecated-api-version",
        "capacity-threshold-unreachable",
    ):
        assert code in out
    rows = {line.split("   ")[0]: line for line in out.splitlines() if "   a   " in line and "GB/s" in line}
    assert "0 1 4 5" in rows["kube-scheduler, first fit"]
    assert "4 5 6 7" in rows["baro"]
    assert "450 GB/s" in rows["baro"]
    assert "Scheduled: Successfully assigned default/llm-tp4 to a" in out
    assert "Placed: 4×H100 on node a: island nvl1, 450 GB/s ring" in out


def test_kubectl_works_on_the_cluster_of_the_demo() -> None:
    nodes = (DemoNode(name="n1", profile="h200-nvl-8", busy=(2, 3)),)
    with DemoCluster(nodes, log=lambda line: None) as cluster:
        environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(cluster.kubeconfig.parent),
        }
        done = subprocess.run(
            [KUBECTL, "get", "nodes,resourceslices,resourceclaims,pods", "-A"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for words in ("node/n1", "gpu.baro.dev", "training-n1", "Running"):
            assert words in done.stdout
        holder = cluster.api.get(ResourceClaim, "tenants", "training-n1")
        assert holder.status.allocation is not None
        assert [r.device for r in holder.status.allocation.devices.results] == ["gpu-2", "gpu-3"]
        assert len(cluster.api.list(ResourceSlice).items) == 1
        assert cluster.api.get(Pod, "tenants", "training-n1").spec.node_name == "n1"


def test_stopping_the_demo_leaves_no_file_and_no_listener() -> None:
    with DemoCluster((DemoNode(name="n1", profile="l40s-4"),), log=lambda line: None) as cluster:
        folder, url = cluster.kubeconfig.parent, cluster.url
    assert not folder.exists()
    script = f"import urllib.request as r; r.urlopen({url!r} + '/readyz', timeout=5)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "Connection refused" in done.stderr
    cluster.stop()
