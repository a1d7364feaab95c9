"""``nvidia-smi -q -x``: facts of real captures, lost GPUs, and input that is not the XML."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.model.errors import InputError, TooLargeError
from baro.topology import smi_xml
from baro.topology.machine import Gpu, Machine
from tests.support.shared import path

SMALL = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>550.163.01</driver_version>
  <cuda_version>12.4</cuda_version>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:18:00.0">
    <product_name>NVIDIA H200 NVL</product_name>
    <product_brand>NVIDIA</product_brand>
    <product_architecture>Hopper</product_architecture>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <uuid>GPU-a</uuid>
    <minor_number>3</minor_number>
    <fb_memory_usage><total>143771 MiB</total></fb_memory_usage>
    <supported_clocks><supported_mem_clock><value>1 MHz</value></supported_mem_clock></supported_clocks>
  </gpu>
  <gpu id="00000000:1A:00.0">
    <product_name>ERR!</product_name>
    <uuid>ERR!</uuid>
    <pci><pci_bus_id>00000000:1A:00.0</pci_bus_id></pci>
  </gpu>
</nvidia_smi_log>
"""


def capture(name: str) -> Machine:
    file = path(f"data/gpu-captures/{name}")
    return smi_xml.parse(file.read_text(encoding="utf-8"), name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("28-nvidia-smi-qx-h100.xml", ("H100", "Hopper", 81559, "0000:53:00.0", 5, 16, 7)),
        ("29-nvidia-smi-qx-b200.xml", ("B200", "Blackwell", 183359, "0000:8f:00.0", 5, 16, 6)),
        ("31-nvidia-smi-qx-gb300.xml", ("GB300", "Blackwell", 284208, "0008:06:00.0", 6, 16, 2)),
        ("33-nvidia-smi-qx-l40s.xml", ("L40S", "Ada Lovelace", 46068, "0000:30:00.0", 4, 8, 1)),
        ("34-nvidia-smi-qx-t4.xml", ("T4", "Turing", 15360, "0000:00:1e.0", 3, 8, 1)),
    ],
)
def test_a_real_capture_gives_the_facts_of_its_gpu(name: str, expected: tuple[object, ...]) -> None:
    machine = capture(name)
    (gpu,) = machine.gpus
    facts = (gpu.model, gpu.architecture, gpu.memory_mib, gpu.pci_bus_id)
    assert (*facts, gpu.pcie_gen, gpu.pcie_width, gpu.module_id) == expected
    assert (gpu.index, gpu.minor, gpu.brand) == (0, 0, "Nvidia")
    assert gpu.uuid is not None
    assert gpu.uuid.startswith("GPU-")
    assert machine.driver_version is not None


def test_a_domain_over_several_nodes_gives_a_clique_and_a_board_of_its_own_does_not() -> None:
    (gb300,) = capture("31-nvidia-smi-qx-gb300.xml").gpus
    (h100,) = capture("28-nvidia-smi-qx-h100.xml").gpus
    assert gb300.clique == "00000001-0000-0000-0000-000000000001.32766"
    assert h100.clique is None


def test_a_lost_gpu_is_a_warning_and_keeps_what_could_be_read() -> None:
    machine = capture("35-nvidia-smi-qx-gb200-lost.xml")
    healthy, lost = machine.gpus
    assert healthy.memory_mib == 196608
    assert (lost.model, lost.minor, lost.memory_mib, lost.clique) == ("GB200", 1, None, None)
    assert [(w.code, w.gpus) for w in machine.warnings] == [("gpu-lost", (1,))]


def test_injected_ecc_errors_change_nothing_about_what_the_machine_is() -> None:
    machine = capture("37-nvidia-smi-qx-gb200-ecc-injected.xml")
    assert [gpu.memory_mib for gpu in machine.gpus] == [196608, 196608]
    assert machine.warnings == ()


def test_a_capture_of_fewer_gpus_than_attached_says_so() -> None:
    assert "gpus-missing" in [w.code for w in capture("28-nvidia-smi-qx-h100.xml").warnings]


def test_half_a_pcie_link_is_a_warning() -> None:
    assert [w.code for w in capture("34-nvidia-smi-qx-t4.xml").warnings] == ["pcie-width-below-max"]


def test_error_cells_become_warnings_and_unknown_values() -> None:
    machine = smi_xml.parse(SMALL, "small.xml")
    first, broken = machine.gpus
    assert first == Gpu(
        index=0, minor=3, uuid="GPU-a", product_name="NVIDIA H200 NVL", model="H200", brand="Nvidia",
        architecture="Hopper", memory_mib=143771, pci_bus_id="0000:18:00.0",
    )  # fmt: skip
    assert broken == Gpu(index=1, pci_bus_id="0000:1a:00.0")
    assert {(w.code, w.gpus) for w in machine.warnings} == {("mig-enabled", (0,)), ("gpu-error", (1,))}


def test_links_and_numa_stay_unknown() -> None:
    machine = smi_xml.parse(SMALL, "small.xml")
    assert machine.links == {}
    assert [gpu.numa for gpu in machine.gpus] == [None, None]
    assert machine.switched is None


def test_noise_before_the_document_moves_no_line_number() -> None:
    text = "Warning: persistence mode\n\n" + SMALL
    assert len(smi_xml.parse(text, "x").gpus) == 2
    with pytest.raises(InputError) as caught:
        smi_xml.parse(text.replace("</uuid>", "", 1), "x")
    assert caught.value.where.line == 2 + 16  # the closing tag that no longer matches


def test_entities_are_refused_and_never_expanded() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><nvidia_smi_log>&b;'
    outside = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><nvidia_smi_log/>'
    for text in (bomb, outside):
        with pytest.raises(InputError, match="declares entities"):
            smi_xml.parse(text, "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("Unable to determine the device handle for GPU0: Unknown Error", "begins with 'Unable"),
        ("<html></html>", "root element is <html>"),
        ("<nvidia_smi_log>" + "<a>" * 5000, "nested more than"),
        ("<nvidia_smi_log><gpu>", "cut off or damaged"),
        ("\x00\x01\x02", "not the XML"),
        ("[" * 1_000_000, "not the XML"),
        ('<?xml version="1.0" encoding="foo"?><nvidia_smi_log>', "cut off or damaged"),
    ],
)
def test_bad_input_gives_one_clear_error(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        smi_xml.parse(text, "bad.xml")
    assert caught.value.where.file == "bad.xml"
    assert caught.value.next_step


def test_a_document_over_the_limit_is_not_read() -> None:
    with pytest.raises(TooLargeError):
        smi_xml.parse(b"<nvidia_smi_log>" + b" " * smi_xml.MAX_BYTES, "x")


def test_many_elements_need_no_memory_of_their_own() -> None:
    body = "<a/>" * 200_000
    machine = smi_xml.parse(f"<nvidia_smi_log><gpu id='0000:01:00.0'>{body}</gpu></nvidia_smi_log>", "x")
    assert len(machine.gpus) == 1


@given(st.integers(0, len(SMALL) - 30))
def test_a_truncated_document_is_an_input_error_with_a_line(at: int) -> None:
    with pytest.raises(InputError) as caught:
        smi_xml.parse(SMALL[:at], "cut.xml")
    cut = SMALL[:at]
    assert caught.value.where.line is not None or not cut.lstrip().startswith("<")


@given(st.one_of(st.text(max_size=300), st.binary(max_size=300)))
@settings(max_examples=200)
def test_garbage_is_an_input_error_or_a_machine(text: str | bytes) -> None:
    try:
        machine = smi_xml.parse(text, "garbage")
    except InputError:
        return
    assert machine.gpus == ()


@given(st.data())
def test_damage_inside_the_document_never_escapes(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(SMALL) - 1))
    length = data.draw(st.integers(0, 20))
    new = data.draw(st.text(max_size=20))
    try:
        machine = smi_xml.parse(SMALL[:at] + new + SMALL[at + length :], "damaged")
    except InputError:
        return
    assert len(machine.gpus) <= 2
