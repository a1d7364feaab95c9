"""Label and field selectors: grammar, meaning, and the texts for what cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.selectors import parse_fields, parse_labels
from baro.apiserver.status import StatusError

LABELS = {"app": "train", "tier": "gpu", "example.com/size": "8"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app=train", True),
        ("app==train, tier = gpu", True),
        ("app!=train", False),
        ("missing!=x", True),
        ("app", True),
        ("!app", False),
        ("! missing", True),
        ("app in (serve, train)", True),
        ("app notin (train)", False),
        ("missing notin (train)", True),
        ("missing in (train)", False),
        ("example.com/size>7", True),
        ("example.com/size<8", False),
        ("app>7", False),
        ("missing=", False),
        ("in=x", False),
        ("app in (,train)", True),
    ],
)
def test_label_selectors_mean_what_they_mean_in_kubernetes(text: str, expected: bool) -> None:
    assert parse_labels(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a==(", "unable to parse requirement: found '(', expected: identifier"),
    ],
)
def test_a_bad_label_selector_gets_the_servers_words(text: str, message: str) -> None:
    with pytest.raises(StatusError) as raised:
        parse_labels(text)
    assert (raised.value.code, raised.value.message) == (400, message)


def test_a_bad_field_selector_gets_the_servers_words() -> None:
    with pytest.raises(StatusError) as raised:
        parse_fields("metadata.name")
    assert raised.value.message == "invalid selector: 'metadata.name'; can't understand 'metadata.name'"


def test_field_selectors_compare_with_the_empty_text_when_a_field_is_missing() -> None:
    assert parse_fields("spec.nodeName=").matches({})
    assert not parse_fields("spec.nodeName!=").matches({})
    assert parse_fields("a=1,b!=2").matches({"a": "1", "b": "3"})


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="ab=!(),<> in.notin/-_\\é", max_size=30))
def test_no_selector_text_ends_in_anything_but_a_selector_or_a_400(text: str) -> None:
    for parse in (parse_labels, parse_fields):
        try:
            parse(text)
        except StatusError as error:
            assert error.code == 400
