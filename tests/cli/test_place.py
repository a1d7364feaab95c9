"""``baro place`` on files: the set chosen, the JSON contract, exit codes, and clear errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from baro.cli import main
from tests.support import cluster_files as dump

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs baro; gives (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def devices(report: dict[str, Any]) -> list[str]:
    return [
        result["device"] for claim in report["claims"] for result in claim["allocation"]["devices"]["results"]
    ]


POD_WITHOUT_CLAIM = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"resourceClaims": [{"name": "x", "resourceClaimName": "gone"}]},
}
MISSION = [*dump.cluster({"node-a": "h200-nvl-8"}), dump.busy("node-a", [2, 3])]


def test_four_gpus_go_to_one_island_where_first_fit_would_split_them(tmp_path: Path, run: Run) -> None:
    file = dump.write(tmp_path / "c.yaml", [*MISSION, dump.claim("tp4", 4)])
    code, out, _ = run("place", "-f", file, "-o", "json")
    report = json.loads(out)
    assert code == 0
    assert (report["apiVersion"], report["kind"]) == ("baro.dev/v1alpha1", "PlacementReport")
    assert (report["fits"], report["node"]) == (True, "node-a")
    assert devices(report) == ["gpu-4", "gpu-5", "gpu-6", "gpu-7"]
    assert report["score"]["gbps"] == 450

    code, out, _ = run("place", "-f", file, "-o", "json", "--policy", "first-fit")
    assert code == 0
    assert devices(json.loads(out)) == ["gpu-0", "gpu-1", "gpu-4", "gpu-5"]


def test_the_graph_of_a_node_may_be_missing(tmp_path: Path, run: Run) -> None:
    bodies = [*dump.cluster({"node-a": "h200-nvl-8"}, graphs=False), dump.busy("node-a", [2, 3])]
    file = dump.write(tmp_path / "c.yaml", [*bodies, dump.claim("tp4", 4)])
    _, out, _ = run("place", "-f", file, "-o", "json")
    assert devices(json.loads(out)) == ["gpu-4", "gpu-5", "gpu-6", "gpu-7"]


def test_a_hard_wish_that_no_island_can_meet_fits_nowhere_and_says_why(tmp_path: Path, run: Run) -> None:
    bodies = [*dump.cluster({"node-a": "h200-nvl-8"}), dump.busy("node-a", [2, 3, 7])]
    file = dump.write(tmp_path / "c.yaml", [*bodies, dump.claim("tp4", 4, topology="required")])
    code, out, _ = run("place", "-f", file)
    assert code == 1
    assert "5 free GPUs" in out
    assert "largest" in out
    assert "3" in out


def test_the_report_has_an_allocation_that_the_api_takes(tmp_path: Path, run: Run) -> None:
    file = dump.write(tmp_path / "c.yaml", [*MISSION, dump.claim("one")])
    _, out, _ = run("place", "-f", file, "-o", "yaml")
    report = yaml.safe_load(out)
    (claim,) = report["claims"]
    assert (claim["namespace"], claim["name"]) == ("default", "one")
    allocation = claim["allocation"]
    (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]
    assert set(allocation["devices"]["results"][0]) == {"request", "driver", "pool", "device"}


def test_what_one_claim_takes_is_in_use_for_the_next(tmp_path: Path, run: Run) -> None:
    file = dump.write(tmp_path / "c.yaml", [*MISSION, dump.claim("a", 4), dump.claim("b", 2)])
    _, out, _ = run("place", "-f", file, "-o", "json")
    reports = json.loads(out)
    assert reports["kind"] == "PlacementReportList"
    first, second = reports["items"]
    assert not set(devices(first)) & set(devices(second))
    assert devices(second) == ["gpu-0", "gpu-1"]


def test_claims_of_one_pod_are_placed_on_one_node(tmp_path: Path, run: Run) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {"spec": dump.claim("x", 2)["spec"]},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c"}],
            "resourceClaims": [
                {"name": "left", "resourceClaimTemplateName": "two"},
                {"name": "right", "resourceClaimName": "other"},
            ],
        },
    }
    bodies = dump.cluster({"node-a": "h100-nvl-8-pairs", "node-b": "h100-nvl-8-pairs"})
    bodies += [dump.busy("node-a", [0, 1, 2, 4, 6]), template, pod, dump.claim("other", 2)]
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", bodies), "-o", "json")
    report = json.loads(out)
    assert (code, report["node"]) == (0, "node-b")
    assert [claim["name"] for claim in report["claims"]] == ["p-left", "other"]
    assert len(set(devices(report))) == 4


def test_together_places_all_claims_on_one_node(tmp_path: Path, run: Run) -> None:
    bodies = dump.cluster({"node-a": "hgx-h100-4", "node-b": "h200-nvl-8"})
    file = dump.write(tmp_path / "c.yaml", [*bodies, dump.claim("a", 4), dump.claim("b", 4)])
    _, out, _ = run("place", "-f", file, "--together", "-o", "json")
    report = json.loads(out)
    assert report["node"] == "node-b"
    assert len(report["claims"]) == 2


def test_a_node_that_is_named_is_the_only_one_considered(tmp_path: Path, run: Run) -> None:
    bodies = dump.cluster({"fast": "hgx-h100-8", "slow": "l40s-4"})
    file = dump.write(tmp_path / "c.yaml", [*bodies, dump.claim("a", 2)])
    assert json.loads(run("place", "-f", file, "-o", "json")[1])["node"] == "fast"
    assert json.loads(run("place", "-f", file, "-o", "json", "--node", "slow")[1])["node"] == "slow"


def test_the_wide_table_has_a_line_for_every_node(tmp_path: Path, run: Run) -> None:
    bodies = dump.cluster({"node-a": "h200-nvl-8", "node-b": "h100-nvl-8-pairs"})
    code, out, _ = run(
        "place", "-f", dump.write(tmp_path / "c.yaml", [*bodies, dump.claim("a", 4)]), "-o", "wide"
    )
    assert code == 0
    assert "node-a" in out
    assert "node-b" in out
    assert "450" in out


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        ([dump.claim("a")], "no ResourceSlice"),
        (MISSION, "no unallocated claim"),
        (
            [
                *MISSION,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "p"},
                    "spec": {"resourceClaims": [{"name": "x", "resourceClaimName": "gone"}]},
                },
            ],
            "default/gone is not in the files",
        ),
    ],
)
def test_files_that_give_no_question_get_one_clear_error(
    tmp_path: Path, run: Run, bodies: list[dict[str, Any]], words: str
) -> None:
    code, out, err = run("place", "-f", dump.write(tmp_path / "c.yaml", bodies))
    assert (code, out) == (3, "")
    assert words in err
    assert err.count("error:") == 1
    assert "next:" in err


def test_a_node_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path: Path, run: Run) -> None:
    file = dump.write(tmp_path / "c.yaml", [*MISSION, dump.claim("a")])
    code, _, err = run("place", "-f", file, "--node", "nowhere")
    assert code == 3
    assert "node-a" in err


def test_a_class_that_is_missing_is_said_in_upstreams_words(tmp_path: Path, run: Run) -> None:
    file = dump.write(tmp_path / "c.yaml", [*MISSION, dump.claim("a", class_name="gone")])
    code, _, err = run("place", "-f", file)
    assert code == 1
    assert "could not retrieve device class gone" in err


RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "drain"},
    "spec": {
        "deviceSelector": {"pool": "node-a"},
        "taint": {"key": "drain", "effect": "NoSchedule"},
    },
}


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ((), "no-fit"),
        (("--kube-version", "1.38"), "no-fit"),
        (("--kube-version", "1.36"), "fits"),
        (("--kube-version", "1.36", "--feature-gates", "DRADeviceTaintRules=true"), "no-fit"),
        (("--kube-version", "1.34", "--feature-gates", "DRADeviceTaints=true"), "no-fit"),
        (("--feature-gates", "DRADeviceTaints=false"), "fits"),
        (("--feature-gates", "DRADeviceTaintRules=False,DRAAdminAccess=true"), "fits"),
        (("--feature-gates", "DRADeviceTaints=false", "--feature-gates", "DRADeviceTaints=true"), "no-fit"),
    ],
)
def test_version_and_gates_decide_whether_taint_rules_count(
    tmp_path: Path, run: Run, options: tuple[str, ...], outcome: str
) -> None:
    file = dump.write(tmp_path / "c.yaml", [*MISSION, RULE, dump.claim("one")])
    code, out, _ = run("place", "-f", file, "-o", "json", *options)
    report = json.loads(out)
    assert (report["outcome"], report["fits"]) == (outcome, outcome == "fits")
    assert code == (0 if outcome == "fits" else 1)
    assert report["error"] is None


METRICS = """# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRADeviceTaintRules",stage="BETA"} %d
kubernetes_feature_enabled{name="NobodyKnowsThis",stage="ALPHA"} 1
"""


@pytest.mark.parametrize("command", ["place", "explain"])
@pytest.mark.parametrize(
    ("version", "gate", "options", "fits"),
    [
        (None, None, (), False),
        ("v1.37.2", None, (), False),
        ("v1.36.4-gke.1", None, (), True),
        ("v1.36.4", 1, (), False),
        ("v1.37.2", 0, (), True),
        (None, 0, (), True),
        ("v1.37.2", 0, ("--feature-gates", "DRADeviceTaintRules=true"), False),
        ("v1.37.2", 0, ("--kube-version", "1.37"), False),
        ("v1.36.4", None, ("--kube-version", "1.37"), False),
        ("v1.99.0", None, (), False),
        ("nightly", None, (), False),
    ],
)
def test_the_clusters_version_and_gates_are_taken_from_what_lies_beside_the_dump(
    tmp_path: Path,
    run: Run,
    command: str,
    version: str | None,
    gate: int | None,
    options: tuple[str, ...],
    fits: bool,
) -> None:
    """Rules that taint devices are on in 1.37 and off in 1.36. The command line counts before all."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "one", "resourceClaimName": "one"}],
        },
    }
    paths = [dump.write(tmp_path / "c.yaml", [*MISSION, RULE, dump.claim("one"), pod])]
    if version is not None:
        (tmp_path / "version.json").write_text(json.dumps({"serverVersion": {"gitVersion": version}}))
        paths.append(str(tmp_path / "version.json"))
    if gate is not None:
        (tmp_path / "metrics.txt").write_text(METRICS % gate)
        paths.append(str(tmp_path / "metrics.txt"))
    given = [word for path in paths for word in ("--from", path)]
    code, out, err = run(command, *given, *options)
    assert code == (0 if fits else 1), out + err
    differs = gate is not None and "--kube-version" not in options
    assert ("differ from the defaults" in err) == differs, err


def test_a_gate_that_no_version_has_is_said_before_anything_is_read(run: Run) -> None:
    for command in ("place", "explain"):
        code, _, err = run(command, "--from", "nowhere.yaml", "--feature-gates", "DRANothing=true")
        assert code == 2
        assert "DRANothing" in err


def test_a_prioritized_list_without_its_gate_is_an_error_in_upstreams_words(tmp_path: Path, run: Run) -> None:
    wanted = dump.claim("one")
    alternative = {"name": "any", "deviceClassName": "gpu.nvidia.com"}
    wanted["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": [alternative]}]
    file = dump.write(tmp_path / "c.yaml", [*MISSION, wanted])
    assert json.loads(run("place", "-f", file, "-o", "json")[1])["outcome"] == "fits"
    code, out, _ = run("place", "-f", file, "-o", "json", "--feature-gates", "DRAPrioritizedList=false")
    report = json.loads(out)
    assert (code, report["outcome"], report["fits"]) == (1, "error", False)
    assert "the DRAPrioritizedList feature is disabled" in report["error"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kube-version", "1.33"), "1.34, 1.35, 1.36, 1.37, 1.38"),
        (("--kube-version", "latest"), "1.34, 1.35, 1.36, 1.37, 1.38"),
        (("--feature-gates", "DRADeviceTaint=true"), "DRADeviceTaints"),
        (("--kube-version", "1.35", "--feature-gates", "DRAListTypeAttributes=true"), "1.35 has no gate"),
        (("--feature-gates", "DRADeviceTaints"), "'DRADeviceTaints' is not NAME=true|false"),
        (("--feature-gates", "DRADeviceTaints=yes"), "NAME=true|false"),
        (("--feature-gates", "=true"), "has no gate ''"),
    ],
)
def test_a_gate_or_version_that_does_not_exist_is_wrong_usage_and_lists_those_that_do(
    run: Run, options: tuple[str, ...], words: str
) -> None:
    code, out, err = run("place", "-f", "no-such-file", *options)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())


def test_a_gate_that_changes_nothing_here_is_said_so(tmp_path: Path, run: Run) -> None:
    file = dump.write(tmp_path / "c.yaml", [*MISSION, dump.claim("one")])
    code, _, err = run("place", "-f", file, "--feature-gates", "DRAExtendedResource=false")
    assert code == 0
    assert "DRAExtendedResource is ignored" in err
