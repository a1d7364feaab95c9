"""Quantities against Kubernetes' answers, and against exact fractions."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.model.quantity import (
    FORMAT_ERROR,
    NANO,
    NUMERIC_ERROR,
    SUFFIX_ERROR,
    Format,
    Quantity,
    QuantityError,
)
from tests.support import shared
from tests.support.model import cel_answers, evaluate

FACTORS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "e3": Fraction(10**3), "E-2": Fraction(1, 100), "e+6": Fraction(10**6),
}  # fmt: skip

NUMBERS = st.from_regex(r"[0-9]{1,20}(\.[0-9]{0,12})?", fullmatch=True)
SIGNS = st.sampled_from(("", "", "-", "+"))
SUFFIXES = st.sampled_from(tuple(FACTORS))
TEXTS = st.tuples(SIGNS, NUMBERS, SUFFIXES)
QUANTITIES = TEXTS.map(lambda parts: Quantity.parse("".join(parts)))
FORMATS: st.SearchStrategy[Format] = st.sampled_from(("DecimalSI", "BinarySI", "DecimalExponent"))


def exact(quantity: Quantity) -> Fraction:
    return Fraction(quantity.scaled, NANO)


# --- text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1500m", "1500m"), ("1.5Gi", "1536Mi"), ("0.5", "500m"), (".5", "500m"), ("1e3", "1e3"),
        ("1000", "1k"), ("1024", "1024"), ("1024Ki", "1Mi"), ("1023Ki", "1023Ki"), ("512Ki", "512Ki"),
        ("0.5Ki", "512"), ("0.0001Ki", "102400u"), ("1.1Ki", "1126400m"), ("12e2", "1200"),
        ("1000000u", "1"), ("0.1n", "1n"), ("-0.1n", "-1n"), ("-1.5Gi", "-1536Mi"), ("0Mi", "0"),
        ("-0", "0"), ("00", "0"), ("Gi", "0"), ("-", "0"), (".", "0"), ("100E", "100E"),
        ("12345678901234567890", "12345678901234567890"), ("8Ei", "9223372036854775807"),
        ("-99999Ei", "-9223372036854775807"), ("3000E", "3000E"), ("1e21", "1e21"), ("1e-3", "1e-3"),
    ],
)  # fmt: skip
def test_a_quantity_prints_as_kubernetes_prints_it(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", ["+1", "1E3", "001", "1.500", "1.k", "1500Ki", "1100000m"])
def test_a_text_that_kubernetes_takes_for_canonical_is_kept(text: str) -> None:
    kept = {"1100000m": "1100"}.get(text, text)

    assert str(Quantity.parse(text)) == kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_ERROR), (" 1", FORMAT_ERROR), ("1 Gi", FORMAT_ERROR), ("0x10", FORMAT_ERROR),
        ("1.2.3", FORMAT_ERROR), ("1_000", FORMAT_ERROR), ("1µ", FORMAT_ERROR), ("abc", FORMAT_ERROR),
        ("1e", SUFFIX_ERROR), ("1i", SUFFIX_ERROR), ("1K", SUFFIX_ERROR), ("1ki", SUFFIX_ERROR),
        ("1e-", SUFFIX_ERROR), ("1-3", SUFFIX_ERROR), ("1e99999999999999999999", SUFFIX_ERROR),
        ("Ei", NUMERIC_ERROR), (".e-10", NUMERIC_ERROR),
    ],
)  # fmt: skip
def test_a_text_that_is_no_quantity_gets_kubernetes_own_words(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as raised:
        Quantity.parse(text)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("number", "text"), [(5, "5"), (1000, "1k"), (1.5, "1500m"), (-2, "-2"), (1e21, "1e+21"), (0.0, "0")]
)
def test_a_number_is_read_from_the_text_that_json_gives_it(number: float, text: str) -> None:
    assert str(Quantity.parse(number)) == text


@pytest.mark.parametrize("value", [True, math.nan, math.inf, -math.inf, None])
def test_what_json_has_no_number_for_is_no_quantity(value: Any) -> None:
    with pytest.raises(QuantityError, match="quantities must match"):
        Quantity.parse(value)


@pytest.mark.parametrize("text", ["1e5000", "9" * 5000, "1e999999999999"])
def test_a_value_of_thousands_of_digits_is_refused_at_once(text: str) -> None:
    with pytest.raises(QuantityError, match="more than 4000 digits"):
        Quantity.parse(text)


def test_an_integer_of_thousands_of_digits_is_refused_at_once() -> None:
    with pytest.raises(QuantityError, match="more than 4000 digits"):
        Quantity.parse(10**4500)


def test_only_the_wire_forgives_blanks_around_a_quantity() -> None:
    assert Quantity.from_wire(" 80Gi ") == Quantity.parse("80Gi")
    assert Quantity.from_wire(3) == Quantity.parse("3")
    with pytest.raises(QuantityError):
        Quantity.parse(" 80Gi ")


@given(TEXTS)
def test_the_value_is_exact_and_rounds_away_from_zero_below_a_nano(parts: tuple[str, str, str]) -> None:
    sign, number, suffix = parts
    quantity = Quantity.parse("".join(parts))
    wanted = Fraction(number.rstrip(".")) * FACTORS[suffix] * (-1 if sign == "-" else 1)
    rounded = Fraction(math.ceil(abs(wanted) * NANO), NANO)
    if suffix.endswith("i"):
        rounded = min(rounded, Fraction(2**63 - 1))

    assert exact(quantity) == (rounded if wanted >= 0 else -rounded)


@given(QUANTITIES)
def test_the_text_reads_back_to_the_same_quantity(quantity: Quantity) -> None:
    again = Quantity.parse(str(quantity))

    assert again == quantity
    if quantity.sign and not quantity.text:
        assert str(again) == str(quantity)


@given(st.integers(-(10**30), 10**30), FORMATS)
def test_any_value_has_a_text_in_any_format(nano: int, format: Format) -> None:
    quantity = Quantity.from_scaled(nano, format)
    text = str(quantity)

    assert "." not in text
    if format != "BinarySI" or abs(nano) <= (2**63 - 1) * NANO:
        assert Quantity.parse(text).scaled == nano


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP x", max_size=12))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        assert str(error)
    else:
        assert Quantity.parse(str(quantity)) == quantity


# --- order and arithmetic --------------------------------------------------------------------------------


@given(QUANTITIES, QUANTITIES)
def test_quantities_compare_by_value_whatever_the_suffix(a: Quantity, b: Quantity) -> None:
    assert (a < b, a <= b, a > b, a >= b, a == b) == (
        exact(a) < exact(b),
        exact(a) <= exact(b),
        exact(a) > exact(b),
        exact(a) >= exact(b),
        exact(a) == exact(b),
    )
    if a == b:
        assert hash(a) == hash(b)


def test_equal_values_of_other_formats_are_one_key() -> None:
    same = {Quantity.parse(text) for text in ("1", "1000m", "1.0", "1e0", "1000000u")}

    assert len(same) == 1


@given(QUANTITIES, QUANTITIES)
def test_sums_and_differences_are_exact(a: Quantity, b: Quantity) -> None:
    assert exact(a + b) == exact(a) + exact(b)
    assert exact(a - b) == exact(a) - exact(b)
    assert exact(-a) == -exact(a)
    assert (a - a).sign == 0


def test_a_sum_keeps_the_format_of_its_left_side_unless_that_is_zero() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1Gi")) == "2Gi"
    assert str(Quantity.parse("1Gi") + Quantity.parse("1k")) == "1073742824"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("0") - Quantity.parse("1Gi")) == "-1Gi"


@given(QUANTITIES)
def test_whole_and_milli_values_round_away_from_zero(quantity: Quantity) -> None:
    value = exact(quantity)
    away = math.ceil if value >= 0 else math.floor

    assert quantity.value() == away(value)
    assert quantity.milli_value() == away(value * 1000)
    assert quantity.sign == (value > 0) - (value < 0)
    assert bool(quantity) == (value != 0)


@pytest.mark.parametrize(
    ("text", "whole"),
    [("1", True), ("1k", True), ("1Gi", True), ("1500m", False), ("1000m", False), ("1.0", False),
     ("9223372036854775807", False), ("1e18", True), ("1e19", False)],
)  # fmt: skip
def test_is_integer_asks_how_kubernetes_holds_the_number(text: str, whole: bool) -> None:
    quantity = Quantity.parse(text)

    assert quantity.is_integer() is whole
    if whole:
        assert quantity.as_integer() == exact(quantity)
    else:
        with pytest.raises(QuantityError, match="cannot convert value to integer"):
            quantity.as_integer()


def test_the_float_has_the_rounding_of_kubernetes() -> None:
    assert Quantity.parse("1500m").as_approximate_float() == 1.5
    assert Quantity.parse("0.3").as_approximate_float() == 3 * 0.1
    assert Quantity.parse("1e300").as_approximate_float() == 1e300
    assert Quantity.parse("1e400").as_approximate_float() == math.inf
    assert Quantity.parse("-1e400").as_approximate_float() == -math.inf


def test_a_quantity_is_not_a_number() -> None:
    assert Quantity.parse("1") != 1
    with pytest.raises(TypeError):
        assert Quantity.parse("1") < 2  # type: ignore[operator]
    with pytest.raises(TypeError):
        assert Quantity.parse("1") + 2  # type: ignore[operator]


# --- answers of real Kubernetes --------------------------------------------------------------------------


def test_the_cel_oracle_agrees_on_quantities() -> None:
    cases = list(cel_answers("quantity-ctor", "quantity-compare", "quantity-arith", "capacity"))
    wrong = [
        (expression, answer, ours) for expression, answer in cases if (ours := evaluate(expression)) != answer
    ]

    assert not wrong
    assert len(cases) > 80


def test_the_api_server_returns_the_text_that_we_print() -> None:
    compared = 0
    with shared.path("data/strict-oracle.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            if case["category"] != "capacity-value" or "object" not in case:
                continue
            case |= case.get("v1_37", {})
            sent = case["object"]["spec"]["devices"][0]["capacity"]["mem"]
            if not isinstance(sent, dict):
                continue
            if not case["accepted"]:
                with pytest.raises(QuantityError) as raised:
                    Quantity.parse(sent["value"])
                assert case["message"].endswith(str(raised.value)), case["name"]
            else:
                returned = case["object"] if case["readBack"] == "same" else case["readBack"]
                value = returned["spec"]["devices"][0]["capacity"]["mem"]["value"]
                assert str(Quantity.parse(sent["value"])) == value, case["name"]
            compared += 1

    assert compared >= 14
