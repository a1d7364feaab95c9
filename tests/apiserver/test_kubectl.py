"""The real kubectl 1.37 against the embedded server: what people type every day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from baro.apiserver import create_app, run_in_thread
from baro.apiserver.registry import WriteOptions
from baro.apiserver.serve import RunningServer
from tests.support import apiserver as support
from tests.support.apiserver import Kubectl


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with run_in_thread(create_app()) as running:
        yield running


@pytest.fixture(scope="module")
def anywhere(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home = tmp_path_factory.mktemp("kubectl")
    return Kubectl(server.write_kubeconfig(home / "config"), home)


@pytest.fixture
def kubectl(
    anywhere: Kubectl, server: RunningServer, request: pytest.FixtureRequest, tmp_path: Path
) -> Kubectl:
    """kubectl in a namespace of the test's own."""
    name = request.node.name.replace("_", "-")[5:60].strip("-")
    namespaces = server.registry.catalogue.find("", "v1", "namespaces")
    assert namespaces is not None
    server.registry.create(namespaces, "", {"metadata": {"name": name}}, WriteOptions())
    config = yaml.safe_load(server.write_kubeconfig(tmp_path / "config").read_text())
    config["contexts"][0]["context"]["namespace"] = name
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    return anywhere.elsewhere(tmp_path / "config")


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_version_and_resources(anywhere: Kubectl) -> None:
    assert "Server Version: v1.37.2" in anywhere("version")
    rows = {row[0]: row[1:] for row in table(anywhere("api-resources"))}
    assert rows["resourceclaims"] == ["resource.k8s.io/v1", "true", "ResourceClaim"]
    assert rows["pods"] == ["po", "v1", "true", "Pod"]
    assert "resource.k8s.io/v1beta1" in anywhere("api-versions")
    assert anywhere.run("get", "frobs")[2] == 'error: the server doesn\'t have a resource type "frobs"\n'


def test_get_in_every_output_format(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=support.claim(labels={"app": "a"}))
    kubectl("create", "-f", "-", stdin=support.claim("other"))
    assert table(kubectl("get", "resourceclaims"))[0] == ["NAME", "STATE", "AGE"]
    assert [row[:2] for row in table(kubectl("get", "resourceclaims"))[1:]] == [
        ["other", "pending"],
        ["tp4", "pending"],
    ]
    assert (
        kubectl("get", "resourceclaims", "-l", "app=a", "-o", "name") == "resourceclaim.resource.k8s.io/tp4\n"
    )
    mode = "{.spec.devices.requests[0].exactly.allocationMode}"
    assert kubectl("get", "resourceclaim", "tp4", "-o", f"jsonpath={mode}") == "ExactCount"
    as_json = json.loads(kubectl("get", "resourceclaims", "-o", "json", "--chunk-size=1"))
    assert [item["metadata"]["name"] for item in as_json["items"]] == ["other", "tp4"]
    as_yaml = yaml.safe_load(kubectl("get", "resourceclaim", "tp4", "-o", "yaml"))
    assert as_yaml == as_json["items"][1]
    assert kubectl("get", "resourceclaims", "--field-selector", "metadata.name!=tp4", "-o", "name") == (
        "resourceclaim.resource.k8s.io/other\n"
    )
    code, _, err = kubectl.run("get", "resourceclaim", "nope")
    assert (code, err) == (
        1,
        'Error from server (NotFound): resourceclaims.resource.k8s.io "nope" not found\n',
    )


def test_wide_tables_show_more(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=support.pod(gate="baro.dev/placement"))
    assert table(kubectl("get", "pods"))[1][:4] == ["p1", "0/1", "SchedulingGated", "0"]
    assert table(kubectl("get", "pods", "-o", "wide"))[1][-4:] == ["<none>"] * 4


def test_watch_shows_changes_as_they_come(kubectl: Kubectl, server: RunningServer) -> None:
    kubectl("create", "-f", "-", stdin=support.pod())
    watching = kubectl.start("get", "pods", "-w", "--output-watch-events")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:2] == ["EVENT", "NAME"]
        assert watching.stdout.readline().split()[:2] == ["ADDED", "p1"]
        kubectl("label", "pod", "p1", "a=b")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "p1"]
        kubectl("delete", "pod", "p1")
        assert watching.stdout.readline().split()[:2] == ["DELETED", "p1"]
    finally:
        watching.kill()
        watching.communicate()


def test_apply_creates_changes_and_prunes(kubectl: Kubectl) -> None:
    first = support.config_map(data={"a": "1", "b": "2"})
    assert kubectl("apply", "-f", "-", stdin=first) == "configmap/m1 created\n"
    assert kubectl("apply", "-f", "-", stdin=first) == "configmap/m1 unchanged\n"
    kubectl("patch", "configmap", "m1", "--type=merge", "-p", '{"data": {"c": "3"}}')
    second = support.config_map(data={"a": "9"})
    assert kubectl("apply", "-f", "-", stdin=second) == "configmap/m1 configured\n"
    assert json.loads(kubectl("get", "configmap", "m1", "-o", "jsonpath={.data}")) == {"a": "9", "c": "3"}
    pod = support.pod(gate="baro.dev/placement")
    kubectl("apply", "-f", "-", stdin=pod)
    del pod["spec"]["schedulingGates"]
    pod["spec"]["containers"][0]["image"] = "registry.example.com/train:2"
    assert kubectl("apply", "-f", "-", stdin=pod) == "pod/p1 configured\n"
    spec = json.loads(kubectl("get", "pod", "p1", "-o", "json"))["spec"]
    assert "schedulingGates" not in spec
    assert spec["containers"][0]["image"] == "registry.example.com/train:2"


def test_apply_reports_what_the_server_refuses(kubectl: Kubectl) -> None:
    claim = support.claim()
    claim["spec"]["foo"] = 1
    code, _, err = kubectl.run("apply", "-f", "-", stdin=claim)
    assert code == 1
    assert 'strict decoding error: unknown field "spec.foo"' in err
    kubectl("apply", "-f", "-", stdin=support.claim())
    code, _, err = kubectl.run("apply", "-f", "-", stdin=support.claim(count=5))
    assert (code, err) == (
        1,
        'The ResourceClaim "tp4" is invalid: spec: Invalid value: null: field is immutable\n',
    )


def test_dry_run_and_diff_change_nothing(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=support.config_map())
    code, out, _ = kubectl.run("diff", "-f", "-", stdin=support.config_map(data={"key": "new"}))
    assert code == 1
    assert "-  key: value" in out
    assert "+  key: new" in out
    assert kubectl.run("diff", "-f", "-", stdin=support.config_map())[0] == 0
    shown = kubectl("apply", "--dry-run=server", "-f", "-", stdin=support.config_map(data={"key": "new"}))
    assert shown == "configmap/m1 configured (server dry run)\n"
    assert kubectl("get", "configmap", "m1", "-o", "jsonpath={.data.key}") == "value"


def test_replace_patch_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=support.config_map())
    assert (
        kubectl("replace", "-f", "-", stdin=support.config_map(data={"key": "2"}))
        == "configmap/m1 replaced\n"
    )
    operations = '[{"op": "add", "path": "/data/new", "value": "x"}]'
    assert kubectl("patch", "configmap", "m1", "--type=json", "-p", operations) == "configmap/m1 patched\n"
    kubectl("patch", "configmap", "m1", "--type=merge", "-p", '{"data": {"key": null}}')
    assert kubectl("label", "configmap", "m1", "a=b") == "configmap/m1 labeled\n"
    assert kubectl("label", "configmap", "m1", "a-") == "configmap/m1 unlabeled\n"
    assert kubectl("annotate", "configmap", "m1", "c=d") == "configmap/m1 annotated\n"
    found = json.loads(kubectl("get", "configmap", "m1", "-o", "json"))
    assert found["data"] == {"new": "x"}
    assert "labels" not in found["metadata"]
    assert found["metadata"]["annotations"] == {"c": "d"}


def test_strategic_patches_and_the_status_subresource(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=support.pod())
    image = '{"spec": {"containers": [{"name": "main", "image": "registry.example.com/train:3"}]}}'
    kubectl("patch", "pod", "p1", "-p", image)
    for kind in ("A", "B"):
        condition = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        kubectl("patch", "pod", "p1", "--subresource=status", "-p", json.dumps(condition))
    found = json.loads(kubectl("get", "pod", "p1", "-o", "json"))
    assert found["spec"]["containers"][0]["image"] == "registry.example.com/train:3"
    assert sorted(c["type"] for c in found["status"]["conditions"]) == ["A", "B"]
    kubectl("create", "-f", "-", stdin=support.claim())
    allocation = {"status": {"allocation": support.allocation("gpu-0")}}
    kubectl(
        "patch", "resourceclaim", "tp4", "--subresource=status", "--type=merge", "-p", json.dumps(allocation)
    )
    assert table(kubectl("get", "resourceclaim", "tp4"))[1][:2] == ["tp4", "allocated"]


def test_describe_shows_objects_with_their_events(kubectl: Kubectl) -> None:
    made = kubectl("create", "-f", "-", "-o", "json", stdin=support.pod(gate="baro.dev/placement"))
    pod = json.loads(made)["metadata"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p1.1"},
        "involvedObject": {
            "kind": "Pod", "name": "p1", "namespace": pod["namespace"], "uid": pod["uid"], "apiVersion": "v1",
        },
        "reason": "Placed",
        "message": "one island of node n1",
        "type": "Normal",
        "firstTimestamp": pod["creationTimestamp"],
        "lastTimestamp": pod["creationTimestamp"],
        "count": 1,
        "source": {"component": "baro"},
    }  # fmt: skip
    kubectl("create", "-f", "-", stdin=event)
    shown = kubectl("describe", "pod", "p1")
    assert "Status:       Pending" in shown
    assert ["Normal", "Placed"] in [row[:2] for row in table(shown)]
    assert "one island of node n1" in shown
    kubectl("create", "-f", "-", stdin=support.claim())
    shown = kubectl("describe", "resourceclaim", "tp4")
    assert "Allocation Mode:    ExactCount" in shown
    kubectl("create", "-f", "-", stdin=support.node("described"))
    shown = kubectl("describe", "node", "described")
    assert "Taints:             <none>" in shown
    assert "KubeletReady" in shown
    assert table(kubectl("get", "events"))[1][1:4] == ["Normal", "Placed", "pod/p1"]


def test_delete_waits_for_finalizers(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=support.pod())
    assert kubectl("delete", "pod", "p1", "--wait").startswith('pod "p1" deleted')
    kubectl("create", "-f", "-", stdin=support.claim(finalizers=["example.com/hold"]))
    deleting = kubectl.start("delete", "resourceclaim", "tp4", "--wait", "--timeout=30s")
    kubectl(
        "wait",
        "resourceclaim/tp4",
        "--for=jsonpath={.metadata.deletionGracePeriodSeconds}=0",
        "--timeout=30s",
    )
    assert table(kubectl("get", "resourceclaim", "tp4"))[1][1] == "deleted"
    kubectl("patch", "resourceclaim", "tp4", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    out, _ = deleting.communicate(timeout=30)
    assert deleting.returncode == 0
    assert out.startswith('resourceclaim.resource.k8s.io "tp4" deleted')


def test_wait_for_conditions_values_and_deletion(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=support.pod(gate="baro.dev/placement"))
    waiting = kubectl.start("wait", "pod/p1", "--for=condition=Ready", "--timeout=30s")
    condition = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "p1", "--subresource=status", "-p", json.dumps(condition))
    out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (0, "pod/p1 condition met\n")
    assert kubectl("wait", "pod/p1", "--for=jsonpath={.status.phase}=Pending", "--timeout=30s")
    going = kubectl.start("wait", "pod/p1", "--for=delete", "--timeout=30s")
    kubectl("delete", "pod", "p1", "--wait=false")
    going.communicate(timeout=30)
    assert going.returncode == 0


def test_explain_knows_types_and_fields(anywhere: Kubectl) -> None:
    shown = anywhere("explain", "resourceclaim.spec.devices.requests.exactly")
    assert "FIELD: exactly <ExactDeviceRequest>" in shown
    assert "deviceClassName\t<string> -required-" in shown
    assert "count\t<integer>" in shown
    assert "containers\t<[]Container> -required-" in anywhere("explain", "pod.spec")


def test_edit_by_a_script(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", stdin=support.config_map(data={"key": "before"}))
    code, out, err = kubectl.run("edit", "configmap", "m1", env={"KUBE_EDITOR": "sed -i s/before/after/"})
    assert code == 0, err
    assert out == "configmap/m1 edited\n"
    assert kubectl("get", "configmap", "m1", "-o", "jsonpath={.data.key}") == "after"


def test_namespaces_come_and_go_with_their_content(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    kubectl("apply", "-n", "team", "-f", "-", stdin=support.config_map())
    assert table(kubectl("get", "namespace", "team"))[1][:2] == ["team", "Active"]
    assert kubectl("delete", "namespace", "team", "--timeout=30s") == 'namespace "team" deleted\n'
    assert kubectl.run("get", "-n", "team", "configmaps")[1] == ""


def test_bulk_deletion_by_label(kubectl: Kubectl) -> None:
    items = [support.config_map(f"m{number}", labels={"keep": str(number == 2)}) for number in range(3)]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    kubectl("create", "-f", "-", stdin=listed)
    kubectl("delete", "configmaps", "-l", "keep!=True")
    assert kubectl("get", "configmaps", "-o", "name") == "configmap/m2\n"
    assert kubectl("delete", "configmaps", "--all").startswith('configmap "m2" deleted')


def test_create_by_name_sends_protobuf(kubectl: Kubectl) -> None:
    assert kubectl("create", "namespace", "demo") == "namespace/demo created\n"
    assert kubectl("create", "configmap", "cm", "--from-literal=a=b") == "configmap/cm created\n"
    assert kubectl("create", "secret", "generic", "s", "--from-literal=a=b") == "secret/s created\n"
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    assert kubectl("create", "serviceaccount", "sa") == "serviceaccount/sa created\n"
    assert kubectl("get", "configmap", "cm", "-o", "jsonpath={.data}") == '{"a":"b"}'
    assert kubectl.run("create", "namespace", "demo")[2] == (
        'Error from server (AlreadyExists): namespaces "demo" already exists\n'
    )


def test_everything_may_be_done_and_nobody_is_asked_who_they_are(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "nodes").splitlines()[-1].startswith("yes")
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "system:anonymous" in kubectl("auth", "whoami")


def test_server_side_apply_with_conflicts_diff_and_hidden_ownership(kubectl: Kubectl) -> None:
    wanted = support.config_map(data={"a": "1", "b": "2"})
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl(*apply, stdin=wanted) == "configmap/m1 serverside-applied\n"
    kubectl("patch", "configmap", "m1", "--type=merge", "-p", '{"data": {"a": "9"}}')
    code, _, err = kubectl.run(*apply, stdin=wanted)
    assert code == 1
    assert err.startswith(
        'error: Apply failed with 1 conflict: conflict with "kubectl-patch" using v1: .data.a\n'
    )
    assert kubectl.run("diff", "--server-side", "--force-conflicts", "-f", "-", stdin=wanted)[0] == 1
    kubectl(*apply, "--force-conflicts", stdin=wanted)
    assert kubectl("diff", "--server-side", "-f", "-", stdin=wanted) == ""
    assert "managedFields" not in kubectl("get", "configmap", "m1", "-o", "yaml")
    assert "managedFields" in kubectl("get", "configmap", "m1", "-o", "yaml", "--show-managed-fields")


def test_server_side_apply_takes_over_from_client_side_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=support.config_map(data={"a": "1"}))
    kubectl("apply", "--server-side", "-f", "-", stdin=support.config_map(data={"a": "2"}))
    managers = kubectl("get", "configmap", "m1", "--show-managed-fields", "-o",
                       "jsonpath={.metadata.managedFields[*].manager}")  # fmt: skip
    assert sorted(managers.split()) == ["kubectl", "kubectl-last-applied"]


def test_a_custom_kind_from_its_definition_to_its_end(kubectl: Kubectl) -> None:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    crd = support.definition(additionalPrinterColumns=columns)
    kubectl("apply", "-f", "-", stdin=crd)
    kubectl("wait", "--for=condition=established", "crd/widgets.example.com", "--timeout=30s")
    assert kubectl("apply", "-f", "-", stdin=support.widget(size=3)) == "widget.example.com/w1 created\n"
    assert table(kubectl("get", "wd")) == [["NAME", "SIZE"], ["w1", "3"]]
    assert "size\t<integer>" in kubectl("explain", "widgets.spec")
    assert kubectl("apply", "-f", "-", stdin=support.widget(size=4)) == "widget.example.com/w1 configured\n"
    kubectl("delete", "crd", "widgets.example.com")
    assert kubectl.run("get", "widgets")[0] == 1
