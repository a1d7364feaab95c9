"""Captures of real machines, read in place; what each must give is derived by hand from its matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from baro.topology.bandwidth import Predictor
from baro.topology.document import to_document
from baro.topology.islands import islands, pcie_groups
from baro.topology.topo_m import parse
from tests.support import shared

Groups = list[list[int]]
Nodes = list[int] | None

EIGHT: Groups = [[0, 1, 2, 3, 4, 5, 6, 7]]
QUADS: Groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
FOUR: Groups = [[0, 1, 2, 3]]
SOCKETS: Nodes = [0, 0, 0, 0, 1, 1, 1, 1]

CAPTURES: dict[str, tuple[Groups, Nodes, tuple[list[int], float | None], list[str]]] = {
    # file: islands, NUMA node of each GPU (None: hidden), best set of four and its GB/s, warnings
    "SYNTHETIC-a100-sxm-2x4-boards": (QUADS, SOCKETS, ([0, 1, 2, 3], 300.0), []),
    "SYNTHETIC-h100nvl-8x-pairs": ([[0, 1], [2, 3], [4, 5], [6, 7]], SOCKETS, ([0, 1, 2, 3], 18.4), []),
    "SYNTHETIC-h200nvl-8x-two-islands-interleaved": (
        [[0, 2, 4, 6], [1, 3, 5, 7]],
        SOCKETS,
        ([0, 2, 4, 6], 450.0),
        [],
    ),
    "SYNTHETIC-h200nvl-8x-two-islands-of-4": (QUADS, SOCKETS, ([0, 1, 2, 3], 450.0), []),
    "a100-pcie-2x-nobridge-atlas": ([], [1, 1], ([], None), []),
    "a100-pcie-4x-one-bridge": ([[0, 1]], [0, 0, 1, 1], ([0, 1, 2, 3], 12.2), []),
    "a100-pcie-8x-nonadjacent-pairs": ([[0, 2], [1, 3], [4, 5], [6, 7]], SOCKETS, ([0, 1, 2, 3], 12.2), []),
    "a100-pcie-4x-bridged-uranus": ([], None, ([], None), []),
    "aws-p3-16xl-v100-8x": (QUADS, None, ([0, 1, 2, 3], 100.0), ["virtual-machine"]),
    "aws-p4d-a100-8x": (EIGHT, SOCKETS, ([0, 1, 2, 3], 300.0), []),
    "azure-nc96ads-a100-v4": ([[0, 1], [2, 3]], [0, 1, 2, 3], ([0, 1, 2, 3], 12.2), []),
    "brev-vm-h100-4of8": (FOUR, [0, 1, 1, 1], ([0, 1, 2, 3], 450.0), []),
    "consumer-5x-uneven": ([], [1, 0, 0, 0, 0], ([1, 2, 3, 4], None), []),
    "dgx1v-v100-8x-hybrid-cube": (QUADS, SOCKETS, ([0, 1, 2, 3], 100.0), []),
    "gb200-tray-4x": (FOUR, [0, 0, 1, 1], ([0, 1, 2, 3], 450.0), []),
    "hgx-a100-4x-della": (FOUR, [0, 0, 1, 1], ([0, 1, 2, 3], 300.0), []),
    "hgx-a100-4x-polaris": (FOUR, [3, 2, 1, 0], ([0, 1, 2, 3], 300.0), []),
    "hgx-a100-8x-2numa": (EIGHT, SOCKETS, ([0, 1, 2, 3], 300.0), []),
    "hgx-b200-8x-degraded": ([[0, 1, 3, 4, 5, 6, 7]], SOCKETS, ([0, 1, 3, 4], 450.0), ["nvlink-missing"]),
    "hgx-b200-8x": (EIGHT, SOCKETS, ([0, 1, 2, 3], 450.0), []),
    "hgx-b300-8x": (EIGHT, SOCKETS, ([0, 1, 2, 3], 450.0), []),
    "hgx-h100-4x-nv6": (FOUR, [3, 1, 7, 5], ([0, 1, 2, 3], 450.0), []),
    "hgx-h100-8x": (EIGHT, SOCKETS, ([0, 1, 2, 3], 450.0), []),
    "hgx-h20-8x": (EIGHT, SOCKETS, ([0, 1, 2, 3], 450.0), []),
    "pcie-8x-two-switch-islands": ([], SOCKETS, ([0, 1, 2, 3], None), []),
    "vm-a100-8x-numa4": (EIGHT, None, ([0, 1, 2, 3], 300.0), ["virtual-machine"]),
}


def captures() -> list[Path]:
    return shared.listing("data/topo-captures", "*.txt")


@pytest.mark.parametrize("file", captures(), ids=lambda file: file.stem)
def test_each_capture_gives_what_its_matrix_shows(file: Path) -> None:
    groups, nodes, (best, gbps), warnings = CAPTURES[file.stem]
    machine = parse(file.read_text(encoding="utf-8"), file.name)
    assert [list(group) for group in islands(machine).best] == groups
    assert [warning.code for warning in machine.warnings] == warnings
    numa = to_document(machine)["numa"]
    indices = [gpu.index for gpu in machine.gpus]
    assert numa == {str(i): None if nodes is None else [nodes[i]] for i in indices}
    for found in Predictor(machine).best_sets(indices, 4):
        assert (list(found.gpus), found.gbps) == (best, gbps)


def test_the_degraded_board_names_the_gpu() -> None:
    text = shared.path("data/topo-captures/hgx-b200-8x-degraded.txt").read_text(encoding="utf-8")
    (warning,) = parse(text).warnings
    assert warning.gpus == (2,)


def test_two_pcie_trees_of_four_are_groups_not_islands() -> None:
    text = shared.path("data/topo-captures/pcie-8x-two-switch-islands.txt").read_text(encoding="utf-8")
    pairs, fours = pcie_groups(parse(text))
    assert [list(group) for group in pairs.groups] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [list(group) for group in fours.groups] == QUADS
