"""``baro place`` on everything it can look at: gangs, captures of machines, dumps, a live server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from baro.apiserver import create_app, run_in_thread, write_kubeconfig
from baro.cli import main
from baro.kube.client import KubeClient
from baro.topology import topo_m
from baro.topology.document import to_document
from baro.topology.profiles import load_profile
from tests.support import cluster_files as dump
from tests.support.apiserver import Kubectl, definition
from tests.support.controller import Cluster

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs baro where no cluster is configured; gives (exit code, stdout, stderr)."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def template(name: str, count: int) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": dump.claim("x", count)["spec"]},
    }


def pod(
    name: str, *claims: dict[str, str], labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "image": "x"}], "resourceClaims": list(claims), **spec},
    }


FOUR = {"name": "gpu", "resourceClaimTemplateName": "four"}


def worker(name: str, **spec: Any) -> dict[str, Any]:
    return pod(name, FOUR, schedulingGroup={"podGroupName": "train"}, **spec)


def pod_group(least: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }


# --- gangs -----------------------------------------------------------------------------------------------


def test_pods_of_a_gang_are_placed_all_or_none(tmp_path: Path, run: Run) -> None:
    gang = [template("four", 4), pod_group(3), *(worker(f"w{index}") for index in range(3))]
    two = dump.cluster({"node-a": "h200-nvl-8", "node-b": "h200-nvl-8"})
    code, out, _ = run("place", "-f", dump.write(tmp_path / "two.yaml", [*two, *gang]), "-o", "json")
    report = json.loads(out)
    assert (code, report["kind"], report["outcome"]) == (0, "GangPlacementReport", "fits")
    assert report["gang"] == {"namespace": "default", "name": "train"}
    assert [(item["name"], item["node"]) for item in report["pods"]] == [
        ("w0", "node-a"),
        ("w1", "node-a"),
        ("w2", "node-b"),
    ]
    results = [
        (item["node"], result["device"])
        for item in report["pods"]
        for claim in item["claims"]
        for result in claim["allocation"]["devices"]["results"]
    ]
    assert len(set(results)) == 12

    one = dump.cluster({"node-a": "h200-nvl-8"})
    code, out, _ = run("place", "-f", dump.write(tmp_path / "one.yaml", [*one, *gang]))
    assert code == 1
    assert "gang default/train: 2 of 3 pods fit at the same time" in out
    assert "gpu-0" not in out


def test_as_many_pods_as_the_group_needs_are_enough(tmp_path: Path, run: Run) -> None:
    bodies = [template("four", 4), pod_group(2), *(worker(f"w{index}") for index in range(3))]
    bodies += dump.cluster({"node-a": "h200-nvl-8"})
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", bodies), "-o", "wide")
    assert code == 0
    assert "pod default/w2   none" in out
    assert "1 pod found no place; 2 have one, and the gang needs 2" in out


def test_pods_that_run_already_count_and_keep_the_rest_near(tmp_path: Path, run: Run) -> None:
    bodies = [template("four", 4), pod_group(3), worker("w0", nodeName="node-b"), worker("w1"), worker("w2")]
    claim = dump.claim("w0-gpu", 4)
    results = [
        {"request": "gpu", "driver": "gpu.baro.dev", "pool": "node-b", "device": f"gpu-{index}"}
        for index in range(4)
    ]
    bodies.append({**claim, "status": {"allocation": {"devices": {"results": results}}}})
    bodies += dump.cluster({"node-a": "hgx-h100-4", "node-b": "h200-nvl-8"})
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", bodies), "-o", "json")
    report = json.loads(out)
    assert code == 0
    assert [item["name"] for item in report["pods"]] == ["w1", "w2"]
    assert report["nodes"] == ["node-a", "node-b"]


def test_a_group_with_too_few_pods_is_not_placed(tmp_path: Path, run: Run) -> None:
    bodies = [template("four", 4), pod_group(3), worker("w0"), *dump.cluster({"node-a": "h200-nvl-8"})]
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", bodies))
    assert code == 1
    assert "gang default/train wants at least 3 pods, and there are 1" in out


def test_any_pods_can_be_tried_as_one_gang_and_claims_too(tmp_path: Path, run: Run) -> None:
    machines = dump.cluster({"node-a": "h200-nvl-8"})
    pods = [template("four", 4), *(pod(f"p{index}", FOUR) for index in range(3))]
    file = dump.write(tmp_path / "pods.yaml", [*machines, *pods])
    code, out, _ = run("place", "-f", file)
    assert (code, [line.split()[2] for line in out.splitlines()[1:4]]) == (1, ["node-a", "node-a", "none"])
    code, out, _ = run("place", "-f", file, "--gang")
    assert (code, "node-a" in out) == (1, False)
    claims = [dump.claim("a", 4), dump.claim("b", 4)]
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", [*machines, *claims]), "--gang")
    assert (code, "2 pods on 1 node" in out) == (0, True)
    code, _, err = run("place", "-f", file, "--gang", "--together")
    assert (code, "give one" in err) == (2, True)


def test_gangs_and_single_pods_come_in_the_order_of_the_files(tmp_path: Path, run: Run) -> None:
    bodies = [template("four", 4), pod_group(1), pod("first", FOUR), worker("w0"), pod("last", FOUR)]
    bodies += dump.cluster({"node-a": "h200-nvl-8"})
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", bodies))
    lines = [line.split()[:3] for line in out.splitlines()[1:4]]
    assert lines == [
        ["pod", "default/first", "node-a"],
        ["pod", "default/w0", "node-a"],
        ["pod", "default/last", "none"],
    ]
    assert code == 1


# --- shared claims ---------------------------------------------------------------------------------------


def test_a_pod_goes_where_the_devices_of_its_allocated_claim_are(tmp_path: Path, run: Run) -> None:
    held = dump.busy("node-b", [0])
    selector = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-b"]}]}
        ]
    }
    held["status"]["allocation"]["nodeSelector"] = selector
    both = ({"name": "old", "resourceClaimName": "busy-node-b"}, {"name": "new", "resourceClaimName": "more"})
    bodies = [held, dump.claim("more", 2), pod("p", *both)]
    bodies += dump.cluster({"node-a": "h200-nvl-8", "node-b": "h200-nvl-8"})
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", bodies), "-o", "json")
    assert (code, json.loads(out)["node"]) == (0, "node-b")


def test_a_pod_that_shares_a_claim_follows_the_pod_that_brings_it(tmp_path: Path, run: Run) -> None:
    shared = {"name": "shared", "resourceClaimName": "shared"}
    bodies = [dump.claim("shared", 4), template("four", 4), pod("p", shared), pod("q", shared, FOUR)]
    two = dump.cluster({"node-a": "h200-nvl-8", "node-b": "h200-nvl-8"})
    code, out, _ = run("place", "-f", dump.write(tmp_path / "c.yaml", [*bodies, *two]), "-o", "json")
    assert code == 0
    assert [item["node"] for item in json.loads(out)["items"]] == ["node-a", "node-a"]
    small = dump.cluster({"node-a": "consumer-4-bridged"})
    bodies[0] = dump.claim("shared", 5)
    code, out, _ = run("place", "-f", dump.write(tmp_path / "d.yaml", [*bodies, *small]))
    assert code == 1
    assert "claim default/shared, which another pod brings, has no place" in out


# --- machines --------------------------------------------------------------------------------------------


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """What ``nvidia-smi topo -m`` would print on a machine of two islands whose GPUs alternate."""
    machine = load_profile("h200-nvl-8-interleaved").machine()
    path = tmp_path / "gpu-box.txt"
    path.write_text(topo_m.render(machine), encoding="utf-8")
    return str(path)


def test_a_topology_capture_is_a_node(tmp_path: Path, run: Run, capture: str) -> None:
    claim = dump.write(tmp_path / "claim.yaml", [dump.claim("tp4", 4)])
    code, out, err = run("place", "-f", claim, "-f", capture, "-o", "json")
    report = json.loads(out)
    assert (code, report["node"]) == (0, "gpu-box")
    devices = [result["device"] for result in report["claims"][0]["allocation"]["devices"]["results"]]
    assert devices == ["gpu-0", "gpu-2", "gpu-4", "gpu-6"]
    assert "taking baro's own (gpu.baro.dev, gpu.nvidia.com)" in err


@pytest.mark.parametrize("kind", ["MachineTopology", "NodeTopology"])
def test_a_topology_document_is_a_node(tmp_path: Path, run: Run, kind: str) -> None:
    document = to_document(load_profile("h200-nvl-8-interleaved").machine())
    if kind == "NodeTopology":
        spec = {key: value for key, value in document.items() if key not in {"apiVersion", "kind"}}
        document = {
            "apiVersion": "baro.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": "machine"},
            "spec": spec,
        }
    (tmp_path / "machine.json").write_text(json.dumps(document), encoding="utf-8")
    claim = dump.write(tmp_path / "claim.yaml", [dump.claim("tp4", 4, class_name="gpu.baro.dev")])
    code, out, _ = run("place", "-f", claim, "-f", str(tmp_path / "machine.json"))
    assert code == 0
    assert "gpu-0,gpu-2,gpu-4,gpu-6   450" in out


def test_a_capture_of_a_node_tells_how_its_published_gpus_are_linked(tmp_path: Path, run: Run) -> None:
    machine = load_profile("h200-nvl-8-interleaved").machine()
    (tmp_path / "node-a.topo.txt").write_text(topo_m.render(machine), encoding="utf-8")
    devices = [{"name": f"gpu-{index}", "attributes": {"type": {"string": "gpu"}}} for index in range(8)]
    published = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-a",
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }
    bodies = [published, device_class, dump.claim("tp4", 4)]
    file = dump.write(tmp_path / "dump.yaml", bodies)
    blind = json.loads(run("place", "-f", file, "-o", "json")[1])
    assert blind["score"]["gbps"] is None
    code, out, err = run("place", "-f", file, "-f", str(tmp_path / "node-a.topo.txt"))
    assert code == 0
    assert "gpu-0,gpu-2,gpu-4,gpu-6   450" in out
    assert "links of 8 GPUs are those of the machine that was given" in err


# --- a cluster, or a dump of one -------------------------------------------------------------------------


def test_claims_are_placed_before_a_dump(tmp_path: Path, run: Run) -> None:
    cluster = [*dump.cluster({"node-a": "h200-nvl-8"}), dump.busy("node-a", [2, 3]), dump.claim("waiting", 8)]
    world = dump.write(tmp_path / "dump.yaml", cluster)
    claim = dump.write(tmp_path / "claim.yaml", [dump.claim("tp4", 4)])
    code, out, _ = run("place", "-f", claim, "--from", world, "-o", "json")
    report = json.loads(out)
    assert code == 0
    assert [item["name"] for item in report["claims"]] == ["tp4"]
    devices = [result["device"] for result in report["claims"][0]["allocation"]["devices"]["results"]]
    assert devices == ["gpu-4", "gpu-5", "gpu-6", "gpu-7"]
    code, out, _ = run("place", "--from", world, "-o", "json")
    assert (code, json.loads(out)["claims"][0]["name"]) == (1, "waiting")


def test_a_claim_that_has_devices_already_keeps_them(tmp_path: Path, run: Run) -> None:
    world = dump.write(
        tmp_path / "dump.yaml", [*dump.cluster({"node-a": "h200-nvl-8"}), dump.busy("node-a", [0])]
    )
    bare = dump.busy("node-a", [0])
    del bare["status"]
    again = dump.write(tmp_path / "claim.yaml", [bare, dump.claim("other", 8)])
    code, out, err = run("place", "-f", again, "--from", world)
    assert code == 1
    assert "claim default/busy-node-a has devices already" in err
    assert "busy-node-a" not in out


@pytest.fixture
def server() -> Iterator[str]:
    with run_in_thread(create_app()) as found:
        yield found.url


def test_a_live_cluster_is_read_and_nothing_is_written(tmp_path: Path, run: Run, server: str) -> None:
    with KubeClient.connect(url=server) as api:
        cluster = Cluster(api)
        cluster.node("a", 4)
        cluster.claim("mine", 2)
        cluster.pod("p", "mine")
        claim = dump.write(tmp_path / "claim.yaml", [dump.claim("new", 3, class_name="gpu")])
        code, out, err = run("place", "-f", claim, "-s", server, "-o", "json")
        assert (code, json.loads(out)["node"]) == (0, "a"), err
        code, out, _ = run("place", "-s", server)
        assert code == 0
        assert "pod default/p" in out
        assert run("place", "-s", server, "-n", "elsewhere")[0] == 3
        assert not cluster.devices("mine")


def test_groups_of_a_live_cluster_are_read_where_it_has_them(tmp_path: Path, run: Run, server: str) -> None:
    spec = {"type": "object", "properties": {"minMember": {"type": "integer"}}}
    crd = definition(spec, name="v1alpha1")
    crd["metadata"]["name"] = "podgroups.scheduling.x-k8s.io"
    crd["spec"] |= {"group": "scheduling.x-k8s.io", "names": {"plural": "podgroups", "kind": "PodGroup"}}
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    write_kubeconfig(tmp_path / "kubeconfig", server)
    kubectl = Kubectl(tmp_path / "kubeconfig", tmp_path)
    with KubeClient.connect(url=server) as api:
        cluster = Cluster(api)
        cluster.node("a", 4)
        pods = [pod(name, {"name": "gpu", "resourceClaimTemplateName": "t"}, labels=labels) for name in "pqr"]
        wanted = template("t", 2)
        wanted["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu"
        file = dump.write(tmp_path / "pods.yaml", [wanted, *pods])
        code, out, err = run("place", "-f", file, "-s", server)
        assert (code, "2 of 3 pods fit" in out) == (1, True)
        assert "the object that describes it is not known" in err
        kubectl("apply", "-f", dump.write(tmp_path / "crd.yaml", [crd]))
        kubectl("wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io")
        kubectl("apply", "-f", dump.write(tmp_path / "group.yaml", [group]))
        code, out, err = run("place", "-f", file, "-s", server)
        assert (code, "1 pod found no place; 2 have one, and the gang needs 2" in out) == (0, True), out + err


def test_a_server_that_is_not_there_is_one_error(tmp_path: Path, run: Run) -> None:
    claim = dump.write(tmp_path / "claim.yaml", [dump.claim("a")])
    code, out, err = run("place", "-f", claim, "-s", "http://127.0.0.1:9", "--deadline", "1")
    assert (code, out) == (3, "")
    assert err.count("error:") == 1


@pytest.mark.parametrize(
    "text", ["", "{", "kind: [", "\x00\x01\x02", "a: &a [*a]\nkind: Pod\napiVersion: v1\n"]
)
def test_garbage_is_one_clear_error(tmp_path: Path, run: Run, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    code, out, err = run("place", "-f", str(tmp_path / "bad.yaml"))
    assert (code, out) == (3, "")
    assert "Traceback" not in err
    assert "bad.yaml" in err


def test_each_policy_gives_its_own_set(tmp_path: Path, run: Run) -> None:
    bodies = [
        *dump.cluster({"node-a": "h200-nvl-8-interleaved"}),
        dump.busy("node-a", [0]),
        dump.claim("c", 2),
    ]
    file = dump.write(tmp_path / "c.yaml", bodies)
    chosen = {}
    for policy in ("topology", "first-fit", "best-effort"):
        code, out, _ = run("place", "-f", file, "--policy", policy, "-o", "json")
        assert code == 0
        results = json.loads(out)["claims"][0]["allocation"]["devices"]["results"]
        chosen[policy] = [result["device"] for result in results]
    assert chosen["first-fit"] == ["gpu-1", "gpu-2"]
    # The broken island is used up before the whole one is broken; both policies know the links.
    assert chosen["topology"] == ["gpu-2", "gpu-4"]
    assert {int(name[4:]) % 2 for name in chosen["best-effort"]} in ({0}, {1})


def test_wide_output_says_how_much_was_looked_at(tmp_path: Path, run: Run) -> None:
    bodies = [*dump.cluster({f"node-{index}": "h200-nvl-8" for index in range(3)}), dump.claim("c", 4)]
    file = dump.write(tmp_path / "c.yaml", bodies)
    code, out, _ = run("place", "-f", file, "-o", "wide")
    assert code == 0
    assert "claim default/c: work: 1 of 3 nodes evaluated, 4 devices tried" in out
    report = json.loads(run("place", "-f", file, "-o", "json")[1])
    assert report["work"] == {"nodesEvaluated": 1, "devicesTried": 4}
