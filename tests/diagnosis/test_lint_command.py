"""``baro lint`` as its users call it: exit codes, formats, fixes, a live server, and odd input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from baro.agent.slices import desired_slices
from baro.apiserver import create_app, run_in_thread
from baro.cli import main
from baro.kube.client import KubeClient
from baro.kube.config import load
from baro.kube.dryrun import dry_run
from baro.model.load import load_paths
from baro.model.names import DRIVER
from baro.topology.profiles import load_profile

Capture = pytest.CaptureFixture[str]

MISSION = Path(__file__).resolve().parents[2] / "src/baro/demo/manifests/mission.yaml"
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["lint", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def write(folder: Path, text: str | bytes, name: str = "a.yaml") -> str:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


# --- exit codes and formats ------------------------------------------------------------------------------


def test_clean_is_0_findings_are_1_and_the_threshold_is_the_users(capsys: Capture, tmp_path: Path) -> None:
    clean = write(tmp_path, CLAIM)
    assert run(capsys, clean)[:2] == (0, "")
    old = write(tmp_path, CLAIM.replace("/v1", "/v1beta2"), "old.yaml")
    assert run(capsys, old)[0] == 0
    assert run(capsys, old, "--fail-on", "warning")[0] == 1
    assert run(capsys, old, "--fail-on", "warning", "--ignore", "deprecated-api-version")[0] == 0
    assert run(capsys, old, "--kube-version", "1.37")[0] == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--fix", "--diff"),
        ("--ignore", "nonsense"),
        ("--kube-version", "1.20"),
        ("--feature-gates", "X=maybe"),
    ],
)
def test_wrong_usage_is_2(options: tuple[str, ...], capsys: Capture, tmp_path: Path) -> None:
    assert run(capsys, write(tmp_path, CLAIM), *options)[0] == 2


def test_the_table_names_place_code_and_mended_text(capsys: Capture) -> None:
    code, out, err = run(capsys, str(MISSION))
    assert code == 1
    assert f"error cel-syntax  {MISSION}:15:127" in out
    assert "mended: device.attributes['gpu.nvidia.com'].productName.contains('H100')" in out
    assert "1 document, judged against what the known drivers publish: 3 errors, 2 warnings" in err


def test_the_documentation_shows_what_is_printed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    root = MISSION.parents[4]
    monkeypatch.chdir(root)
    page = (root / "docs/lint.md").read_text()
    shown = page.partition("```console\n")[2].partition("```")[0].splitlines()
    out = run(capsys, str(MISSION.relative_to(root)))[1].splitlines()
    expected = [line for line in shown if not line.startswith("$") and line.strip() != "…"]
    assert len(expected) > 8
    assert [line for line in expected if line not in out] == []


def test_wide_adds_the_servers_whole_answer(capsys: Capture) -> None:
    out = run(capsys, str(MISSION), "-o", "wide")[1]
    assert 'offline: ResourceClaimTemplate.resource.k8s.io "h100-nvlink-mesh" is invalid: spec.spec' in out


def test_json_and_yaml_are_one_document(capsys: Capture) -> None:
    body = json.loads(run(capsys, str(MISSION), "-o", "json")[1])
    assert (body["apiVersion"], body["kind"]) == ("baro.dev/v1alpha1", "LintReport")
    assert len(body["findings"]) == 5
    assert {finding["fixable"] for finding in body["findings"]} == {True}
    assert body["documents"][0]["accepted"] is False
    assert yaml.safe_load(run(capsys, str(MISSION), "-o", "yaml")[1]) == body


def test_github_annotations_are_one_line_each(capsys: Capture) -> None:
    lines = run(capsys, str(MISSION), "-o", "github")[1].splitlines()
    assert len(lines) == 5
    assert all(line.startswith(("::error file=", "::warning file=")) for line in lines)
    assert "line=15,col=127,title=cel-syntax::" in lines[1]


def test_sarif_has_rules_regions_and_fixes_that_give_the_mended_file(capsys: Capture) -> None:
    body = json.loads(run(capsys, str(MISSION), "-o", "sarif")[1])
    check_sarif(body)
    (part,) = body["runs"]
    assert [rule["id"] for rule in part["tool"]["driver"]["rules"]] == sorted(
        {result["ruleId"] for result in part["results"]}
    )
    text = MISSION.read_text()
    (conversion,) = [result for result in part["results"] if result["ruleId"] == "deprecated-api-version"]
    fixed = apply_fix(text, conversion["fixes"][0]["artifactChanges"][0]["replacements"])
    spec = yaml.safe_load(fixed)["spec"]["spec"]["devices"]["requests"][0]
    assert sorted(spec) == ["exactly", "name"]


def check_sarif(body: Any) -> None:
    """The parts of the SARIF 2.1.0 schema that a scanner needs."""
    assert body["version"] == "2.1.0"
    assert body["$schema"].endswith("sarif-2.1.0.json")
    for part in body["runs"]:
        rules = part["tool"]["driver"]["rules"]
        assert part["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        for rule in rules:
            assert {"id", "shortDescription", "fullDescription", "help"} <= rule.keys()
            assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        for result in part["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in ("error", "warning", "note")
            assert result["message"]["text"]
            (location,) = result["locations"]
            physical = location["physicalLocation"]
            assert " " not in physical["artifactLocation"]["uri"]
            assert physical["region"]["startLine"] >= 1
            assert physical["region"]["startColumn"] >= 1
            for fix in result.get("fixes", ()):
                for change in fix["artifactChanges"]:
                    assert change["replacements"]
                    for replacement in change["replacements"]:
                        region = replacement["deletedRegion"]
                        start = region["startLine"], region["startColumn"]
                        assert start <= (region["endLine"], region["endColumn"])


def apply_fix(text: str, replacements: list[dict[str, Any]]) -> str:
    """As a scanner would: by lines and columns, from the back."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for one in reversed(replacements):
        region = one["deletedRegion"]
        start = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:start] + one["insertedContent"]["text"] + text[end:]
    return text


# --- fixing ----------------------------------------------------------------------------------------------


def test_fix_writes_the_file_once_and_then_nothing(capsys: Capture, tmp_path: Path) -> None:
    file = write(tmp_path, MISSION.read_bytes())
    code, out, err = run(capsys, "--fix", file)
    assert (code, out) == (0, "")
    assert "5 findings mended in 1 of 1 files; 0 left" in err
    once = Path(file).read_text()
    assert once.startswith("# Four H100s of one NVLink mesh")
    changed = Path(file).stat().st_mtime_ns
    assert run(capsys, "--fix", file)[0] == 0
    assert (Path(file).read_text(), Path(file).stat().st_mtime_ns) == (once, changed)


def test_the_mended_mission_fits_the_machine_it_speaks_of(capsys: Capture, tmp_path: Path) -> None:
    file = write(tmp_path, MISSION.read_bytes())
    assert run(capsys, "--fix", file)[0] == 0
    template = yaml.safe_load(Path(file).read_text())
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "mesh", "namespace": "default", **template["spec"]["metadata"]},
        "spec": template["spec"]["spec"],
    }
    machine = load_profile("hgx-h100-2x4").machine()
    slices = [item.to_dict() for item in desired_slices(machine, node="node-a", driver=DRIVER)]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, claim, *slices]})
    classes = Path(__file__).resolve().parents[2] / "deploy/deviceclasses.yaml"
    code = main(["place", "-f", write(tmp_path, items, "cluster.json"), "-f", str(classes), "-o", "json"])
    out = capsys.readouterr().out
    assert code == 0
    assert out.count('"device": "gpu-') == 4


def test_diff_and_mended_write_no_file(capsys: Capture, tmp_path: Path) -> None:
    file = write(tmp_path, CLAIM.replace("name: g, exactly: {", "name: g, exactly: {coutn: 2, "))
    before = Path(file).read_text()
    code, out, _ = run(capsys, "--diff", file)
    assert code == 0
    assert "-spec: {devices: {requests: [{name: g, exactly: {coutn: 2, " in out
    assert "+spec: {devices: {requests: [{name: g, exactly: {count: 2, " in out
    assert run(capsys, "--mended", file)[1] == before.replace("coutn", "count")
    assert Path(file).read_text() == before


def test_standard_input_goes_mended_to_standard_output() -> None:
    command = [sys.executable, "-m", "baro", "lint", "--fix", "-"]
    text = CLAIM.replace("/v1", "/v1beta2")
    found = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, CLAIM)


def test_files_are_mended_with_all_the_others_in_view(capsys: Capture, tmp_path: Path) -> None:
    write(tmp_path, CLAIM, "claim.yaml")
    pod = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: x, resources: {claims: [{name: mine, request: gg}]}}]
  resourceClaims: [{name: mine, resourceClaimName: c}]
"""
    write(tmp_path, pod, "pod.yaml")
    assert run(capsys, "--fix", str(tmp_path))[0] == 0
    assert "request: g}" in (tmp_path / "pod.yaml").read_text()


# --- evidence --------------------------------------------------------------------------------------------


def test_slices_of_a_dump_decide_and_are_not_judged(capsys: Capture, tmp_path: Path) -> None:
    device = {"name": "d", "attributes": {"type": {"string": "gpu"}, "colour": {"string": "red"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "node-a", "pool": pool, "devices": [device]}
    items = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    ]
    dump = write(tmp_path, json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "dump.json")
    selector = (
        "selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].colour == 'red'\"}}], device"
    )
    claim = write(tmp_path, CLAIM.replace("device", selector, 2).replace(selector, "device", 1))
    assert run(capsys, claim)[0] == 1
    assert run(capsys, claim, "--from", dump) == (
        0,
        "",
        "1 document, judged against the ResourceSlices given: no findings\n",
    )


# --- a live server ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_in_thread(create_app()) as running:
        yield running.url


def test_a_live_server_is_asked_and_both_answers_are_shown(capsys: Capture, tmp_path: Path, url: str) -> None:
    file = write(tmp_path, f"{CLAIM}---\n{CLAIM.replace('exactly: {', 'exactly: {count: -1, ')}")
    code, out, _ = run(capsys, file, "--server", "--url", url)
    assert code == 1
    assert "server:  accepted" in out
    assert "must be greater than zero" in out
    body = json.loads(run(capsys, file, "--server", "--url", url, "-o", "json")[1])
    answers = [document["server"] for document in body["documents"]]
    assert [answer["accepted"] for answer in answers] == [True, False]
    assert [answer["sameWords"] for answer in answers] == [True, True]


def test_slices_and_classes_of_the_server_are_the_yardstick(capsys: Capture, tmp_path: Path) -> None:
    device = {"name": "d", "attributes": {"colour": {"string": "red"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "node-a", "pool": pool, "devices": [device]}
    selectors = [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]
    objects = {
        "resourceslices": {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
        "deviceclasses": {
            "kind": "DeviceClass",
            "metadata": {"name": "mine"},
            "spec": {"selectors": selectors},
        },
    }
    expression = "device.attributes['gpu.nvidia.com'].colour == 'red'"
    colour = f'selectors: [{{cel: {{expression: "{expression}"}}}}], deviceClassName: mine'
    file = write(tmp_path, CLAIM.replace("deviceClassName: gpu.nvidia.com", colour))
    with run_in_thread(create_app()) as running, KubeClient(load(url=running.url)) as client:
        for plural, body in objects.items():
            sent = {"apiVersion": "resource.k8s.io/v1", **body}
            assert client._http.post(f"apis/resource.k8s.io/v1/{plural}", json=sent).status_code == 201
        code, out, err = run(capsys, file, "--server", "--url", running.url)
        assert (code, "class-not-in-files" in out) == (0, False)
        assert "judged against the ResourceSlices given: no findings" in err
        blue = write(tmp_path, Path(file).read_text().replace("'red'", "'blue'"), "blue.yaml")
        assert "selector-matches-nothing" in run(capsys, blue, "--server", "--url", running.url)[1]


def test_a_dry_run_stores_nothing_and_updates_what_is_there(url: str) -> None:
    body = yaml.safe_load(CLAIM)
    with KubeClient(load(url=url)) as client:
        assert dry_run(client, body, "default").code == 201
        assert dry_run(client, body, "default").code == 201
        client._http.post("apis/resource.k8s.io/v1/namespaces/default/resourceclaims", json=body)
        assert dry_run(client, body, "default").code == 200
        changed = {**body, "spec": {"devices": {"requests": []}}}
        answer = dry_run(client, changed, "default")
        assert answer.accepted is False
        assert "field is immutable" in answer.message
        assert dry_run(client, {"apiVersion": "a/v1", "kind": "B"}, "default").accepted is None


@pytest.mark.parametrize(
    ("code", "accepted"), [(403, None), (404, False), (422, False), (500, None), (429, None)]
)
def test_an_answer_that_is_no_judgement_is_none(code: int, accepted: bool | None) -> None:
    status = {"kind": "Status", "message": "because", "reason": "R"}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(code, json=status))
    with KubeClient(load(url="http://localhost:1"), transport=transport) as client:
        answer = dry_run(client, yaml.safe_load(CLAIM), "default")
    assert answer.accepted is accepted
    assert "because" in answer.message


def test_a_server_that_refuses_what_lint_accepts_is_a_finding(capsys: Capture, tmp_path: Path) -> None:
    from baro.cli.lint_server import Answer, Live
    from baro.diagnosis.catalogue import built_in
    from baro.diagnosis.lint import lint_all
    from baro.kube.dryrun import DryRun

    (judged,) = lint_all(load_paths([write(tmp_path, CLAIM)]), built_in())
    refused = DryRun(accepted=False, message="exceeded quota", code=403)
    noted = Live.noted(Live.__new__(Live), judged, Answer(live=refused, offline=judged.server))
    assert [finding.code for finding in noted.findings] == ["server-refuses"]


def test_a_server_that_does_not_answer_is_3(capsys: Capture, tmp_path: Path) -> None:
    code, out, err = run(capsys, write(tmp_path, CLAIM), "--server", "--url", "http://127.0.0.1:9")
    assert (code, out) == (3, "")
    assert err.count("error:") == 1


# --- odd input -------------------------------------------------------------------------------------------

LOOP = "apiVersion: v1\nkind: List\nitems: &a [*a]\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", 3),
        (b"\0\1\2", 3),
        (b"\x1f\x8b123", 3),
        (CLAIM.encode()[:-20], 3),
        (CLAIM.replace("\nspec", "\n\tspec").encode(), 3),
        (CLAIM.replace("metadata", "kind: X\nmetadata").encode(), 3),
        (LOOP.encode(), 3),
        (CLAIM.replace("name: c", "name: {{ .Values.name }}").encode(), 3),
        (b"\xff\xfe" + CLAIM.encode("utf-16-le"), 0),
        (b"\xef\xbb\xbf" + CLAIM.encode(), 0),
        (CLAIM.replace("\n", "\r\n").encode(), 0),
        (f"---\n# Source: chart/templates/claim.yaml\n{CLAIM}---\n# Source: empty.yaml\n".encode(), 0),
        (CLAIM.replace("exactly: {", "exactly: {<<: {count: 1}, ").encode(), 0),
        (CLAIM.replace("name: c", "name: c, labels: {a: &x z, b: *x}").encode(), 0),
        (json.dumps(yaml.safe_load(CLAIM)).encode(), 0),
    ],
)  # fmt: skip
def test_every_file_gives_an_answer_or_one_clear_error(
    text: bytes, code: int, capsys: Capture, tmp_path: Path
) -> None:
    file = write(tmp_path, text)
    for options in ((), ("--diff",), ("-o", "sarif")):
        found, _, err = run(capsys, file, *options)
        assert found == code
        assert err.count("error:") == (code == 3)
    assert Path(file).read_bytes() == text


def test_in_a_folder_what_is_no_object_is_left_out_and_named(capsys: Capture, tmp_path: Path) -> None:
    write(tmp_path, CLAIM)
    write(tmp_path, "replicas: 3\n", "values.yaml")
    write(tmp_path, "# nothing\n", "empty.yaml")
    code, out, err = run(capsys, str(tmp_path))
    assert (code, out) == (0, "")
    assert "values.yaml is left out: Object 'Kind' is missing" in err
    assert "1 document" in err
    write(tmp_path, "a: [\n", "broken.yaml")
    assert run(capsys, str(tmp_path))[0] == 3
    assert run(capsys, str(tmp_path / "values.yaml"))[0] == 3


def test_a_template_that_is_not_rendered_is_one_clear_error(capsys: Capture, tmp_path: Path) -> None:
    err = run(capsys, write(tmp_path, CLAIM.replace("name: c", "name: {{ .Values.name }}")))[2]
    assert "render it first, for instance with `helm template`" in err


def test_columns_count_characters_behind_letters_of_any_script(capsys: Capture, tmp_path: Path) -> None:
    expression = "device.driver == '중국 é' && device.driver = 'b'"
    request = f'exactly: {{selectors: [{{cel: {{expression: "{expression}"}}}}], '
    text = CLAIM.replace("exactly: {", request)
    body = json.loads(run(capsys, write(tmp_path, text), "-o", "json")[1])
    (finding,) = [one for one in body["findings"] if one["code"] == "cel-syntax"]
    line = text.splitlines()[finding["line"] - 1]
    assert line[finding["column"] - 1 :].startswith("= 'b'")


def test_a_file_that_may_not_be_written_is_3_and_stays(capsys: Capture, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    file = write(tmp_path, CLAIM.replace("/v1", "/v1beta2"))
    tmp_path.chmod(0o500)
    try:
        assert run(capsys, "--fix", file)[0] == 3
    finally:
        tmp_path.chmod(0o700)
