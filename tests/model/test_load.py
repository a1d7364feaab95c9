"""Reading manifests and dumps: what comes out, from which line, and what bad input costs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.model.errors import InputError, TooLargeError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim, ResourceSlice
from baro.model.load import Limits, Loaded, decode_objects, load_bytes, load_json_list, load_paths
from baro.model.positions import split_path
from tests.support import shared

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: team\n"
CLAIM = """\
# a claim for one GPU
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: one
  annotations:
    example.com/note: x
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        count: 2
"""


def load(text: str | bytes, file: str = "x.yaml", limits: Limits | None = None) -> tuple[Loaded, ...]:
    return load_bytes(text.encode() if isinstance(text, str) else text, file=file, limits=limits)


def body(text: str) -> dict[str, Any]:
    (one,) = load(text)
    return one.body


def value(text: str) -> Any:
    """What a YAML value becomes."""
    return body(f"apiVersion: v1\nkind: X\nvalue: {text}\n")["value"]


def error(text: str | bytes, file: str = "x.yaml", limits: Limits | None = None) -> InputError:
    with pytest.raises(InputError) as raised:
        load(text, file, limits)
    return raised.value


# --- documents and lists ---------------------------------------------------------------------------------


def test_documents_come_in_order_with_their_first_lines() -> None:
    loaded = load(f"# head\n---\n{POD}---\n# only a comment\n---\nnull\n---\n\n{CLAIM}")

    assert [(str(one.where), one.kind) for one in loaded] == [
        ("x.yaml:3, Pod team/a", "Pod"),
        ("x.yaml:15, ResourceClaim one", "ResourceClaim"),
    ]


def test_a_list_is_flattened_and_its_items_keep_their_lines() -> None:
    loaded = load(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n"
        "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: node\n"
    )

    assert [str(one.where) for one in loaded] == ["x.yaml:4, Pod a", "x.yaml:7, Node node"]
    assert loaded[1].line_of("metadata.name") == 10


@pytest.mark.parametrize("file", ["x.json", "x.yaml"])
def test_items_of_a_typed_list_need_no_kind(file: str) -> None:
    items = [{"metadata": {"name": "s"}}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]
    text = json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": items})
    loaded = load(f"---\n{text}" if file == "x.yaml" else text, file)

    assert [(one.api_version, one.kind) for one in loaded] == [
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("v1", "Pod"),
    ]
    assert loaded[0].body["kind"] == "ResourceSlice"
    assert isinstance(loaded[0].as_kind(), ResourceSlice)


@pytest.mark.parametrize("items", ["[]", "null"])
@pytest.mark.parametrize("head", ["", "---\n"])
def test_an_empty_list_is_no_error(items: str, head: str) -> None:
    assert load(head + '{"apiVersion": "v1", "kind": "PodList", "items": ' + items + "}") == ()


def test_lists_in_lists_are_flattened_too() -> None:
    inner = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [inner, inner]}

    assert [one.kind for one in load(json.dumps(outer))] == ["Pod", "Pod"]
    assert [one.kind for one in load("---\n" + json.dumps(outer))] == ["Pod", "Pod"]


def test_a_kind_that_only_ends_in_list_is_an_object() -> None:
    (one,) = load("apiVersion: example.com/v1\nkind: AllowList\nspec: {items: [a]}\n")

    assert one.kind == "AllowList"


def test_json_values_in_a_row_are_documents() -> None:
    pod = '{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"}}'
    loaded = load(f"{pod}\n\n{pod}{pod}\n", "-")

    assert [str(one.where) for one in loaded] == ["-:1, Pod a-*", "-:3, Pod a-*", "-:3, Pod a-*"]


def test_a_flow_mapping_is_yaml_although_it_starts_like_json() -> None:
    assert body("{apiVersion: v1, kind: Pod, spec: {a: yes}}")["spec"] == {"a": True}
    assert body('{"apiVersion": v1, "kind": Pod}')["kind"] == "Pod"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", [POD, '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ä"}}'])
def test_byte_order_marks_are_understood(text: str, encoding: str) -> None:
    assert [one.kind for one in load(text.encode(encoding))] == ["Pod"]


# --- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", True), ("On", True), ("y", True), ("off", False), ("n", False), ("true", True),
        ("~", None), ("", None), ("null", None), ("nULL", "nULL"),
        ("12", 12), ("-1", -1), ("+5", 5), ("010", 8), ("0o17", 15), ("0x1F", 31), ("0b101", 5), ("08", 8),
        ("1_000", 1000), ("18446744073709551615", 2**64 - 1), ("99999999999999999999", 100000000000000000000),
        ("1.5", 1.5), (".5", 0.5), ("1e3", 1000), ("1.0", 1), ("1e400", "1e400"), ("9" * 5000, "9" * 5000),
        ("2026-01-02", "2026-01-02"), ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"), ("12:30", "12:30"),
        ('"yes"', "yes"), ("'1'", "1"), ("!!str 1", "1"), ('!!int "5"', 5), ("!!float 2.5", 2.5),
        ("!!binary aGk=", "hi"), ("!custom 5", "5"), ("1.2.3", "1.2.3"), ("80Gi", "80Gi"),
        ("|\n  a\n  b", "a\nb\n"), ("[1, [2], {a: b}]", [1, [2], {"a": "b"}]),
    ],
)  # fmt: skip
def test_scalars_are_what_kubernetes_makes_of_them(text: str, expected: Any) -> None:
    found = value(text)

    assert found == expected
    assert type(found) is type(expected)


def test_keys_become_text() -> None:
    assert value("{1: a, yes: b, 1.5: c, 010: d}") == {"1": "a", "true": "b", "1.5": "c", "8": "d"}


def test_merge_keys_and_anchors_are_expanded_into_separate_copies() -> None:
    found = body(
        "apiVersion: v1\nkind: X\nbase: &base {a: 1, b: [2]}\none:\n  <<: *base\n  a: 5\ntwo: *base\n"
        "three:\n  <<: [*base, {c: 3, a: 9}]\n"
    )

    assert found["one"] == {"a": 5, "b": [2]}
    assert found["two"] == {"a": 1, "b": [2]}
    assert found["three"] == {"a": 1, "b": [2], "c": 3}
    assert found["two"] is not found["base"]
    assert found["two"]["b"] is not found["base"]["b"]


# --- places ----------------------------------------------------------------------------------------------


def test_a_field_has_its_line_and_column() -> None:
    (one,) = load(CLAIM)

    assert one.position_of("spec.devices.requests[0].exactly.count") == (14, 9)
    assert one.line_of("spec.devices.requests[0]") == 11
    assert one.line_of("metadata.annotations[example.com/note]") == 7
    assert one.line_of("metadata.annotations.example.com/note") == 7
    assert one.line_of("") == 2
    assert str(one.where_of("spec.devices")) == "x.yaml:9:3, ResourceClaim one, spec.devices"


def test_a_missing_field_has_the_line_of_what_is_above_it() -> None:
    (one,) = load(CLAIM)

    assert one.line_of("spec.devices.requests[0].exactly.allocationMode") == 12
    assert one.line_of("spec.devices.requests[7].name") == 10
    assert one.line_of("status.allocation") == 2


def test_the_place_is_that_of_the_right_document() -> None:
    loaded = load(f"{POD}---\n{CLAIM}---\n{POD}")

    assert [one.line_of("metadata.name") for one in loaded] == [4, 11, 25]


def test_fields_of_an_alias_have_the_line_of_the_anchor() -> None:
    (one,) = load("apiVersion: v1\nkind: X\na: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n")

    assert one.position_of("c.b") == (4, 3)
    assert one.position_of("d.b") == (4, 3)
    assert one.position_of("c") == (5, 1)


def test_an_object_without_a_text_has_no_line() -> None:
    one = Loaded({"apiVersion": "v1", "kind": "Pod"})

    assert one.line_of("spec") is None
    assert one.where_of("spec").path == "spec"
    assert isinstance(one.as_kind(), Pod)


def test_a_path_is_split_into_keys_and_indices() -> None:
    assert split_path("spec.devices[0].attributes[gpu.example.com/uuid].string") == (
        "spec",
        "devices",
        0,
        "attributes",
        "gpu.example.com/uuid",
        "string",
    )
    assert split_path("") == ()


TEXT = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=" "), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
INDENTS = st.sampled_from((None, 0, 1, 4))


def paths(value: Any, prefix: str = "") -> Iterator[str]:
    yield prefix
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield from paths(child, f"{prefix}[{key}]")


@given(JSON, INDENTS)
def test_json_and_yaml_readers_agree_on_values_and_places(spec: Any, indent: int | None) -> None:
    wanted = {"apiVersion": "v1", "kind": "X", "spec": spec}
    text = json.dumps(wanted, ensure_ascii=False, indent=indent)
    (from_json,) = load(text, "x.json")
    (from_yaml,) = load(f"---\n{text}", "x.yaml")

    assert from_json.body == wanted
    assert from_yaml.body == wanted
    for path in paths(wanted):
        if "]]" in path or "[]" in path or path.count("[") != path.count("]"):
            continue  # a key with brackets in it cannot be written as a path
        line, column = from_json.position_of(path) or (0, 0)
        assert from_yaml.position_of(path) == (line + 1, column), path


# --- Structs ---------------------------------------------------------------------------------------------


def test_objects_of_the_wanted_kinds_are_decoded() -> None:
    claims = list(decode_objects(load(f"{POD}---\n{CLAIM}"), ResourceClaim))

    assert [claim.ref for claim in claims] == ["ResourceClaim one"]
    exactly = claims[0].spec.devices.requests[0].exactly
    assert exactly is not None
    assert exactly.count == 2


def test_a_wrong_type_is_reported_with_file_line_and_object() -> None:
    (one,) = load(CLAIM.replace("count: 2", "count: many"))

    with pytest.raises(InputError) as raised:
        one.as_kind()
    assert raised.value.where.file == "x.yaml"
    assert raised.value.where.object == "ResourceClaim one"


@pytest.mark.parametrize("small", [True, False])
def test_a_large_json_dump_gives_the_same_objects_as_a_small_one(small: bool) -> None:
    slices = [
        {"metadata": {"name": f"s{number}", "labels": None}, "spec": {"driver": "d", "pool": {"name": "p"}}}
        for number in range(3)
    ]
    text = json.dumps(
        {"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1", "items": slices}, indent=1
    )
    loaded = load(text, limits=None if small else Limits(checked_json_bytes=10))

    assert [one.body["metadata"]["name"] for one in loaded] == ["s0", "s1", "s2"]
    assert [str(one.where) for one in loaded] == [
        f"x.yaml:{line}, ResourceSlice s{number}" for number, line in enumerate((5, 17, 29))
    ]
    assert [found.spec.driver for found in decode_objects(loaded, ResourceSlice)] == ["d", "d", "d"]
    assert loaded[2].line_of("spec.pool.name") == 37


def test_a_list_is_decoded_straight_into_structs() -> None:
    text = b'{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "more": 1}]}'

    assert [found.metadata.name for found in load_json_list(text, ResourceSlice)] == ["a", "b"]
    assert load_json_list(b'{"items": null}', ResourceSlice) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b'{"items": [{"metadata": {"name": 5}}]}',
            "d.json, items[0].metadata.name: Expected `str`, got `int`",
        ),
        (b'{"items": [', "d.json:1:12: the JSON text ends too early"),
        (b'{"x":' + b"[" * 5000, "d.json:1:1: nested too deeply"),
    ],
)
def test_a_bad_list_of_structs_is_one_clear_error(text: bytes, message: str) -> None:
    with pytest.raises(InputError) as raised:
        load_json_list(text, ResourceSlice, file="d.json")

    assert str(raised.value).startswith(message)


# --- files, directories, standard input ------------------------------------------------------------------


def test_directories_are_read_below_by_name_and_only_manifests(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("b/2.yml", "b/1.json", "a.yaml", "README.md", ".hidden.yaml", ".git/x.yaml", "empty.yaml"):
        text = "" if name == "empty.yaml" else json.dumps({"apiVersion": "v1", "kind": name})
        (tmp_path / name).write_text(text)

    assert [one.kind for one in load_paths([tmp_path])] == ["a.yaml", "b/1.json", "b/2.yml"]


def test_a_dash_is_standard_input_and_paths_keep_their_order(tmp_path: Path) -> None:
    file = tmp_path / "claim.yaml"
    file.write_text(CLAIM)
    loaded = load_paths([str(file), "-", file], stdin=io.BytesIO(POD.encode()))

    assert [one.kind for one in loaded] == ["ResourceClaim", "Pod", "ResourceClaim"]
    assert str(loaded[1].where) == "stdin:1, Pod team/a"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.yaml", "no such file or directory (check the path)"),
        ("empty", "no *.yaml, *.yml or *.json file in this directory"),
        ("x" * 300, "file name too long"),
        ("nothing.yaml", "no object in it"),
        ("file.yaml/below.yaml", "not a directory"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "nothing.yaml").write_text("# nothing\n---\n")
    (tmp_path / "file.yaml").write_text(POD)

    with pytest.raises(InputError) as raised:
        load_paths([tmp_path / path])
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / path))


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"a\.yaml: permission denied \(check its permissions\)"):
        load_paths([tmp_path / "a.yaml"])


def test_a_directory_of_too_many_files_is_refused(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.yaml").write_text(POD)

    with pytest.raises(TooLargeError, match="more than 2 manifests"):
        load_paths([tmp_path], limits=Limits(files=2))


# --- bad input -------------------------------------------------------------------------------------------

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c\n", "x.yaml:1:5: mapping values are not allowed here (check the indentation, and quote"),
        (POD + 'x: "abc', "x.yaml:6:8: the text ends inside quotes"),
        (POD + "x: [1, 2", "x.yaml:7:1: ',' or ']' is expected here; what it belongs to starts on line 6"),
        ("a:\n  b: 1\n c: 2\n", "x.yaml:3:2: a key is expected here"),
        ("a:\n\tb: 1\n", "x.yaml:2:1: a tab is used for indentation (indent with spaces)"),
        ("a:\n  b: 1\n\tc: 1\n", "x.yaml:3:1: a tab is used for indentation"),
        ("a: @b\n", "x.yaml:1:4: a value cannot start with '@' (quote the value)"),
        ('a: 1\nb: "\x01"\n', "x.yaml:2: control characters are not allowed"),
        ("hello\n", "x.yaml:1: a text, not an object"),
        ("\n- a\n- b\n", "x.yaml:2: a list, not an object (write one document per object, or wrap them"),
        ("5", "x.yaml:1: a number, not an object"),
        ("[]", "x.yaml:1: a list, not an object"),
        ("a: 1\n", "x.yaml:1: Object 'Kind' is missing"),
        ("kind: Pod\n", "x.yaml:1: Object 'apiVersion' is missing"),
        ("apiVersion: v1\nkind: 5\n", "x.yaml:1: kind is a number, not text (quote it)"),
        ("apiVersion: v1\nkind: [x]\n", "x.yaml:1: kind is a list, not text"),
        ("apiVersion: v1\nkind: List\nitems:\n- 5\n", "x.yaml:4: a number, not an object"),
        ("a: &x\n  b: *x\n", "x.yaml:2:6: anchor 'x' value contains itself"),
        ("&x [*x]", "x.yaml:1:5: anchor 'x' value contains itself"),
        ("a: *x\n", "x.yaml:1:4: unknown anchor 'x' referenced"),
        (LAUGHS, "x.yaml:6:10: document contains excessive aliasing"),
        ("a: 1\nb: 2\na: 3\n", 'x.yaml:3:1: duplicate field "a" (keep one of the two)'),
        ("a: {<<: 5}\n", "x.yaml:1:9: map merge requires map or sequence of maps as the value"),
        ("? [a]\n: 1\n", "x.yaml:1:3: a list cannot be a key"),
        ("a: {null: 1}\n", "x.yaml:1:5: null cannot be a key"),
        ("18446744073709551615: 1\n", "x.yaml:1:1: so large a number cannot be a key"),
        ("a: .inf\n", "x.yaml:1:4: .inf is not a number that JSON has"),
        ("a: !!int x\n", "x.yaml:1:4: cannot decode `x` as a !!int"),
        ("a: !!binary '%'\n", "x.yaml:1:4: !!binary value contains invalid base64 data"),
        ("\n".join(" " * n + "a:" for n in range(300)), "x.yaml:201:201: nested more than 200 levels deep"),
        ("a: " + "[" * 3000, "x.yaml:1:1003: nested more than 1,000 levels deep"),
        ("kind: X\nname: {{ .Values.name }}\n", "x.yaml:2:8: a mapping cannot be a key (this is a template"),
        ("{{- if .x }}\nkind: X\n{{- end }}\n", "x.yaml:1:3: did not find expected node content (this is a"),
        ("%YAML 9.9\n---\na: 1\n", "x.yaml:1:1: a %YAML version that nobody reads"),
        ("", "x.yaml: no object in it"),
        ("# nothing\n---\n", "x.yaml: no object in it"),
        (bytes(range(256)), "x.yaml:1: binary, not text"),
        (b"\x1f\x8b\x08\x00", "x.yaml:1: compressed with gzip (decompress it first: gunzip)"),
        (b"a: 1\nb: \xff\n", "x.yaml:2: byte 0xff is not UTF-8 (save the file as UTF-8)"),
        (b"\xff\xfe\x00", "x.yaml:1: not UTF-16 text"),
        (b"# " + b"x" * 3_000_000 + b"\n# \xc3\xa4\nb: \xe4\n", "x.yaml:3: byte 0xe4 is not UTF-8"),
    ],
)  # fmt: skip
def test_bad_yaml_is_one_clear_error(text: str | bytes, message: str) -> None:
    assert str(error(text)).startswith(message)
    assert error(text).next_step


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n', "x.json:1:9: the JSON text ends too early (get the whole file)"),
        ('{"a": 1,}', "x.json:1:9: trailing comma in object"),
        ("{'a': 1}", "x.json:1:2: expected '\"'"),
        ('{\n"a": NaN}', "x.json:2:6: invalid character 'N' (JSON needs double quotes"),
        ('{"apiVersion":"v1","kind":"X",\n"a":1e400}', "x.json:2:5: number out of range"),
        ('{"apiVersion":"v1","kind":"X","a":' + "9" * 5000 + "}", "x.json:1:35: integer value out of range"),
        ('{"apiVersion":"v1","kind":"X",\n"a":[{"n":1,\n "n":2}]}', 'x.json:3:2: duplicate field "a[0].n"'),
        (
            '{"apiVersion":"v1","kind":"X","a":' + "[" * 300 + "]" * 300 + "}",
            "x.json:1, X: nested more than 200",
        ),
        (
            '{"apiVersion":"v1","kind":"X","a":' + "[" * 5000 + "]" * 5000 + "}",
            "x.json:1:1: nested too deeply",
        ),
        ('{"apiVersion":"v1","kind":"X"}\n{"apiVersion":"v1"', "x.json:2:19: the JSON text ends too early"),
        ('{"apiVersion":"v1","kind":"X"}\n5', "x.json:2: a number, not an object"),
        ('{"apiVersion":"v1","kind":"List",\n"items":[\n{},\n[]]}', "x.json:3: Object 'Kind' is missing"),
        ('{"apiVersion":"v1","kind":null}', "x.json:1: Object 'Kind' is missing"),
        ('{"apiVersion":{},"kind":"X"}', "x.json:1: apiVersion is a mapping, not text"),
    ],
)
def test_bad_json_is_one_clear_error(text: str, message: str) -> None:
    assert str(error(text, "x.json")).startswith(message)
    assert error(text, "x.json").next_step


def test_broken_json_is_called_json_whatever_the_name() -> None:
    assert "the JSON text ends too early" in str(error('{"apiVersion": "v1",\n "kind": ', "stdin"))


def test_a_dump_that_is_decoded_late_fails_as_clearly() -> None:
    text = '{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"X",\n"a":1e400}]}'
    (one,) = load(text, limits=Limits(checked_json_bytes=10))

    with pytest.raises(InputError, match=r"x\.yaml:2:5: number out of range"):
        assert one.body


@pytest.mark.parametrize(
    ("text", "limits", "message"),
    [
        ("a: 1\n" * 300_000, Limits(yaml_bytes=2**20), "more than 1 MiB of YAML (dump it as JSON, which may"),
        ("{" + " " * 2**20 + "}", Limits(json_bytes=2**20), "more than 1 MiB of JSON (dump fewer objects"),
        ("a: " + "x" * 2**21 + "\n", Limits(line_bytes=2**20), "a line of more than 1 MiB"),
        (POD + "b: {a: {a: {}}}", Limits(depth=3), "nested more than 3 levels deep"),
        (POD + "b: &b [1, 2, 3]\nc: *b\n", Limits(alias_nodes=3), "document contains excessive aliasing"),
    ],
)
def test_every_limit_is_a_clear_error(text: str, limits: Limits, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)

    with pytest.raises(TooLargeError) as in_memory:
        load(text, limits=limits)
    with pytest.raises(TooLargeError) as in_file:
        load_paths([file], limits=limits)
    with pytest.raises(TooLargeError) as on_stdin:
        load_paths(["-"], stdin=io.BytesIO(text.encode()), limits=limits)
    assert message in str(in_memory.value)
    assert message in str(in_file.value)
    assert message in str(on_stdin.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_objects_or_one_input_error(data: bytes) -> None:
    try:
        load(data)
    except InputError as raised:
        assert raised.what
        assert raised.next_step
        assert raised.where.file == "x.yaml"


@given(st.text(alphabet="ab:-[]{},&*!|>'\"#% \n\t<1.~?", max_size=60), st.sampled_from(("x.yaml", "x.json")))
def test_any_text_is_objects_or_one_input_error(text: str, file: str) -> None:
    try:
        load(f"apiVersion: v1\nkind: X\n{text}", file)
        load(text, file)
    except InputError as raised:
        assert raised.where.file == file


MEASURE = """
import sys
from baro.model.errors import InputError
from baro.model.load import load_paths

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024

before = peak()
try:
    load_paths([sys.argv[1]])
except InputError as error:
    print(peak() - before, error.what)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    ("name", "text", "repeat", "what"),
    [
        ("open.yaml", b"[", 100_000_000, "nested more than 200 levels deep"),
        ("open.json", b"[", 100_000_000, "nested more than 200 levels deep"),
        ("open", b"[", 100_000_000, "nested more than 200 levels deep"),
        ("late.json", b"[[" + b" " * 998, 100_000, "nested too deeply"),
        ("dash.yaml", b"- ", 30_000_000, "a line of more than 8 MiB"),
        ("zero.yaml", b"\0", 100_000_000, "binary, not text"),
        ("large.yaml", b"a: 1\n", 20_000_000, "more than 64 MiB of YAML"),
    ],
)
def test_huge_garbage_costs_little_memory(
    tmp_path: Path, name: str, text: bytes, repeat: int, what: str
) -> None:
    file = tmp_path / name
    file.write_bytes(text * repeat)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(file)], capture_output=True, text=True, check=True
    )
    file.unlink()
    mebibytes, _, message = done.stdout.strip().partition(" ")

    assert message == what
    assert int(mebibytes) < 200


# --- real files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", shared.listing("data/dra-yaml", "*.yaml"), ids=lambda path: path.name)
def test_every_real_manifest_loads_and_knows_its_lines(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    loaded = load_paths([file])

    assert loaded
    for one in loaded:
        line = one.line_of("kind")
        assert line is not None
        assert one.kind in lines[line - 1]
        name = one.body.get("metadata", {}).get("name")
        if name:
            assert str(name) in lines[(one.line_of("metadata.name") or 0) - 1]
