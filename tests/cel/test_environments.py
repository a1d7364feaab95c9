"""Two environments, and who uses which: what is stored is compiled as the scheduler does, what is new as the
API server does with the default gates."""

from __future__ import annotations

from baro.allocator.cel_selectors import CelSelectors
from baro.cel import admission_problems, check_expression, compile_selector
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.resource import Device, DeviceAttribute
from tests.support.cluster import DRIVER, node_slice

_ATTRIBUTES = f"device.attributes['{DRIVER}']"
_INCLUDES = f"{_ATTRIBUTES}.names.includes('a')"
_ORDERED = f"{_ATTRIBUTES}.names > 3"


class _Report:
    def __init__(self) -> None:
        self.found: list[str] = []

    def too_long(self, path: str, limit: int) -> None:
        self.found.append(f"{path}: too long")

    def invalid(self, path: str, value: str, detail: str, /) -> None:
        self.found.append(f"{path}: {detail.splitlines()[0]}")

    def forbidden(self, path: str, detail: str) -> None:
        self.found.append(f"{path}: {detail}")


def test_the_allocator_compiles_as_the_scheduler_does() -> None:
    device = Device(name="a", attributes={"names": DeviceAttribute(strings=("a", "b"))})
    engine = CelSelectors.of(Inventory(Snapshot(slices=(node_slice("n", [device]),))))
    assert engine.compile_error(_INCLUDES) is None
    assert engine.verdict(_INCLUDES, 0) is True


def test_validation_of_new_objects_compiles_as_the_api_server_does() -> None:
    report = _Report()
    check_expression(report, "spec.selectors[0]", _INCLUDES)
    (found,) = report.found
    assert found.startswith("spec.selectors[0]: compilation failed")
    assert "undeclared reference to 'includes'" in found or "no matching overload for 'includes'" in found


def test_with_list_attributes_the_api_server_compiles_as_the_scheduler() -> None:
    report = _Report()
    check_expression(report, "spec.selectors[0]", _INCLUDES, environment="stored")
    assert report.found == []


def test_attributes_are_dyn_to_the_scheduler_and_any_to_the_api_server() -> None:
    types = {
        environment: str(compile_selector(_ATTRIBUTES + ".names", environment).tree.type)
        for environment in ("stored", "admission")
    }
    assert types == {"stored": "dyn", "admission": "google.protobuf.Any"}
    assert admission_problems(_ORDERED) == admission_problems(_ORDERED, "stored") == ()
