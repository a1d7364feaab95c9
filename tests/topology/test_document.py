"""The ``MachineTopology`` document."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from baro.model.errors import InputError
from baro.topology.assess import complete
from baro.topology.bandwidth import Predictor
from baro.topology.document import from_document, to_document
from baro.topology.machine import Confidence, Link, Machine
from baro.topology.profiles import load_profile, profile_names
from tests.support.topology import golden, machine_of, machines


def test_the_document_has_the_shape_that_readers_rely_on() -> None:
    body = to_document(load_profile("h200-nvl-8").machine())
    assert (body["apiVersion"], body["kind"]) == ("baro.dev/v1alpha1", "MachineTopology")
    assert body["gpus"] == list(range(8))
    assert body["nics"] == ["NIC0", "NIC1", "NIC2", "NIC3"]
    assert body["links"]["0-1"] == {"kind": "NV6", "nvlinks": 6, "gbps": 150.0, "confidence": "reported"}
    assert body["links"]["0-4"] == {"kind": "SYS", "nvlinks": 0, "gbps": 24.5, "confidence": "inferred"}
    assert body["islands"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert body["grades"] == [{"nvlinks": 6, "islands": [[0, 1, 2, 3], [4, 5, 6, 7]]}]
    assert body["numa"]["0"] == [0] and body["numa"]["7"] == [1]
    assert body["nearestNic"]["3"] == "NIC1"
    assert body["warnings"] == []


def test_what_is_unknown_is_null() -> None:
    body = to_document(load_profile("vm-h100-8").machine())
    assert set(body["numa"].values()) == {None}
    assert set(body["nearestNic"].values()) == {None}
    assert body["warnings"][0]["code"] == "virtual-machine"
    suspect = to_document(machine_of({}, 2, "NVIDIA H100 80GB HBM3"))
    assert suspect["links"]["0-1"] == {"kind": "SYS", "nvlinks": None, "gbps": None, "confidence": "unknown"}


def test_a_degraded_gpu_is_named_in_the_warnings() -> None:
    (warning,) = to_document(load_profile("b200-8-degraded").machine())["warnings"]
    assert warning == {
        "code": "nvlink-missing",
        "message": "GPU2 has no active NVLink although its siblings have 18",
        "gpus": [2],
    }


@pytest.mark.parametrize("name", ["h200-nvl-8", "consumer-5"])
def test_documents_stay_as_committed(name: str) -> None:
    text = json.dumps(to_document(load_profile(name).machine("node-a")), indent=2, ensure_ascii=False) + "\n"
    assert text == golden(f"{name}.json", text)


@pytest.mark.parametrize("name", profile_names())
def test_reading_a_document_gives_the_same_machine(name: str) -> None:
    machine = load_profile(name).machine("node-a")
    assert from_document(json.loads(json.dumps(to_document(machine)))) == machine


@settings(max_examples=60)
@given(machines())
def test_any_machine_survives_the_document(machine: Machine) -> None:
    whole = complete(machine)
    assert from_document(json.loads(json.dumps(to_document(whole)))) == whole


def test_measured_figures_survive_and_count() -> None:
    machine = load_profile("h200-nvl-8").machine()
    slow = Link(kind="NV6", nvlinks=6, gbps=90.0, confidence=Confidence.MEASURED)
    measured = msgspec.structs.replace(machine, links={**machine.links, (0, 1): slow})
    again = from_document(to_document(measured))
    assert again.links[0, 1] == slow
    assert Predictor(again).predict((0, 1)).gbps == 90.0


def test_a_document_of_the_bare_contract_is_enough() -> None:
    body = {
        "apiVersion": "baro.dev/v1alpha1",
        "kind": "MachineTopology",
        "gpus": [0, 1],
        "nics": ["NIC0"],
        "links": {"0-1": {"kind": "NV12", "nvlinks": 12, "gbps": 300, "confidence": "reported"}},
        "islands": [[0, 1]],
        "grades": [{"nvlinks": 12, "islands": [[0, 1]]}],
        "numa": {"0": [0], "1": None},
        "nearestNic": {"0": "NIC0", "1": None},
        "warnings": [{"code": "x", "message": "y"}],
    }
    machine = from_document(body, "dump.json")
    assert machine.gpus[0].numa == (0,)
    assert machine.gpus[1].numa is None
    assert Predictor(machine).predict((0, 1)).gbps == 300.0
    assert (machine.source, machine.warnings[0].code) == ("dump.json", "x")


def wrong(**changes: Any) -> dict[str, Any]:
    return to_document(load_profile("l40s-4").machine()) | changes


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (wrong(gpus="all"), "gpus"),
        (wrong(gpus=list(range(99))), "gpus"),
        (wrong(links={"0-9": {"kind": "SYS"}}), "links"),
        (wrong(links={"1-0": {"kind": "SYS"}}), "links"),
        (wrong(links={"0": {"kind": "SYS"}}), "links"),
        (wrong(links={"0-1": {"kind": 7}}), "links[...].kind"),
        (wrong(nicLinks={"0": {"NIC9": "PIX"}}), "nicLinks"),
        (wrong(nicLinks={"x": {}}), "nicLinks"),
        (wrong(kind="Pod"), None),
        (wrong(apiVersion="v1"), None),
        ({}, None),
    ],
)
def test_a_wrong_document_is_an_error_that_names_the_field(body: dict[str, Any], path: str | None) -> None:
    with pytest.raises(InputError) as caught:
        from_document(body, "dump.json")
    assert caught.value.where.file == "dump.json"
    assert caught.value.where.path == path
