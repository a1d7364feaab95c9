"""``baro diagnose`` and ``baro snapshot`` as a user runs them on files: formats, exit codes, bad input."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from baro.cli import main
from tests.support.diagnosis import Body, event, gpus, node, pod, resource_slice


def _write(folder: Path, bodies: list[Body], name: str = "dump.json") -> str:
    file = folder / name
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))
    return str(file)


SICK = [node(capacity={"nvidia.com/gpu": 8}, allocatable={"nvidia.com/gpu": 0})]
WARNED = [node(), resource_slice("node-a", gpus(2)), resource_slice("node-b", gpus(2))]
WELL = [node(capacity={"nvidia.com/gpu": 8})]


@pytest.mark.parametrize(
    ("bodies", "options", "code"),
    [
        (SICK, [], 1),
        (SICK, ["--fail-on", "never"], 0),
        (WELL, [], 0),
        (WARNED, [], 1),
        (WARNED, ["--fail-on", "error"], 0),
        (SICK, ["--check", "split"], 0),
    ],
)
def test_the_exit_code_follows_fail_on(
    tmp_path: Path, bodies: list[Body], options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "--from", _write(tmp_path, bodies), *options]) == code
    assert capsys.readouterr().err == ""


def test_json_and_yaml_are_the_same_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _write(tmp_path, SICK)
    main(["diagnose", "--from", file, "-o", "json"])
    as_json = json.loads(capsys.readouterr().out)
    main(["diagnose", "--from", file, "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == as_json
    assert as_json["summary"]["answer"] == "8 of 8 GPUs wasted: 8 not ready"


def test_objects_and_captures_of_several_files_are_judged_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "evidence"
    (folder / "node-a").mkdir(parents=True)
    _write(folder, [node(), resource_slice("node-a", gpus(1))])
    (folder / "node-a" / "dmesg.txt").write_text("[1.0] NVRM: Xid (PCI:0000:12:00): 79, x\n")
    stdin = json.dumps(event("DRA driver d.example is not registered", pod="p"))
    (tmp_path / "event.json").write_text(stdin)
    code = main([
        "diagnose", "--from", str(folder), "--from", str(tmp_path / "event.json"), "-o", "json",
    ])  # fmt: skip
    found = {item["code"]: item["node"] for item in json.loads(capsys.readouterr().out)["problems"]}
    assert code == 1
    assert found == {"xid-fatal": "node-a", "dra-driver-not-registered": "node-a"}


def test_the_page_is_written_beside_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main(["diagnose", "--from", _write(tmp_path, SICK), "--html", str(page)]) == 1
    assert page.read_text().startswith("<!doctype html>")
    assert main(["diagnose", "--from", _write(tmp_path, SICK), "--html", str(tmp_path / "no" / "x")]) == 3
    assert "cannot write the page" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no object in it"),
        (b"\x00\x01\x02\x00", "binary"),
        (b"hello world, nothing to see\n", "neither Kubernetes objects nor a capture"),
        (b'{"apiVersion": "v1", "kind": "List", "items": [', "ends too early"),
        (b"apiVersion: v1\nkind: [\n", ":"),
        (b"- 1\n- 2\n", "neither Kubernetes objects nor a capture"),
        (b"\x1f\x8b\x08\x00 gz", "gzip"),
        (b"a: &a [*a]\napiVersion: v1\nkind: Node\n", ""),
        (b"[" * 5000, "nested"),
    ],
)
def test_bad_files_are_one_clear_error(
    tmp_path: Path, content: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    assert main(["diagnose", "--from", str(file)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    assert err.startswith("error: ")


def test_a_missing_file_and_an_empty_folder_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "--from", str(tmp_path / "none.yaml")]) == 3
    assert main(["diagnose", "--from", str(tmp_path)]) == 3
    assert "no Kubernetes object and no capture" in capsys.readouterr().err


def test_one_stray_file_in_a_folder_is_named_and_does_not_stop_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, SICK)
    (tmp_path / "notes.txt").write_text("remember the milk\n")
    assert main(["diagnose", "--from", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "8 of 8 GPUs wasted" in out
    assert "notes.txt: neither Kubernetes objects" in out


def test_an_object_with_wrong_types_is_named_and_the_others_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken: Body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"nodeName": {}}}
    assert main(["diagnose", "--from", _write(tmp_path, [*SICK, broken])]) == 1
    assert "unreadable: " in capsys.readouterr().out


def test_files_and_a_cluster_together_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--from", "x", "--context", "y"]) == 2
    assert main(["diagnose", "-n", "x", "-A"]) == 2


# --- snapshot ---------------------------------------------------------------------------------------------


def _contents(folder: Path) -> Mapping[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_snapshot_is_a_file_or_a_new_folder_that_only_its_owner_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = _write(tmp_path, [*SICK, pod("p", node="node-a")])
    file, folder = tmp_path / "s.json", tmp_path / "s"
    os.umask(0o022)
    for target in (file, folder):
        assert main(["snapshot", "--from", dump, "-o", str(target)]) == 0
        main(["diagnose", "--from", str(target), "-o", "json"])
    reports = capsys.readouterr().out.split("}\n{")
    assert len(reports) == 2
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {item.stat().st_mode & 0o777 for item in folder.iterdir()} == {0o600}
    assert set(_contents(folder)) == {"node.json", "pod.json", "snapshotrecord.json"}


def test_a_snapshot_overwrites_no_folder_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = _write(tmp_path, SICK)
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "mine").write_text("x")
    assert main(["snapshot", "--from", dump, "-o", str(folder)]) == 3
    assert "there is something already" in capsys.readouterr().err
    assert main(["snapshot", "--from", dump, "-o", str(tmp_path / "no" / "s.json")]) == 3
    assert "cannot write the snapshot" in capsys.readouterr().err
    assert {item.name for item in tmp_path.iterdir()} == {"dump.json", "full"}
