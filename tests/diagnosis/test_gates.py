"""Feature gates from a component's metrics, whatever pieces the page comes in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.diagnosis.evidence import CaptureKind
from baro.diagnosis.files import read_files
from baro.diagnosis.gates import GateLines, gates_in, server_version, told

PAGE = """# HELP apiserver_request_total [STABLE] Counter of requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",verb="LIST"} 7
# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRAAdminAccess",stage=""} 1
kubernetes_feature_enabled{name="DRADeviceTaintRules",stage="BETA"} 0
kubernetes_feature_enabled{stage="ALPHA",name="DRAListTypeAttributes"} 1
kubernetes_feature_enabled{name="Odd",stage="BETA"} NaN
# HELP process_cpu_seconds_total Total user and system CPU time
process_cpu_seconds_total 17
"""
GATES = {"DRAAdminAccess": True, "DRADeviceTaintRules": False, "DRAListTypeAttributes": True}


def test_the_family_is_found_and_what_is_no_switch_is_left_out() -> None:
    assert gates_in(PAGE) == GATES
    assert gates_in("") == gates_in("up 1\n") == {}


@given(st.lists(st.integers(1, 300), max_size=40))
def test_pieces_of_any_size_give_the_same_and_reading_ends_after_the_family(sizes: list[int]) -> None:
    lines, data, at = GateLines(), PAGE.encode(), 0
    for size in [*sizes, len(data)]:
        piece = data[at : at + size]
        at += size
        if lines.feed(piece):
            break
    assert lines.end() == GATES
    assert lines.done


@given(st.binary(max_size=400))
def test_garbage_gives_nothing_and_never_fails(data: bytes) -> None:
    lines = GateLines()
    lines.feed(data)
    assert all(isinstance(on, bool) for on in lines.end().values())


def test_a_page_without_ends_of_lines_is_not_kept() -> None:
    lines = GateLines()
    for _ in range(64):
        lines.feed(b"x" * 2**16)
    assert lines.end() == {}


@pytest.mark.parametrize(
    ("value", "version"),
    [
        ({"gitVersion": "v1.37.2"}, "v1.37.2"),
        ({"clientVersion": {"gitVersion": "v1.33.0"}, "serverVersion": {"gitVersion": "v1.36.1"}}, "v1.36.1"),
        ({"clientVersion": {"gitVersion": "v1.33.0"}}, ""),
        ({"serverVersion": None}, ""),
        ({"gitVersion": 3}, ""),
        ([], ""),
    ],
)
def test_versions_of_servers(value: object, version: str) -> None:
    assert server_version(value) == version


def test_the_schedulers_page_counts_before_the_api_servers_and_a_kubelets_not_at_all() -> None:
    other = 'kubernetes_feature_enabled{name="DRAAdminAccess",stage=""} 0\n'
    scheduler, kubelet = f"scheduler_pending_pods 0\n{other}", f"kubelet_running_pods 0\n{other}"
    assert told([PAGE, scheduler], []).gates == {"DRAAdminAccess": False}
    assert told([kubelet, PAGE], []).gates == GATES
    assert told([kubelet], []).gates == {}


def test_objects_in_one_line_with_messages_in_them_are_objects_and_no_log(tmp_path: Path) -> None:
    """As a folder of ``baro snapshot`` has them; beside it a log of lines of JSON, a version and metrics."""
    condition = {"type": "PodScheduled", "status": "False", "message": "no"}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{n}"},
            "status": {"conditions": [condition]},
        }
        for n in range(2)
    ]
    (tmp_path / "pod.json").write_text("".join(f"{json.dumps(pod)}\n" for pod in pods))
    listed = {"apiVersion": "v1", "kind": "List", "items": [{**pods[0], "metadata": {"name": "in-a-list"}}]}
    (tmp_path / "dump.json").write_text(f"{json.dumps(listed)}\n")
    logged = {"level": "info", "msg": 'wrote {"apiVersion": "v1", "kind": "Pod"}'}
    (tmp_path / "runtime.log").write_text(f"{json.dumps(logged)}\n")
    (tmp_path / "version.yaml").write_text(
        "clientVersion:\n  gitVersion: v1.33.0\nserverVersion:\n  gitVersion: v1.36.2\n"
    )
    (tmp_path / "metrics.txt").write_text(PAGE)
    found = read_files([tmp_path])
    assert {pod.metadata.name for pod in found.snapshot.pods} == {"p0", "p1", "in-a-list"}
    assert [item.kind for item in found.captures] == [
        CaptureKind.METRICS,
        CaptureKind.LOG,
        CaptureKind.VERSION,
    ]
    assert (found.server_version, found.feature_gates) == ("v1.36.2", GATES)
