"""The picture is well-formed XML that names what it shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings

from baro.topology import svg
from baro.topology.machine import Gpu, Machine
from baro.topology.profiles import load_profile, profile_names
from tests.support.topology import golden, machines

NS = "{http://www.w3.org/2000/svg}"


def shapes(picture: str, tag: str) -> list[ET.Element]:
    return ET.fromstring(picture).findall(f"{NS}{tag}")  # noqa: S314 our own output


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in shapes(picture, "text")]


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_has_a_picture_with_all_its_gpus(name: str) -> None:
    machine = load_profile(name).machine()
    drawn = texts(svg.render(machine))
    assert [text for text in drawn if text.startswith("GPU") and text[3:].isdigit()] == [
        f"GPU{gpu.index}" for gpu in machine.gpus
    ]
    for nic in machine.nics:
        assert nic.device in drawn
    for warning in machine.warnings:
        assert warning.message in drawn


def test_direct_links_are_one_arc_each_and_switched_links_are_not() -> None:
    mesh = load_profile("h200-nvl-8").machine()
    assert len(shapes(svg.render(mesh), "path")) == 12
    assert shapes(svg.render(load_profile("hgx-h100-8").machine()), "path") == []
    assert "NVSwitch" in texts(svg.render(load_profile("hgx-h100-8").machine()))


def test_interleaved_islands_get_a_lane_each() -> None:
    lanes = texts(svg.render(load_profile("h200-nvl-8-interleaved").machine())).count("islands")
    assert lanes == 2
    assert texts(svg.render(load_profile("h200-nvl-8").machine())).count("islands") == 1


def test_boxes_lie_inside_the_picture_and_gpu_boxes_do_not_overlap() -> None:
    for name in profile_names():
        picture = ET.fromstring(svg.render(load_profile(name).machine()))  # noqa: S314 our own output
        width, height = float(picture.get("width", "0")), float(picture.get("height", "0"))
        boxes = [
            tuple(float(box.get(side, "0")) for side in ("x", "y", "width", "height"))
            for box in picture.findall(f"{NS}rect")[1:]
        ]
        for x, y, wide, high in boxes:
            assert x >= 0 and y >= 0 and x + wide <= width and y + high <= height, name
        for a, b in combinations(boxes, 2):
            apart = a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
            assert apart, (name, a, b)


def test_a_chosen_set_is_outlined_and_judged() -> None:
    picture = svg.render(load_profile("h200-nvl-8").machine(), chosen=(5, 4, 1, 0))
    bold = [box for box in shapes(picture, "rect") if box.get("stroke-width") == "4"]
    assert len(bold) == 4
    assert any(text.startswith("this set: {0,1,4,5}") for text in texts(picture))


def test_names_are_escaped() -> None:
    gpu = Gpu(index=0, product_name='<script>"x"&')
    picture = svg.render(Machine(gpus=(gpu,), source="a<b>\x07.txt"))
    assert '1× <script>"x"&' in texts(picture)
    assert "<script>" not in picture


def test_the_picture_of_the_two_islands_stays_as_committed() -> None:
    text = svg.render(load_profile("h200-nvl-8").machine(), chosen=(0, 1, 4, 5))
    assert text == golden("h200-nvl-8.svg", text)


@settings(max_examples=40)
@given(machines())
def test_any_machine_can_be_drawn(machine: Machine) -> None:
    drawn = ET.fromstring(svg.render(machine))  # noqa: S314 our own output
    assert drawn.tag == f"{NS}svg"
    hidden = msgspec.structs.replace(machine, numa_hidden=True)
    assert "NUMA unknown" in texts(svg.render(hidden))


def test_states_colour_the_gpus_and_each_stands_once_in_the_legend() -> None:
    free, used = svg.State("#cdeac0", "free"), svg.State("#d7dde3", "in use")
    machine = load_profile("hgx-h100-8").machine()
    picture = svg.render(machine, states={gpu.index: free if gpu.index < 3 else used for gpu in machine.gpus})
    drawn = texts(picture)
    assert (drawn.count("free"), drawn.count("in use")) == (1, 1)
    fills = [element.get("fill") for element in shapes(picture, "rect")]
    assert (fills.count("#cdeac0"), fills.count("#d7dde3")) == (3 + 1, 5 + 1), "the GPUs and the legend"
    assert "free" not in texts(svg.render(machine))
