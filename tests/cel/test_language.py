"""The language by example: what each part of CEL does on a device."""

from __future__ import annotations

import subprocess
import sys

import pytest

from baro.cel import CelCompileError, CelRuntimeError, ColumnRef, DeviceView, compile_selector, view_of
from baro.model.kinds.resource import DeviceAttribute, DeviceCapacity
from baro.model.quantity import Quantity
from baro.model.semver import SemVer
from tests.support.cel import answer, refusal

DEVICE = DeviceView(
    driver="gpu.example.com",
    attributes={
        "gpu.example.com": {
            "model": "H100", "index": 3, "healthy": True, "cuda": SemVer.parse("12.8.0"), "peers": (1, 2, 5),
        },
        "resource.kubernetes.io": {"numaNode": 0},
    },
    capacity={"gpu.example.com": {"memory": Quantity.parse("80Gi")}},
)  # fmt: skip
GPU = "device.attributes['gpu.example.com']"


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'gpu.example.com' && !device.allowMultipleAllocations",
        f"{GPU}.model in ['H100', 'H200'] && {GPU}.index % 2 == 1",
        f"{GPU}.cuda.isGreaterThan(semver('12.4.0')) && {GPU}.cuda.major() == 12",
        f"{GPU}.cuda.compareTo(semver('v12.8', true)) == 0",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('79Gi')) >= 0",
        f"has({GPU}.model) && !has({GPU}.nope) && 'model' in {GPU}",
        f"{GPU}.?nope.orValue('x') == 'x' && {GPU}[?'model'].hasValue()",
        "device.attributes.?unknown.?key.hasValue() == false",
        f"{GPU}.nope == 1 || {GPU}.healthy",
        f"cel.bind(gpu, {GPU}, gpu.healthy && gpu.index == 3)",
        f"{GPU}.peers.includes(5) && {GPU}.peers.exists(p, p > 4)",
        f"{GPU}.peers.all(i, p, p > i) && {GPU}.peers.map(p, p * 2).sum() == 16",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 2, 3].filter(x, x > 1).size() == 2",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        f"optional.of({GPU}.index).optMap(x, x + 1).value() == 4",
        "1 == dyn(1.0) && 1u == dyn(1u) && dyn(1) < 1.5 && !(dyn('1') == 1)",
        "'gpu-%d of %s'.format([3, 'H100']) == 'gpu-3 of H100'",
        "'NVIDIA H100'.lowerAscii().matches('^nvidia h[12]00$') && 'a,b'.split(',').size() == 2",
        "timestamp('2026-01-01T00:00:00Z') + duration('1h') > timestamp('2026-01-01T00:30:00Z')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && ip('::1').isLoopback()",
        "url('https://a.example:8443/x?y=1').getPort() == '8443'",
        "sets.contains([1, 2], [2]) && type(1) == int && string(1.5) == '1.5'",
        r"""'\u00e9' == 'é' && r'\d' == '\\d' && size(b'é') == 2 && '''a'b''' == "a'b" // comment""",
        "device.attributes.size() == 2 && device.attributes['other'].size() == 0",
        "device.attributes.exists(domain, domain.startsWith('resource'))",
    ],
)
def test_this_is_true_of_the_device(expression: str) -> None:
    assert compile_selector(expression).evaluate(DEVICE) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"{GPU}.nope == 1", "no such key: nope"),
        (f"{GPU}.nope == 1 && {GPU}.healthy", "no such key: nope"),
        (f"{GPU}.cuda == '12.8.0'", "no such overload"),
        (f"{GPU}.cuda >= '12.8.0'", "no such overload: _>=_"),
        (f"{GPU}.model > 1", "no such overload"),
        (f"1 / ({GPU}.index - 3) == 1", "division by zero"),
        (f"{GPU}.index + 9223372036854775807 > 0", "integer overflow"),
        (f"{GPU}.peers[7] == 1", "index out of bounds: 7"),
        (f"{GPU}.cuda in ['12.8.0']", "internal error: runtime error: hash of unhashable type cel.Semver"),
        (f"{GPU}.model.isGreaterThan(semver('1.0.0'))",
         "no such overload: isGreaterThan(string, kubernetes.Semver)"),
        ("quantity('80GB').sign() == 1", None),
        (f"{GPU}.model", "CEL result of type string could not be converted to bool: unsupported native"
                         " conversion from string to 'bool'"),
    ],
)  # fmt: skip
def test_this_fails_on_the_device(expression: str, error: str | None) -> None:
    if error is None:
        assert refusal(expression) is not None
    else:
        assert answer(expression, DEVICE) == error


def test_an_error_that_go_cannot_absorb_is_not_absorbed() -> None:
    with pytest.raises(CelRuntimeError, match="unhashable"):
        compile_selector(f"true && ({GPU}.cuda in ['1'] || false)").evaluate(DEVICE)


def test_a_device_that_upstream_cannot_convert_fails_for_every_selector() -> None:
    view = view_of("d", {"v": DeviceAttribute(version="not a version"), "i": DeviceAttribute(int_=1)}, {})
    assert answer("true", view) == "attribute v: parse semantic version: No Major.Minor.Patch elements found"
    unset = view_of("d", {"nothing": DeviceAttribute()}, {})
    assert answer("true", unset) == "attribute nothing: unsupported attribute value"


def test_bare_names_belong_to_the_driver_and_qualified_ones_to_their_domain() -> None:
    view = view_of(
        "d.example",
        {"model": DeviceAttribute(string="x"), "other.example/list": DeviceAttribute(strings=("a", "b"))},
        {"memory": DeviceCapacity(value="1Gi")},
        True,
    )
    assert view.attributes == {"d.example": {"model": "x"}, "other.example": {"list": ("a", "b")}}
    assert view.capacity["d.example"]["memory"] == Quantity.parse("1024Mi")
    assert answer("device.allowMultipleAllocations", view) is True


def test_a_program_knows_the_columns_it_reads() -> None:
    program = compile_selector(
        f"device.driver == 'x' && has({GPU}.model) && {GPU}.?index.orValue(1) == 1"
        " && device.capacity['c'].memory.isInteger()"
    )
    assert program.columns is not None
    assert set(program.columns) == {
        ColumnRef("driver"),
        ColumnRef("attribute", "gpu.example.com", "model"),
        ColumnRef("attribute", "gpu.example.com", "index"),
        ColumnRef("capacity", "c", "memory"),
    }
    bound = compile_selector(f"cel.bind(g, {GPU}, g.model == 'x')").columns
    assert bound == frozenset({ColumnRef("attribute", "gpu.example.com", "model")})
    assert compile_selector("true").columns == frozenset()


@pytest.mark.parametrize(
    "expression", [f"{GPU}.size() > 1", "device.attributes.all(d, true)", "dyn(device) == null"]
)
def test_a_program_that_walks_a_map_has_no_columns(expression: str) -> None:
    assert compile_selector(expression).columns is None


def test_columns_that_are_only_compared_are_known() -> None:
    uuid = ColumnRef("attribute", "gpu.example.com", "uuid")
    assert compile_selector(f"{GPU}.uuid == 'a' || {GPU}.uuid in ['b']").compared.keys() == {uuid}
    assert compile_selector(f"{GPU}.uuid == 'a' && {GPU}.uuid.startsWith('x')").compared == {}


def test_nesting_is_limited_as_upstream_limits_it() -> None:
    assert refusal("(" * 200 + "true" + ")" * 200) is None
    text = refusal("(" * 300 + "true" + ")" * 300)
    assert text is not None and text.endswith("expression recursion limit exceeded: 250")
    assert compile_selector("!" + "(!" * 240 + "true" + ")" * 240).evaluate(DEVICE) is False


def test_work_is_limited() -> None:
    loops = "[0,1,2,3,4,5,6,7,8,9].all(x, " * 7 + "true" + ")" * 7
    assert answer(loops, DEVICE) == "operation cancelled: actual cost limit exceeded"


def test_the_result_must_be_bool_or_the_unknown_type() -> None:
    assert refusal("1 + 1") == "must evaluate to bool or the unknown type, not int"
    assert refusal(f"{GPU}.model") is None


def test_compiled_programs_are_shared_and_errors_are_values() -> None:
    assert compile_selector("true") is compile_selector("true")
    with pytest.raises(CelCompileError) as caught:
        compile_selector("node.labels['a'] == 'b'")
    assert caught.value.message.startswith(
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'node'"
    )


def test_the_engine_does_not_import_numpy() -> None:
    code = "import sys, baro.cel; baro.cel.compile_selector('true'); print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
