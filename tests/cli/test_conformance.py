"""``baro conformance``: answers as JSON lines, agreement on stderr, exit codes, errors about the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cli import report
from baro.cli.conformance import command
from baro.conformance import Tally, allocation, validation
from baro.conformance.reading import records
from baro.model.errors import BaroError, InputError
from tests.support import shared
from tests.support.schema import JSON, claim_body, slice_body

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``baro conformance``; gives (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            code = command.main(arguments, "conformance", standalone_mode=False)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except BaroError as error:
            report(error)
            code = error.exit_code
        out, err = capsys.readouterr()
        return code, out, err

    return call


def _file(folder: Path, *lines: Any) -> str:
    path = folder / "records.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return str(path)


CREATE = {"name": "good", "category": "claim", "operation": "create", "object": claim_body()}
WRONG = {**CREATE, "name": "bad", "object": claim_body(count=-1)}
PATH = "spec.devices.requests[0].exactly.count"
MESSAGE = (
    f'ResourceClaim.resource.k8s.io "c" is invalid: {PATH}: Invalid value: -1: must be greater than zero'
)


# --- validate --------------------------------------------------------------------------------------------


def test_validate_answers_one_line_per_record(run: Run, tmp_path: Path) -> None:
    code, out, err = run("validate", _file(tmp_path, CREATE, WRONG))
    good, bad = map(json.loads, out.splitlines())
    assert code == 0  # nothing was recorded, so nothing differs
    assert err == ""
    assert (good["name"], good["accepted"], good["errors"]) == ("good", True, [])
    request = good["readBack"]["spec"]["devices"]["requests"][0]
    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert bad == {
        "name": "bad",
        "accepted": False,
        "code": 422,
        "errors": [
            {
                "path": PATH,
                "message": "Invalid value: -1: must be greater than zero",
                "reason": "FieldValueInvalid",
            }
        ],
        "message": MESSAGE,
    }


def test_validate_counts_agreement_and_ends_with_1_on_a_difference(run: Run, tmp_path: Path) -> None:
    recorded = {
        **WRONG,
        "accepted": False,
        "message": MESSAGE,
        "causes": [{"field": PATH, "message": "Invalid value: -1: must be greater than zero"}],
    }
    code, _, err = run("validate", _file(tmp_path, {**CREATE, "accepted": True}, recorded))
    assert code == 0
    assert err.splitlines()[-1].split() == ["all", "2/2", "1/1", "1/1"]
    code, _, err = run("validate", _file(tmp_path, {**CREATE, "accepted": False}))
    assert code == 1
    assert "differs: good: verdict" in err


def test_the_version_decides_which_recorded_answer_counts(run: Run, tmp_path: Path) -> None:
    record = {
        "name": "newer",
        "category": "gates",
        "operation": "create",
        "object": slice_body({"name": "d0"}, skipNodeOperations=["*"]),
        "accepted": False,
        "code": 400,
        "v1_37": {"accepted": True, "code": 201},
    }
    file = _file(tmp_path, record)
    assert run("validate", "--kube-version", "1.36", file)[0] == 0
    assert run("validate", file)[0] == 0
    assert run("validate", "--kube-version", "1.30", file)[0] == 2


def test_fields_behind_gates_are_not_read_back(run: Run, tmp_path: Path) -> None:
    body = slice_body({"name": "d0", "taints": [{"key": "k", "effect": "None"}]}, skipNodeOperations=["*"])
    record = {"name": "gated", "operation": "create", "object": body}
    spec = json.loads(run("validate", _file(tmp_path, record))[1])["readBack"]["spec"]
    assert "skipNodeOperations" not in spec
    assert spec["devices"][0]["taints"] == [{"key": "k", "effect": "None"}]


def test_updates_and_texts_are_judged(run: Run, tmp_path: Path) -> None:
    update = {"name": "u", "operation": "update", "object": claim_body(count=2), "old": claim_body()}
    stale = {"name": "u/stale-rv", "operation": "update", "object": claim_body(), "old": claim_body()}
    text = {"name": "t", "operation": "create", "raw": "hello"}
    _, out, _ = run("validate", _file(tmp_path, update, stale, text))
    changed, conflict, garbage = map(json.loads, out.splitlines())
    assert changed["errors"][0]["message"] == "Invalid value: null: field is immutable"
    assert (conflict["code"], garbage["code"]) == (409, 400)
    assert garbage["message"].startswith(
        "the object provided is unrecognized (must be of type ResourceSlice)"
    )


def _tally(version: str) -> Tally:
    tally = Tally()
    with shared.path("data/strict-oracle.jsonl").open("rb") as stream:
        for record in records(stream, "oracle"):
            expected = validation.recorded(record, version)
            assert expected is not None
            ours = validation.answer(record, version)
            agreed = validation.agreement(ours, expected, validation.sent(record))
            tally.add(record["name"], record["category"], agreed)
    return tally


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_real_servers_and_we_agree_on_every_recorded_write(version: str) -> None:
    tally = _tally(version)
    assert tally.records >= 400
    assert tally.differences == []
    assert set(tally.aspects) == {"verdict", "paths", "text", "readBack"}


# --- cel and allocate ------------------------------------------------------------------------------------


def test_validate_names_each_record_that_cannot_be_used_and_answers_the_others(
    run: Run, tmp_path: Path
) -> None:
    rule = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}}
    good = {"name": "good", "operation": "create", "object": rule}
    lines = [
        json.dumps(good),
        json.dumps({"nmae": "x", "objct": rule}),
        json.dumps(good)[:-9],
        json.dumps({**good, "name": "op", "operation": "destroy"}),
        json.dumps({"name": "text", "raw": 5}),
        json.dumps({**good, "name": "old", "operation": "update"}),
        json.dumps({**good, "name": "huge", "raw": "[" * 1_000_000}),
        "[]",
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    code, out, err = run("validate", str(path))
    assert code == 3
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["good", "huge"]
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors] == [
        f"{path}:2", f"{path}:3", f"{path}:4, op", f"{path}:5, text", f"{path}:6, old", f"{path}:8",
    ]  # fmt: skip
    assert err.splitlines()[-1] == "6 of 8 records could not be used"


def test_cel_answers_with_the_keys_of_the_oracle(run: Run, tmp_path: Path) -> None:
    device = {"name": "gpu", "driver": "d.example.com", "attributes": {"n": {"int": 4}}}
    right = {
        "name": "a",
        "category": "x",
        "expr": "device.attributes['d.example.com'].n > 3",
        "device": device,
    }
    wrong = {**right, "name": "b", "expr": "device.nope"}
    failing = {**right, "name": "c", "expr": "device.attributes['d.example.com'].gone == 1"}
    code, out, err = run("cel", _file(tmp_path, right, wrong, failing))
    first, second, third = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert first["compile"] | {"ok": True, "outputType": "bool"} == first["compile"]
    assert first["eval"]["result"] is True
    assert second["compile"]["ok"] is False
    assert "undefined field 'nope'" in second["compile"]["error"]
    assert "eval" not in second
    assert third["eval"]["result"] == "error"
    assert third["eval"]["error"] == "no such key: gone"


def test_cel_names_each_record_that_cannot_be_used_and_answers_the_others(run: Run, tmp_path: Path) -> None:
    good = {"name": "good", "expr": "device.driver == 'd'", "device": {"driver": "d"}}
    lines = [
        json.dumps({"name": "no-expr", "device": {}}),
        json.dumps(good),
        "{broken",
        json.dumps({**good, "name": "no-device", "device": [1]}),
        json.dumps({**good, "name": "no-quantity", "device": {"capacity": {"m": {"value": "1x"}}}}),
        "[1, 2]",
        json.dumps({**good, "name": "no-answer", "eval": "true"}),
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    code, out, err = run("cel", str(path))
    assert code == 3
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["good"]
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors] == [
        f"{path}:1, no-expr", f"{path}:3", f"{path}:4, no-device, device", f"{path}:5, device", f"{path}:6",
        f"{path}:7, no-answer, eval",
    ]  # fmt: skip
    assert err.splitlines()[-1] == "6 of 7 records could not be used"


@pytest.mark.parametrize(
    "text", ["{broken\n{also", "\x00\xff", "[1", "[[[[", '{"instances": 3}', "[" * 100_000]
)
def test_a_file_without_any_record_is_one_error(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(text, encoding="utf-8")
    code, out, err = run("cel", str(path))
    assert (code, out) == (3, "")
    assert err.startswith(f"error: {path}")


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["name", "category", "expr", "device", "compile", "admission", "eval", "v1_37"]),
        JSON | st.sampled_from(["device.driver == 'd'", "true", "("]),
    )
)
def test_no_record_of_cel_crashes_the_command(record: dict[str, Any]) -> None:
    from baro.conformance import cel as room

    try:
        read = room.read(record)
        ours = room.answer(read)
    except InputError as error:
        assert error.what
        return
    assert set(ours) <= {"name", "compile", "admission", "eval"}
    room.agreement(ours, read, record)


def test_cel_counts_agreement(run: Run, tmp_path: Path) -> None:
    record = {
        "name": "a",
        "category": "x",
        "expr": "1 == 1",
        "device": {"driver": "d"},
        "compile": {"ok": True, "outputType": "bool"},
        "eval": {"result": False},
    }
    code, _, err = run("cel", _file(tmp_path, record))
    assert code == 1
    assert "differs: a: result" in err
    assert run("cel", _file(tmp_path, {**record, "v1_37": {"eval": {"result": True}}}))[0] == 0


def _instance(**parts: Any) -> dict[str, Any]:
    expression = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
    return {
        "name": "one",
        "category": "basic",
        "features": [],
        "node": {"metadata": {"name": "node-a"}},
        "deviceClasses": [{"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": [expression]}}],
        "resourceSlices": [slice_body({"name": "d0"}, {"name": "d1"})],
        "claims": [claim_body(count=2)],
        "allocated": [],
        **parts,
    }


def test_allocate_gives_outcome_and_allocation(run: Run, tmp_path: Path) -> None:
    too_many = _instance(name="two", claims=[claim_body(count=3)])
    no_class = _instance(name="three", deviceClasses=[])
    code, out, err = run("allocate", _file(tmp_path, _instance(), too_many, no_class))
    fits, no_fit, error = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert fits["outcome"] == "fits"
    results = fits["allocation"][0]["devices"]["results"]
    assert [result["device"] for result in results] == ["d0", "d1"]
    assert (no_fit["outcome"], no_fit["allocation"]) == ("no-fit", [])
    assert error["outcome"] == "error"
    assert "could not retrieve device class" in error["error"]


def test_allocate_compares_devices_under_first_fit_only(run: Run, tmp_path: Path) -> None:
    other = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "d1"}
    answer = {"incubating": {"fits": True, "results": [{"devices": {"results": [other]}}]}}
    file = _file(tmp_path, _instance(claims=[claim_body(count=1)], result=answer))
    code, _, err = run("allocate", file)
    assert code == 1
    assert "differs: one: devices" in err
    assert run("allocate", "--policy", "topology", file)[0] == 0
    assert run("allocate", "--policy", "best-effort", file)[0] == 0


def test_a_document_of_instances_is_read_like_lines(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"version": "x", "instances": [_instance(), _instance(name="two")]}, indent=1))
    _, out, _ = run("allocate", str(path))
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("cases", "first-fit"),
        ("cases", "topology"),
        ("cases", "best-effort"),
        ("oracle", "topology"),
        ("slow", "topology"),
    ],
)
def test_upstream_and_we_agree_about_whole_documents(run: Run, name: str, policy: str) -> None:
    # The oracle under first-fit is the allocator's own test.
    code, _, err = run("allocate", "--policy", policy, str(shared.path(f"data/allocator-{name}.json")))
    assert code == 0, err[-1000:]


# --- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there is no record in the file"),
        ('{"name": "a"', "no JSON"),
        ('{"expr": "1"}\nnope\n', "records.jsonl:2: no JSON"),
        ("[1]", "a record is a JSON object"),
        ('{"instances": 3}', "instances is no list"),
        ('{"name": "a"}', "a CEL record needs expr"),
    ],
)
def test_a_bad_file_gives_one_error_with_its_place(
    run: Run, tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(text, encoding="utf-8")
    code, _, err = run("cel", str(path))
    assert code == 3
    assert complaint in err
    assert "Traceback" not in err


def test_json_lines_are_read_one_by_one() -> None:
    def lines() -> Iterator[bytes]:
        yield b'\n{"name": "first"}\n'
        raise AssertionError("read too far")

    assert next(records(lines(), "stream")) == {"name": "first"}


def test_an_expression_that_crashes_a_real_server_is_refused_in_plain_words(run: Run, tmp_path: Path) -> None:
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "c"},
        "spec": {"selectors": [{"cel": {"expression": "{b'a': 1}.size() == 1"}}]},
    }
    _, out, _ = run("validate", _file(tmp_path, {"name": "crash", "operation": "create", "object": body}))
    answer = json.loads(out)
    assert answer["code"] == 422
    assert "a real API server crashes on this expression" in answer["errors"][0]["message"]


def test_a_missing_file_is_an_error(run: Run, tmp_path: Path) -> None:
    code, _, err = run("validate", str(tmp_path / "absent"))
    assert code == 3
    assert "No such file or directory" in err


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from(["object", "old", "raw", "path", "operation", "name"]), JSON))
def test_garbage_records_are_answered_without_a_traceback(record: dict[str, Any]) -> None:
    try:
        answer = validation.answer({"operation": "create", **record})
    except InputError:
        return  # one clear error, with its line: see the test of records that are none
    json.dumps(answer.document("x"))


@settings(deadline=None, max_examples=100)
@given(JSON)
def test_garbage_instances_are_input_errors(body: Any) -> None:
    with pytest.raises(InputError):
        allocation.read({"name": "x", "claims": [body], "node": body})
