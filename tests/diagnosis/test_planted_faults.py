"""Planted faults are found, each by its code and at its place, and nothing else is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from baro.diagnosis.checks import Diagnosis, diagnose
from baro.diagnosis.files import read_files
from baro.model.findings import Severity
from tests.support.faulty_cluster import KINDS, Planted, dump

NODES, EACH = 500, 2


def _diagnose(tmp_path: Path, nodes: int, each: int) -> tuple[Diagnosis, list[Planted]]:
    pieces, planted = dump(nodes, each)
    file = tmp_path / "dump.json"
    file.write_text("".join(pieces))
    return diagnose(read_files([file])), planted


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Diagnosis, list[Planted]]:
    return _diagnose(tmp_path_factory.mktemp("faults"), NODES, EACH)


def test_as_many_faults_of_every_kind_as_asked_for_are_planted(
    faulty: tuple[Diagnosis, list[Planted]],
) -> None:
    assert len(KINDS) == 20
    assert Counter(item.code for item in faulty[1]) == dict.fromkeys(KINDS, EACH)


def test_every_planted_fault_is_found_at_its_place_and_nothing_else_above_info(
    faulty: tuple[Diagnosis, list[Planted]],
) -> None:
    diagnosis, planted = faulty
    found = {
        Planted(item.code, item.subject) for item in diagnosis.problems if item.severity is not Severity.INFO
    }
    assert found == set(planted)


def test_a_cluster_without_faults_gives_nothing_above_info(tmp_path: Path) -> None:
    diagnosis, planted = _diagnose(tmp_path, 50, 0)
    assert not planted
    assert [item.code for item in diagnosis.problems if item.severity is not Severity.INFO] == []


def test_problems_are_ranked_by_gpu_hours(faulty: tuple[Diagnosis, list[Planted]]) -> None:
    costs = [
        (item.lost.now or 0.0) * (1.0 if item.lost.hours is None else item.lost.hours)
        for item in faulty[0].problems
    ]
    assert costs == sorted(costs, reverse=True)
