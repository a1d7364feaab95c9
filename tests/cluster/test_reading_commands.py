"""diagnose, explain, lint --server and snapshot on a real control plane, with the rights of ``deploy/rbac``.

Also with single rights taken away, and with an API server whose answers stall or break off.
"""

from __future__ import annotations

import json
import secrets
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from baro.cli import main
from baro.diagnosis.files import read_files
from baro.kube.client import KubeClient
from baro.kube.reading import read_cluster
from baro.model.kinds.resource import FINALIZER, ResourceClaim
from baro.model.names import DRIVER
from baro.model.validation.rules import default_gates, known_gates
from tests.support.bad_network import BadNetwork
from tests.support.real_access import DEPLOY, Cluster
from tests.support.real_objects import OWN, claim_template, node, resource_slice

SYSTEM = "baro-system"
NODES = ("reader-a", "reader-b")
READINGS = 30
"""So often a cluster may have changed between two readings."""
Report = dict[str, Any]
RESOURCES = (
    "nodes", "pods", "namespaces", "events", "daemonsets",
    "resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses",
    "persistentvolumeclaims", "persistentvolumes", "storageclasses",
)  # fmt: skip


@pytest.fixture
def scene(own_cluster: Cluster, api: KubeClient, namespace: str) -> Iterator[str]:
    """Two nodes with eight GPUs each; one pool lacks a slice, one claim is held for nobody, one pod waits."""
    whole, part = (resource_slice(name, 8) for name in NODES)
    part["spec"]["pool"]["resourceSliceCount"] = 2
    own_cluster.apply(*(node(name, own=True) for name in NODES), whole, part)
    waiting = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "too-many", "namespace": namespace},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpus"}]}}],
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "nine"}],
            "tolerations": [{"key": OWN, "operator": "Exists"}],
        },
    }
    own_cluster.apply(
        claim_template("nine", namespace, device_class=DRIVER, count=9),
        waiting,
        _claim("forgotten", namespace),
    )
    _hold(api, namespace, "forgotten")
    yield namespace
    for name in NODES:
        own_cluster.kubectl("delete", "resourceslice", f"{DRIVER}-{name}")
        own_cluster.kubectl("delete", "node", name)


def _claim(name: str, namespace: str, **annotations: str) -> dict[str, Any]:
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name, "namespace": namespace, "finalizers": [FINALIZER], "annotations": annotations,
        },
        "spec": {"devices": {"requests": [request]}},
    }  # fmt: skip


def _hold(api: KubeClient, namespace: str, name: str) -> None:
    """An allocation that somebody wrote long ago and nobody reserved."""
    result = {"request": "gpus", "driver": DRIVER, "pool": NODES[0], "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    api.patch_merge(ResourceClaim, namespace, name, {"status": {"allocation": allocation}}, "status")


def reader_rules() -> list[dict[str, Any]]:
    """The rules of the role in ``deploy/rbac/reader.yaml``."""
    documents = yaml.safe_load_all((DEPLOY / "rbac" / "reader.yaml").read_text())
    found = next(
        item for item in documents
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] == "baro-reader"
    )  # fmt: skip
    rules: list[dict[str, Any]] = found["rules"]
    return rules


@pytest.fixture
def reader(cluster: Cluster) -> Path:
    """A kubeconfig of the service account that ``deploy/`` makes."""
    return cluster.account_kubeconfig("baro-reader", SYSTEM)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def diagnose(
    capsys: pytest.CaptureFixture[str], kubeconfig: Path, namespace: str, *more: str
) -> tuple[int, Report]:
    code, out, err = run(
        capsys, "diagnose", "--kubeconfig", str(kubeconfig), "-n", namespace, "-o", "json", "-q",
        *(more or ("--deadline", "60")),
    )  # fmt: skip
    assert out, err
    report: Report = json.loads(out)
    return code, report


def codes(report: Report, *subjects: str) -> set[str]:
    """Codes of the problems about these objects; other tests leave their own traces."""
    return {
        item["code"]
        for item in report["problems"]
        if any(name in (item["subject"] or "") or item["node"] == name for name in subjects)
    }


def test_diagnose_under_the_readers_account(
    scene: str, reader: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = diagnose(capsys, reader, scene)
    assert code == 1
    assert report["missing"] == []
    assert report["serverVersion"].startswith("v1.")
    assert codes(report, "reader-b") == {"pool-incomplete"}
    assert codes(report, f"{scene}/forgotten") == {"claim-allocated-unreserved"}
    forgotten = next(item for item in report["problems"] if f"{scene}/forgotten" in (item["subject"] or ""))
    hours = forgotten["lost"]["hours"]
    if report["serverVersion"].startswith("v1.34."):  # drops the time of an allocation
        assert hours is None
    else:
        assert hours > 24, "its age is known from the allocation"


@pytest.mark.parametrize("resource", RESOURCES)
def test_each_right_may_be_missing_and_is_named(
    scene: str, own_cluster: Cluster, resource: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [
        {**rule, "resources": [name for name in rule["resources"] if name != resource]}
        if "resources" in rule
        else rule
        for rule in reader_rules()
    ]
    rules = [rule for rule in rules if rule.get("resources") or "nonResourceURLs" in rule]
    limited = own_cluster.service_account(f"no-{resource}", scene, rules)
    _, report = diagnose(capsys, limited, scene)
    assert [item["source"] for item in report["missing"]] == [resource]
    assert f"does not allow to list {resource}" in report["missing"][0]["why"]
    assert report["missing"][0]["next"].startswith(f"kubectl auth can-i list {resource}")
    if resource != "resourceslices":
        assert "pool-incomplete" in codes(report, "reader-b"), "the rest is still answered"
    judged = {check["name"] for check in report["summary"]["checks"] if check["ran"]}
    assert {"ready", "dra"} <= judged


def test_no_right_at_all_is_an_error_that_says_so(
    scene: str, own_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = own_cluster.service_account("nobody", scene, [])
    code, out, err = run(capsys, "diagnose", "--kubeconfig", str(nobody), "-n", scene, "-q")
    assert (code, out) == (3, "")
    assert "nothing could be read" in err
    assert "does not allow to list" in err


@pytest.mark.parametrize("form", ["snapshot.json", "folder"])
def test_a_snapshot_read_back_gives_the_report_of_the_cluster(
    scene: str, reader: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others change the cluster meanwhile: nodes of the tests before are still being removed. So it is read
    again, and what differs every time is a fault."""
    pairs: list[tuple[Report, Report]] = []

    def same() -> bool:
        target = tmp_path / str(len(pairs)) / form
        target.parent.mkdir()
        options = ("--kubeconfig", str(reader), "-n", scene, "--deadline", "60")
        code, _, err = run(capsys, "snapshot", *options, "-o", str(target))
        assert code == 0, err
        assert target.stat().st_mode & 0o077 == 0
        _, live = diagnose(capsys, reader, scene)
        code, out, _ = run(capsys, "diagnose", "--from", str(target), "-o", "json", "-q")
        pairs.append((_comparable(json.loads(out)), _comparable(live)))
        return pairs[-1][0] == pairs[-1][1]

    if not any(same() for _ in range(READINGS)):
        read_back, live = pairs[-1]
        assert read_back == live


def _comparable(report: Report) -> Report:
    """Without what the moment of reading decides: the time, ages, and where it was read."""
    problems = [
        {**item, "lost": {**item["lost"], "hours": None, "gpuHours": None}, "message": _ageless(item)}
        for item in report["problems"]
    ]
    problems.sort(key=lambda item: (item["code"], item["subject"] or ""))
    return {**report, "origin": "", "takenAt": "", "problems": problems}


def _ageless(item: Mapping[str, Any]) -> str:
    message = str(item["message"])
    return message.split(" for ", maxsplit=1)[0] if item["code"] == "claim-stuck-terminating" else message


def test_explain_under_the_readers_account(
    scene: str, reader: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(
        capsys, "explain", "--kubeconfig", str(reader), "-n", scene, "pod/too-many", "-o", "json"
    )
    assert code == 1, err
    assert "too-many" in out
    assert any(name in out for name in NODES)


def test_explain_without_a_right_says_what_is_missing(
    scene: str, own_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [rule for rule in reader_rules() if "resourceslices" not in rule.get("resources", ())]
    limited = own_cluster.service_account("no-dra", scene, rules)
    code, out, err = run(capsys, "explain", "--kubeconfig", str(limited), "-n", scene, "pod/too-many")
    assert code in (1, 3)
    assert "resourceslices" in out + err


def test_gates_are_those_of_the_api_server_and_without_the_right_it_is_said(
    scene: str, own_cluster: Cluster, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with KubeClient.connect(kubeconfig_path=str(reader)) as client:
        found = read_cluster(client, namespace=scene, deadline_s=60)
    assert "metrics" not in {item.source for item in found.missing}
    assert found.server_version.startswith("v1.")
    version = found.server_version.removeprefix("v").rpartition(".")[0]
    default, ours = default_gates(version), set(known_gates(version)) & found.feature_gates.keys()
    assert {gate for gate in ours if found.feature_gates[gate]} == {gate for gate in ours if gate in default}
    assert len(ours) >= 5

    target = tmp_path / "snapshot.json"
    options = ("--kubeconfig", str(reader), "-n", scene, "--deadline", "60")
    assert run(capsys, "snapshot", *options, "-o", str(target))[0] == 0
    assert read_files([target]).feature_gates == found.feature_gates

    without = [rule for rule in reader_rules() if "nonResourceURLs" not in rule]
    limited = own_cluster.service_account("no-metrics", scene, without)
    code, out, err = run(capsys, "explain", "--kubeconfig", str(limited), "-n", scene, "pod/too-many")
    assert code == 1, err
    assert "feature gates are not known, the defaults of its version are assumed" in err
    assert "too-many" in out


def test_lint_asks_the_server_with_the_lint_role_and_says_what_it_may_not_without(
    scene: str, own_cluster: Cluster, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "claim.yaml"
    body = _claim("BadName", scene)
    manifest.write_text(yaml.safe_dump(body))
    refused, out, err = run(capsys, "lint", "--server", "--kubeconfig", str(reader), str(manifest))
    assert refused in (1, 3)
    assert "not allowed to create resourceclaims" in out + err
    role = next(
        item for item in yaml.safe_load_all((DEPLOY / "rbac" / "reader.yaml").read_text())
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] == "baro-lint"
    )  # fmt: skip
    linter = own_cluster.service_account("linter", scene, [*reader_rules(), *role["rules"]])
    code, out, err = run(capsys, "lint", "--server", "--kubeconfig", str(linter), str(manifest))
    assert code == 1
    assert "a lowercase RFC 1123 subdomain" in out + err


# --- a bad network ----------------------------------------------------------------------------------------


def _through(proxy: BadNetwork, kubeconfig: Path, folder: Path) -> Path:
    """The same kubeconfig, by way of the proxy."""
    body = yaml.safe_load(kubeconfig.read_text())
    body["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    path = folder / "through-the-proxy"
    path.write_text(json.dumps(body))
    return path


@pytest.mark.parametrize("cut", [True, False], ids=["breaks off", "stalls"])
def test_a_list_that_breaks_off_or_stalls_is_named_and_the_rest_is_answered(
    scene: str,
    own_cluster: Cluster,
    reader: Path,
    tmp_path: Path,
    cut: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in range(12):  # 100 KiB each that do not compress: the only list over the limit
        big = claim_template(f"big-{number}", scene, device_class=DRIVER, count=1)
        big["metadata"]["annotations"] = {"filler": secrets.token_urlsafe(75_000)}
        own_cluster.apply(big)
    address = urllib.parse.urlsplit(yaml.safe_load(reader.read_text())["clusters"][0]["cluster"]["server"])
    assert address.hostname and address.port
    with BadNetwork(address.hostname, address.port, bytes_through=600_000, cut=cut) as proxy:
        kubeconfig = _through(proxy, reader, tmp_path)
        code, report = diagnose(capsys, kubeconfig, scene, "--deadline", "30" if cut else "15")
        assert proxy.struck
    assert code == 1
    assert [item["source"] for item in report["missing"]] == ["resourceclaimtemplates"]
    why = report["missing"][0]["why"]
    assert ("does not answer" if cut else "no complete answer within 15 s") in why
    assert codes(report, "reader-b") == {"pool-incomplete"}


def test_a_server_that_never_answers_is_an_error_within_the_deadline(
    scene: str, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = urllib.parse.urlsplit(yaml.safe_load(reader.read_text())["clusters"][0]["cluster"]["server"])
    assert address.hostname and address.port
    with BadNetwork(address.hostname, address.port, bytes_through=0, cut=False) as proxy:
        kubeconfig = _through(proxy, reader, tmp_path)
        code, out, err = run(
            capsys, "diagnose", "--kubeconfig", str(kubeconfig), "-n", scene, "-q", "--deadline", "2"
        )
    assert (code, out) == (3, "")
    assert "nothing could be read" in err
