"""``baro topo`` as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from baro.cli.topo import command, parse_machine
from baro.model.errors import BaroError, InputError
from baro.topology.document import to_document
from baro.topology.profiles import load_profile
from baro.topology.topo_m import parse, render
from tests.support import shared
from tests.support.topology import golden


def topo(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(command, arguments, input=stdin, standalone_mode=False)


def failed(result: Result) -> BaroError:
    assert isinstance(result.exception, BaroError), result.exception
    return result.exception


@pytest.mark.parametrize("name", ["h200-nvl-8", "dgx-1v", "b200-8-degraded", "vm-h100-8", "l40s-8-switches"])
def test_the_text_view_stays_as_committed(name: str) -> None:
    text = topo("--profile", name).output
    assert text == golden(f"{name}.view.txt", text)


def test_a_set_is_compared_with_the_best_of_its_size() -> None:
    text = topo("--profile", "h200-nvl-8", "--set", "0,1,4,5").output
    assert "this set     {0,1,4,5}  24.5 GB/s ring, slowest hop 0-5 SYS (inferred)" in text
    assert "best set     {0-3}  450 GB/s ring" in text
    assert "18.4 times this set" in text
    assert "no set of this size is better" in topo("--profile", "h200-nvl-8", "--set", "4-7").output
    assert "one GPU needs no ring" in topo("--profile", "h200-nvl-8", "--set", "4").output


def test_json_and_yaml_are_the_document() -> None:
    document = json.loads(json.dumps(to_document(load_profile("dgx-1v").machine())))
    assert json.loads(topo("--profile", "dgx-1v", "-o", "json").output) == document
    assert yaml.safe_load(topo("--profile", "dgx-1v", "-o", "yaml").output) == document


def test_json_of_a_set_has_both_sets() -> None:
    sets = json.loads(topo("--profile", "h200-nvl-8", "--set", "0,1,4,5", "-o", "json").output)["sets"]
    assert [(s["which"], s["gpus"], s["gbps"]) for s in sets] == [
        ("asked", [0, 1, 4, 5], 24.5),
        ("best", [0, 1, 2, 3], 450.0),
    ]
    assert sets[0]["slowestHop"] == [0, 5]


def test_every_output_is_an_input(tmp_path: Path) -> None:
    machine = load_profile("h200-nvl-8").machine()
    for output in ("json", "yaml", "topo-m", "text"):
        file = tmp_path / f"machine.{output}"
        file.write_text(topo("--profile", "h200-nvl-8", "-o", output).output, encoding="utf-8")
        body = json.loads(topo(str(file), "-o", "json").output)
        assert body["islands"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert {name: link["kind"] for name, link in body["links"].items()} == {
            f"{a}-{b}": link.kind for (a, b), link in machine.links.items()
        }


def test_stdin_file_and_profile_give_the_same_machine(tmp_path: Path) -> None:
    text = render(load_profile("azure-nc96-a100-4").machine())
    file = tmp_path / "topo.txt"
    file.write_text(text, encoding="utf-8")
    assert topo("-", "-o", "topo-m", stdin=text).output == topo(str(file), "-o", "topo-m").output
    assert "<stdin>" in topo("-", stdin=text).output


def test_a_profile_file_is_a_machine(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "# mine\napiVersion: baro.dev/v1alpha1\nkind: MachineProfile\n"
        "name: mine\ntitle: one card\nproduct: NVIDIA L4\n"
        'gpus: [{pci: "0000:01:00.0", root: "0000:00"}]\n',
        encoding="utf-8",
    )
    assert topo(str(file)).output.startswith("1× NVIDIA L4  (profile mine)")
    assert topo("--profile", str(file)).output == topo(str(file)).output


def test_a_prompt_with_brackets_is_not_json() -> None:
    text = "[root@node ~]# nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n"
    assert parse_machine(text.encode(), "x").links == parse(text).links


def test_the_xml_of_nvidia_smi_is_read() -> None:
    file = shared.path("data/gpu-captures/28-nvidia-smi-qx-h100.xml")
    body = json.loads(topo(str(file), "-o", "json").output)
    assert body["kind"] == "MachineTopology"
    assert body["devices"]["0"]["memoryMiB"] == 81559


def test_the_picture_is_xml() -> None:
    assert topo("--profile", "dgx-2", "-o", "svg").output.startswith("<svg xmlns=")


def test_profiles_are_listed_as_text_and_json() -> None:
    assert "h200-nvl-8-interleaved" in topo("--list-profiles").output
    items = json.loads(topo("--list-profiles", "-o", "json").output)["items"]
    assert {
        "name": "dgx-2",
        "title": "DGX-2, 16× V100 on NVSwitch",
        "gpus": 16,
        "product": "Tesla V100-SXM3-32GB",
    } in items


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a.txt", "--profile", "dgx-2"),
        ("--profile", "dgx-2", "-o", "png"),
        ("--profile", "dgx-2", "--set", "0,99"),
        ("--profile", "dgx-2", "--set", "all"),
        ("--profile", "dgx-2", "--set", ""),
    ],
)
def test_wrong_use_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b"", "empty"),
        (b"Failed to initialize NVML: Driver/library version mismatch\n", "Failed to initialize NVML"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "binary"),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "no machine"),
        (b"{", ""),
        (b"kind: [", ""),
        (b"kind: MachineTopology\n", ""),
        (b"apiVersion: baro.dev/v1alpha1\nkind: MachineProfile\nname: x\n", "title"),
        (b"apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n", "2 documents"),
        (b"[" * 100_000, "["),
    ],
)
def test_bad_input_is_one_clear_error(text: bytes, quoted: str, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_bytes(text)
    error = failed(topo(str(file)))
    assert error.exit_code == 3
    assert isinstance(error, InputError)
    assert quoted in error.what
    assert error.where.file == str(file)


def test_missing_files_and_folders_are_errors(tmp_path: Path) -> None:
    assert "cannot read" in failed(topo(str(tmp_path / "none"))).what
    assert "cannot read" in failed(topo(str(tmp_path))).what
    assert "no machine profile" in failed(topo("--profile", "nope")).what
