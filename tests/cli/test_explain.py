"""``baro explain`` on files: names, exit codes, formats, and clear errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from baro.cli import main
from tests.support.explain_page import dump

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``baro explain`` on the page's cluster; gives (exit code, stdout, stderr)."""
    file = tmp_path / "pending.yaml"
    file.write_text(dump(), encoding="utf-8")

    def call(*arguments: str, source: str = str(file)) -> tuple[int, str, str]:
        code = main(["explain", *arguments, "--from", source])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize("name", ["tp4", "pod/tp4", "default/tp4", "pod/default/tp4", "claim/tp4"])
def test_a_pod_is_named_in_any_of_the_ways(run: Run, name: str) -> None:
    code, out, _ = run(name)
    assert code == 1
    assert "largest group has 3" in " ".join(out.split())


def test_placed_is_success(run: Run) -> None:
    code, out, err = run("llm", "claim/train-a")
    assert (code, err) == (0, "")
    assert out.startswith("pod default/llm: 4×H100 on node h100-1: island island-0, 450 GB/s ring")


def test_the_document_of_a_placed_pod_compares_the_policies(run: Run) -> None:
    _, out, _ = run("llm", "-o", "json")
    held = json.loads(out)["holdings"][0]
    assert (held["gbps"], held["slowestHop"]) == (450, "NV6")
    assert held["topology"]["devices"] == held["devices"] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert held["firstFit"] == {"devices": held["devices"], "gbps": 450}


def test_without_a_name_all_pending_pods_are_explained(run: Run) -> None:
    code, out, _ = run("-o", "json")
    report = json.loads(out)
    assert code == 1
    assert report["kind"] == "ExplanationList"
    assert [item["subject"]["name"] for item in report["items"]] == [
        "gated", "infer-2", "notebook", "old-style", "tp4", "typo",
    ]  # fmt: skip


def test_replicas_of_one_workload_are_explained_together(run: Run, tmp_path: Path) -> None:
    """Three more pods like ``tp4``, each with a claim of its own, and one that asks for less."""
    more = []
    for name, count in (("tp4-b", 4), ("tp4-c", 4), ("tp4-d", 4), ("tp2", 9)):
        claim, pod = (
            next(
                body
                for body in yaml.safe_load_all(dump())
                if (body["kind"], body["metadata"]["name"]) == (kind, "tp4")
            )
            for kind in ("ResourceClaim", "Pod")
        )
        claim["metadata"]["name"] = pod["metadata"]["name"] = name
        claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = count
        pod["spec"]["resourceClaims"] = [{"name": "tp4", "resourceClaimName": name}]
        more += [claim, pod]
    file = tmp_path / "more.yaml"
    file.write_text(dump() + "---\n" + yaml.safe_dump_all(more), encoding="utf-8")
    _, out, _ = run(source=str(file))
    assert "pod default/tp4 and 3 like it (default/tp4-b, default/tp4-c, default/tp4-d): pending:" in out
    assert "pod default/tp2: pending:" in out
    _, out, _ = run("-o", "json", source=str(file))
    items = {item["subject"]["name"]: item for item in json.loads(out)["items"]}
    assert items["tp4"]["alike"] == ["default/tp4-b", "default/tp4-c", "default/tp4-d"]
    assert "tp4-b" not in items and items["tp2"]["alike"] == []


def test_json_and_yaml_have_the_whole_document(run: Run) -> None:
    _, out, _ = run("tp4", "-o", "json")
    report = json.loads(out)
    assert (report["apiVersion"], report["kind"]) == ("baro.dev/v1alpha1", "Explanation")
    assert (report["verdict"], report["step"]) == ("pending", "constraint")
    assert report["causes"][0]["code"] == "pending-constraint"
    assert report["causes"][0]["severity"] == "warning"
    stages = report["nodes"][0]["requests"][0]["stages"]
    assert [(stage["label"], stage["after"]) for stage in stages] == [
        ("published", 8), ("class", 8), ("free", 5), ("untainted", 5), ("constraint 1", 3),
    ]  # fmt: skip
    assert report["nearMisses"][0]["changes"] == [
        {"kind": "release", "claim": "default/train-a", "request": "", "index": -1, "key": "", "value": None}
    ]
    assert report["scheduler"]["agrees"] is True
    _, text, _ = run("tp4", "-o", "yaml")
    assert yaml.safe_load(text) == report


def test_wide_has_a_row_for_each_node(run: Run) -> None:
    _, out, _ = run("notebook", "-o", "wide")
    assert "(+1)" not in out
    assert all(f"  {name} " in out for name in ("h100-1", "h200-1", "h200-2"))


def test_one_node_can_be_looked_at(run: Run) -> None:
    code, out, _ = run("tp4", "--node", "h100-1")
    assert code == 1
    assert "3 free, 4 needed" in out and "h200-1" not in out


def test_gates_that_are_off_count(run: Run) -> None:
    code, out, _ = run("tp4", "--kube-version", "1.34")
    assert code == 1 and "largest group" in out
    assert run("tp4", "--kube-version", "1.2")[0] == 2


@pytest.mark.parametrize(
    ("name", "said", "step"),
    [
        ("tp5", "there is no pod or claim tp5", "nearest: pod/default/tp4"),
        ("other/tp4", "there is no pod or claim tp4 in namespace other", "tp4"),
        ("claim/lmm", "there is no claim lmm", "claim/default/llm"),
        ("deploy/web", "pods and claims are explained", "name one of its pods"),
        ("a/b/c/d", "is no name", "pod/NAME"),
        ("", "is no name", "pod/NAME"),
    ],
)
def test_a_name_that_is_not_there_is_an_error_with_the_nearest(
    run: Run, name: str, said: str, step: str
) -> None:
    code, out, err = run(name)
    assert (code, out) == (3, "")
    assert said in err and step in err


def test_an_unknown_node_is_an_error(run: Run) -> None:
    code, _, err = run("tp4", "--node", "h300-1")
    assert code == 3
    assert "there is no node h300-1" in err and "h200-1" in err


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x01\x02", b"{", b"[1, 2", b"a: [", b"kind: Pod\n", b"\xff\xfe", b"&a [*a]", b"- - - -\n"],
)
def test_garbage_is_an_error_and_no_traceback(run: Run, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad"
    file.write_bytes(content)
    code, out, err = run("x", source=str(file))
    assert (code, out) == (3, "")
    assert err.startswith("error: ")


def test_objects_that_no_server_would_accept_do_not_break_an_answer(run: Run, tmp_path: Path) -> None:
    """Quantities, selectors, owners and amounts of the wrong kind; the pod is explained as far as it goes."""
    odd = dump().replace("cpu: '64'", "cpu: lots")
    odd = odd.replace("memory: {value: 143771Mi}", "memory: {value: much}")
    odd = odd.replace("device.driver == 'gpu.nvidia.com'", "device.driver ==")
    file = tmp_path / "odd.yaml"
    file.write_text(odd, encoding="utf-8")
    for name in ("tp4", "notebook", "typo", "gated", "old-style", "llm", "claim/tp4"):
        code, out, err = run(name, source=str(file))
        assert code in (0, 1, 3), (name, err)
        assert "Traceback" not in err
        assert out or err
