"""Characters of a text: where every value stands, and which character of it came from where."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baro.model.scalartext import written
from baro.model.spans import Span, json_spans, spans
from baro.model.yamlscalar import resolve

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029\ufeff", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n '\"\\ "), max_size=30)  # fmt: skip  # noqa: E501


def scalars(node: Span) -> list[Span]:
    if node.is_scalar:
        return [node]
    return [leaf for child in node.children.values() for leaf in scalars(child)]


def traced(text: str, node: Span) -> None:
    """Each character that stands for itself is found where the trace says."""
    places = node.characters(text)
    assert places is not None
    assert len(places) == len(node.value) + 1
    assert all(node.start <= place <= node.end for place in places)
    for character, place in zip(node.value, places, strict=False):
        if text[place] not in "\\\r\n \t":
            assert text[place] == character


@given(st.dictionaries(st.from_regex("k[a-z]{1,5}", fullmatch=True), TEXTS, min_size=1, max_size=4), st.sampled_from([None, "'", '"', "|", ">"]), st.sampled_from([20, 80]), st.booleans())  # fmt: skip  # noqa: E501
def test_every_text_is_traced_back_through_quotes_folds_and_blocks(
    body: dict[str, str], style: str | None, width: int, flow: bool
) -> None:
    text = yaml.dump(
        {"a": [body]}, default_style=style, width=width, default_flow_style=flow, allow_unicode=True
    )
    (root,) = spans(text)
    assert root is not None
    inner = root.children["a"].children[0]
    for name, value in body.items():
        node = inner.children[name]
        assert node.value == (value if style or node.style != "plain" else resolve(value))
        places = node.characters(text) if isinstance(node.value, str) else None
        if places is not None:
            traced(text, node)


@given(st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8), st.sampled_from([None, 2]), st.booleans())  # fmt: skip  # noqa: E501
def test_json_values_stand_where_the_spans_say(body: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps({"a": body}, indent=indent, ensure_ascii=ascii_only)
    root = json_spans(text)
    assert root is not None
    node = root.children["a"]
    assert json.loads(text[node.start : node.end]) == body
    for leaf in scalars(root):
        assert json.loads(text[leaf.start : leaf.end]) == leaf.value
        if isinstance(leaf.value, str):
            traced(text, leaf)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("a: b", ("a",), "b"),
        ("a:\n- b: c  # d\n  e: 'f'\n", ("a", 0, "e"), "'f'"),
        ("a: &x !!str  b c # d", ("a",), "b c"),
        ("a.b/c: {d: [1, 22]}", ("a", "b/c", "d", 1), "22"),
        ("- |\n  x\n\n\n- y", (0,), "|\n  x"),
        ("a: {b: {c: d}}  # e", ("a", "b"), "{c: d}"),
        ("a:\n  b: c\n\n# x\nd: e", ("a",), "b: c"),
        ("? a\n: b", ("a",), "b"),
        ("é: ü 中 x\nb: z", ("b",), "z"),
    ],
)
def test_a_value_is_these_characters(text: str, path: tuple[str | int, ...], expected: str) -> None:
    (root,) = spans(text)
    assert root is not None
    node = root.at(path)
    assert node is not None
    assert text[node.start : node.end] == expected


def test_what_stands_below_an_alias_is_shared() -> None:
    text = "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n"
    (root,) = spans(text)
    assert root is not None
    assert root.children["c"].style == "alias"
    assert root.at(("c", "b")) is root.at(("a", "b"))
    found = root.at(("d", "b"))
    assert found is not None
    assert found.shared
    own = root.at(("d", "e"))
    assert own is not None
    assert not own.shared


def test_documents_are_found_by_their_index() -> None:
    roots = spans("# only a comment\n---\na: 1\n---\n---\nb: 2\n")
    assert [root and list(root.children) for root in roots] == [["a"], [], ["b"]]
    assert spans("a: [") == ()


@given(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63),
    st.sampled_from(["plain", "single", "double", "literal", "folded"]),
)
def test_what_is_written_reads_as_it_was_meant(value: Any, style: Any) -> None:
    text = f"a:\n  b: {written(value, style, indent=4)}\n  c: 1\n"
    (root,) = spans(text)
    assert root is not None
    assert root.at(("a", "b")) is not None
    assert root.children["a"].children["b"].value == value
    assert root.children["a"].children["c"].value == 1


@pytest.mark.parametrize(
    "word", ["n", "on", "1_000", "010", "~", "1e3", "", " x", "a: b", "#x", "- x", "*x", "'"]
)
def test_a_word_that_yaml_would_take_for_something_else_is_quoted(word: str) -> None:
    assert yaml.safe_load(written(word, "plain")) == word
