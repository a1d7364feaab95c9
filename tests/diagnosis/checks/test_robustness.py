"""Whatever stands in a dump or capture, a diagnosis ends with an answer or one clear error."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baro.diagnosis.checks import diagnose
from baro.diagnosis.evidence import from_documents
from baro.diagnosis.files import capture, with_nodes
from baro.diagnosis.report.document import document
from baro.diagnosis.report.page import page
from baro.diagnosis.report.summary import summarise
from baro.diagnosis.snapshot import objects
from baro.model.errors import BaroError
from baro.model.load import load_bytes
from tests.support.diagnosis import Body, evidence, gpus, node, pod, resource_slice
from tests.support.faulty_cluster import dump

_ODD = st.sampled_from([None, "", "x", 0, -1, 2**70, [], {}, [None], {"a": None}, True, "1e30", "é\u2028<b>"])


def _objects() -> list[Body]:
    pieces, _ = dump(30, 1)
    items: list[Body] = json.loads("".join(pieces))["items"]
    return items[1:]


OBJECTS = _objects()


def _spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _spots(inner, (*path, key))
    return found


def _set(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_dump_with_odd_values_anywhere_is_answered(data: st.DataObject) -> None:
    bodies = copy.deepcopy(data.draw(st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=6)))
    for body in bodies:
        spots = [spot for spot in _spots(body) if spot not in (("kind",), ("apiVersion",))]
        for spot in data.draw(st.lists(st.sampled_from(spots), max_size=2)):
            try:
                _set(body, spot, copy.deepcopy(data.draw(_ODD)))
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change took the place away
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}).encode()
    try:
        found = from_documents(load_bytes(text))
    except BaroError:
        return
    diagnosis = diagnose(found)
    summary = summarise(diagnosis)
    json.dumps(document(diagnosis, summary))
    page(diagnosis, summary)


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("ab/=", max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([
        "name", "namespace", "containers", "devices", "deviceIds", "resourceName", "containerEdits", "mounts",
        "hostPath", "deviceNodes", "kind",
    ]), inner, max_size=4)),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(_JSON, st.sampled_from(["podResources", "devices"]))
def test_a_capture_of_any_shape_is_answered(value: Any, key: str) -> None:
    body = {key: value, **({"cdiVersion": "0.6.0"} if key == "devices" else {})}
    try:
        taken = capture(json.dumps(body).encode(), "node-a/capture.json")
    except BaroError:
        return
    import msgspec

    found = evidence([node(), resource_slice("node-a", gpus(2)), pod("p", node="node-a")])
    found = msgspec.structs.replace(found, captures=with_nodes([taken], ["node-a"]))
    json.dumps(document(diagnose(found), summarise(diagnose(found))))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_a_capture_or_one_error(data: bytes) -> None:
    try:
        capture(data, "x")
    except BaroError as error:
        assert error.what


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_snapshot_of_odd_objects_is_written_or_is_one_error(data: st.DataObject) -> None:
    body = copy.deepcopy(data.draw(st.sampled_from(OBJECTS)))
    spots = [spot for spot in _spots(body) if spot not in (("kind",), ("apiVersion",))]
    _set(body, data.draw(st.sampled_from(spots)), copy.deepcopy(data.draw(_ODD)))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [body]}).encode()
    try:
        found = from_documents(load_bytes(text))
        for anonymise in (False, True):
            json.dumps(list(objects(found, anonymise=anonymise)))
    except BaroError:
        return


@pytest.mark.parametrize("number", [999_999_999, 2**62])
def test_an_absurd_count_costs_no_memory(number: int) -> None:
    found = diagnose(evidence([node(capacity={"nvidia.com/gpu": number}, allocatable={"nvidia.com/gpu": 0})]))
    assert len(found.problems[0].lost.gpus) == 1024
    assert found.problems[0].facts["unhealthy"] == number
