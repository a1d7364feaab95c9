"""``nvidia-smi topo -m`` as people paste it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.model.errors import InputError, TooLargeError
from baro.topology import matrix
from baro.topology.bandwidth import predict
from baro.topology.islands import islands, pcie_groups
from baro.topology.links import nearest_nic, nearest_nics
from baro.topology.machine import Machine
from baro.topology.topo_m import merge_p2p, parse, parse_p2p, render
from tests.support import shared
from tests.support.topology import machines

PAIR = """
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tPIX\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

NIC Legend:

  NIC0: mlx5_0
"""


def codes(machine: Machine) -> list[str]:
    return [warning.code for warning in machine.warnings]


def numa_of(machine: Machine) -> dict[int, list[int]]:
    """NUMA node → GPUs, as the public cases write it."""
    nodes: dict[int, list[int]] = {}
    for gpu in machine.gpus:
        assert gpu.numa is not None
        nodes.setdefault(gpu.numa[0], []).append(gpu.index)
    return nodes


def case(number: str) -> tuple[Machine, dict[str, Any]]:
    inputs, expect = shared.case(number)
    return parse(inputs["topo.txt"], f"case {number}"), expect


def test_the_plain_output_is_read_whole() -> None:
    machine = parse(PAIR, "pair.txt")
    assert [gpu.index for gpu in machine.gpus] == [0, 1]
    assert [(nic.name, nic.device) for nic in machine.nics] == [("NIC0", "mlx5_0")]
    assert machine.links[0, 1].kind == "NV12"
    assert machine.links[0, 1].nvlinks == 12
    assert machine.gpus[1].numa == (1,)
    assert machine.gpus[1].cpus == tuple(range(32, 64))
    assert machine.nic_links == {(0, "NIC0"): "PIX", (1, "NIC0"): "SYS"}
    assert (nearest_nic(machine, 0), nearest_nic(machine, 1)) == ("NIC0", None)
    assert machine.warnings == ()


@pytest.mark.parametrize("number", ["001", "004", "005", "006", "007", "008", "009", "013", "014"])
def test_the_islands_of_public_cases(number: str) -> None:
    machine, expect = case(number)
    assert [list(group) for group in islands(machine).best] == expect["nvlink_groups"]


@pytest.mark.parametrize("number", ["001", "006", "007", "008"])
def test_the_numa_nodes_of_public_cases(number: str) -> None:
    machine, expect = case(number)
    assert numa_of(machine) == expect["numa"]


@pytest.mark.parametrize("number", ["007", "013", "018"])
def test_the_nearest_nics_of_public_cases(number: str) -> None:
    machine, expect = case(number)
    assert {gpu: nearest_nic(machine, gpu) for gpu in expect["nearest_nic"]} == expect["nearest_nic"]


@pytest.mark.parametrize("number", ["001", "008", "012", "013"])
def test_the_gpu_and_nic_counts_of_public_cases(number: str) -> None:
    machine, expect = case(number)
    assert len(machine.gpus) == expect.get("gpus", 4)
    assert len(machine.nics) == expect.get("nics", 1)


def test_sys_inside_a_numa_node_is_kept_as_printed() -> None:
    machine, expect = case("001")
    assert {f"{a}-{b}": machine.links[a, b].kind for a, b in [(0, 1), (0, 2)]} == expect["link"]
    assert max(len(group) for group in islands(machine).best) < 4


def test_coherent_gpus_have_a_cpu_node_and_a_node_of_their_own() -> None:
    machine, expect = case("004")
    assert {gpu.index: (gpu.numa or (None,))[0] for gpu in machine.gpus} == expect["cpu_numa"]
    assert {gpu.index: gpu.gpu_numa_id for gpu in machine.gpus} == expect["gpu_numa_id"]
    assert {nearest_nic(machine, gpu.index) for gpu in machine.gpus} == {None}
    assert not machine.numa_hidden


def test_a_virtual_machine_keeps_nvlink_and_loses_numa() -> None:
    machine, expect = case("005")
    assert [gpu.index for gpu in machine.gpus] == expect["gpus"]
    assert machine.numa_hidden
    (warning,) = machine.warnings
    assert expect["warning_contains"] in warning.message
    assert {nearest_nic(machine, gpu.index) for gpu in machine.gpus} == {None}
    assert predict(machine, [4, 5, 6, 7]).gbps == 450.0


def test_interleaved_cpu_lists_are_kept_in_order() -> None:
    machine, expect = case("007")
    assert list(machine.gpus[0].cpus or ()) == expect["cpus"][0]
    assert machine.links[0, 1].nvlinks == expect["nvlink_links"]


def test_a_matrix_without_nvlink_on_a_rail_machine_is_suspected_to_be_pcie_only() -> None:
    machine, expect = case("008")
    assert machine.nvlink_unknown
    assert any(expect["warning_contains"] in warning.message for warning in machine.warnings)
    wanted = {gpu: tuple(nics) for gpu, nics in expect["nearest_nics"].items()}
    assert {gpu: nearest_nics(machine, gpu) for gpu in wanted} == wanted
    assert predict(machine, [0, 1]).gbps is None


def test_a_gpu_with_fewer_links_is_degraded_and_avoided() -> None:
    machine, expect = case("009")
    links = {f"{a}-{b}": link.nvlinks for (a, b), link in machine.links.items()}
    assert {name: links[name] for name in expect["links"]} == expect["links"]
    (warning,) = machine.warnings
    assert (warning.code, list(warning.gpus)) == ("nvlink-degraded", expect["degraded_gpus"])
    assert "16 of 18" in warning.message


def test_soc_of_old_drivers_is_sys_and_pix_pairs_are_groups() -> None:
    machine, expect = case("012")
    assert [list(group) for group in pcie_groups(machine)[0].groups] == expect["pcie_switch_groups"]
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tSOC\t0-5\nGPU1\tSOC\tX\t6-11\n"
    assert parse(text).links[0, 1].kind == expect["aliases"]["SOC"]
    assert machine.gpus[0].numa is None


def test_peer_access_from_the_p2p_matrix() -> None:
    inputs, expect = shared.case("015")
    cells = parse_p2p(inputs["p2p.txt"])
    machine = merge_p2p(parse(inputs["topo.txt"]), cells)
    link = machine.links[0, 1]
    assert {"0-1": link.kind} == expect["link"]
    assert {"0-1": link.p2p} == expect["p2p"]
    assert any(expect["diagnose_contains"] in warning.message for warning in machine.warnings)
    both = parse(inputs["topo.txt"] + "\n" + inputs["p2p.txt"])
    assert both.links == machine.links


def test_a_p2p_matrix_alone_is_no_machine() -> None:
    with pytest.raises(InputError, match="peer-to-peer"):
        parse("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n")
    with pytest.raises(InputError, match="no peer-to-peer matrix"):
        parse_p2p(PAIR)


def test_colour_codes_prompts_bars_and_line_ends_do_not_matter() -> None:
    plain = parse(PAIR)
    head, *rows = PAIR.strip("\n").split("\n")
    coloured = "\n".join(["user@host:~$ nvidia-smi topo -m", f"\x1b[4m{head}\x1b[0m", *rows])
    lost_escape = "\n".join([f"[4m{head}[0m", *rows])
    assert parse(coloured) == plain
    assert parse(lost_escape) == plain
    assert parse(PAIR.replace("\n", "\r\n")) == plain
    assert parse("\ufeff" + PAIR) == plain
    assert parse("\n".join(f"> {line}" for line in PAIR.split("\n"))) == plain
    assert parse(PAIR.expandtabs(8)).links == plain.links
    assert parse(PAIR.encode()) == plain


def test_a_markdown_table_is_read() -> None:
    head = "|  | GPU0 | GPU1 | NUMA Affinity |\n|---|---|---|---|\n"
    text = head + "| GPU0 | X | NV4 | 0 |\n| GPU1 | NV4 | X | 0 |\n"
    machine = parse(text)
    assert (machine.links[0, 1].kind, machine.gpus[1].numa) == ("NV4", (0,))


def test_gpu10_comes_after_gpu9() -> None:
    names = [f"GPU{i}" for i in (8, 9, 10, 11)]
    rows = [f"{a}\t" + "\t".join(" X " if a == b else "NV6" for b in names) for a in reversed(names)]
    machine = parse("\t" + "\t".join(names) + "\n" + "\n".join(rows))
    assert [gpu.index for gpu in machine.gpus] == [8, 9, 10, 11]
    assert islands(machine).best == ((8, 9, 10, 11),)


def test_a_single_gpu_is_a_machine() -> None:
    machine = parse("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\tN/A\t\tN/A\n")
    assert (len(machine.gpus), machine.gpus[0].cpus, machine.gpus[0].numa) == (1, tuple(range(8)), None)


@pytest.mark.parametrize(
    ("cell", "wanted"), [("?", None), ("N/A", None), ("", None), ("0", (0,)), ("0-1,4", (0, 1, 4))]
)
def test_affinity_cells(cell: str, wanted: tuple[int, ...] | None) -> None:
    machine = parse(
        f"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tPHB\t{cell}\t0\nGPU1\tPHB\tX\t{cell}\t0\n"
    )
    assert machine.gpus[0].cpus == wanted
    assert machine.gpus[0].numa == (0,)


def test_an_empty_affinity_among_blanks_is_placed_by_its_column() -> None:
    text = (
        "      GPU0  GPU1  CPU Affinity  NUMA Affinity\n"
        "GPU0   X    PHB                 1\n"
        "GPU1  PHB    X    0-3           0\n"
    )
    machine = parse(text)
    assert (machine.gpus[0].cpus, machine.gpus[0].numa) == (None, (1,))
    assert (machine.gpus[1].cpus, machine.gpus[1].numa) == ((0, 1, 2, 3), (0,))


def test_strange_affinities_are_unknown_with_a_warning() -> None:
    machine = parse("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tall\t3-1\n")
    assert (machine.gpus[0].cpus, machine.gpus[0].numa) == (None, None)
    assert codes(machine) == ["unreadable-affinity", "unreadable-affinity"]


def test_when_the_directions_differ_the_weaker_counts() -> None:
    machine = parse("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tPIX\tX\n")
    assert machine.links[0, 1].kind == "PIX"
    assert codes(machine) == ["asymmetric-link"]
    machine = parse("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV2\tX\n")
    assert machine.links[0, 1].nvlinks == 2


def test_unknown_cells_and_cut_rows_stay_unknown() -> None:
    machine = parse("\tGPU0\tGPU1\tGPU2\nGPU0\tX\tXYZ\nGPU1\tXYZ\tX\n")
    assert machine.links == {}
    assert codes(machine) == ["truncated-row", "truncated-row", "unknown-cell", "missing-row"]
    assert [gpu.index for gpu in machine.gpus] == [0, 1, 2]


def test_the_row_that_is_there_tells_the_link_of_a_row_that_is_cut() -> None:
    machine = parse("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\n")
    assert machine.links[0, 1].kind == "NV4"


def test_a_nic_row_tells_what_the_gpu_row_lacks() -> None:
    machine = parse("\tGPU0\tGPU1\tmlx5_0\nGPU0\tX\tPHB\t?\nGPU1\tPHB\tX\t?\nmlx5_0\tPIX\tPHB\tX\n")
    assert machine.nic_links == {(0, "mlx5_0"): "PIX", (1, "mlx5_0"): "PHB"}
    assert machine.nics[0].device == "mlx5_0"


def test_a_prompt_that_shows_topo_mp_makes_nvlink_unknown() -> None:
    machine = parse("$ nvidia-smi topo -mp\n\tGPU0\tGPU1\nGPU0\tX\tPHB\nGPU1\tPHB\tX\n")
    assert machine.nvlink_unknown
    assert "topo -mp" in machine.warnings[0].message


def test_a_board_product_without_nvlink_is_suspect_and_a_card_is_not() -> None:
    from baro.topology.assess import complete
    from tests.support.topology import machine_of

    assert complete(machine_of({}, 2, "NVIDIA H100 80GB HBM3")).nvlink_unknown
    assert not complete(machine_of({}, 2, "NVIDIA L40S")).nvlink_unknown


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "empty"),
        ("\n# only a comment\n", "empty"),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.1",
            "mismatch",
        ),
        ("No devices were found", "No devices were found"),
        ("bash: nvidia-smi: command not found", "command not found"),
        ("\tGPU0\tGPU1\n", "GPU0"),
        ("GPU0 is hot\nGPU1 is cold\n", "GPU0 is hot"),
    ],
)
def test_text_without_a_matrix_is_one_error_that_quotes_it(text: str, quoted: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "topo.txt")
    assert quoted in caught.value.what
    assert caught.value.where.file == "topo.txt"
    assert caught.value.next_step


def test_binary_and_huge_inputs_are_errors() -> None:
    with pytest.raises(InputError, match="binary"):
        parse(b"\x7fELF\x00\x00GPU0")
    with pytest.raises(TooLargeError):
        parse("x" * (matrix.MAX_TEXT_BYTES + 1))
    wide = "\t" + "\t".join(f"n{i}" for i in range(matrix.MAX_COLUMNS + 1))
    with pytest.raises(InputError, match="columns"):
        parse(f"\tGPU0{wide}\nGPU0\tX\n")


def test_more_gpus_than_a_machine_has_are_refused() -> None:
    names = [f"GPU{i}" for i in range(40)]
    with pytest.raises(InputError, match="32 GPUs"):
        parse("\t" + "\t".join(names) + "\n" + "\n".join(f"{name}\tX" for name in names))


def test_an_absurd_range_is_no_list() -> None:
    machine = parse("\tGPU0\tCPU Affinity\nGPU0\tX\t0-99999999\n")
    assert machine.gpus[0].cpus is None


def bare(machine: Machine) -> Machine:
    """What the format carries, without what baro adds."""
    links = {
        pair: msgspec.structs.replace(link, gbps=None, confidence="unknown")
        for pair, link in machine.links.items()
    }
    return msgspec.structs.replace(
        machine, links=links, warnings=(), source="", switched=None, numa_hidden=False, nvlink_unknown=False
    )


@settings(max_examples=150)
@given(machines())
def test_what_is_printed_is_read_back(machine: Machine) -> None:
    assert bare(parse(render(machine))) == bare(machine)


@settings(max_examples=80)
@given(machines())
def test_tabs_turned_into_blanks_lose_nothing_when_affinities_are_printed(machine: Machine) -> None:
    assert bare(parse(render(machine).expandtabs(24))) == bare(machine)


@settings(max_examples=150)
@given(machines(), st.data())
def test_damaged_text_gives_a_machine_or_one_error(machine: Machine, data: st.DataObject) -> None:
    text = render(machine)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    noise = data.draw(st.text(max_size=20))
    try:
        parse(text[:start] + noise + text[end:])
    except InputError as error:
        assert str(error)
