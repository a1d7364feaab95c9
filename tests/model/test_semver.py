"""Semantic versions against Kubernetes' answers and the rules of SemVer 2.0."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.model.gotext import go_quote
from baro.model.semver import SemVer, SemVerError
from tests.support.model import cel_answers, evaluate

NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1)).map(str)
WORDS = st.from_regex(r"[a-zA-Z-][0-9A-Za-z-]{0,4}", fullmatch=True)
PRERELEASES = st.lists(st.one_of(NUMBERS, WORDS), max_size=3)
BUILDS = st.lists(st.from_regex(r"[0-9A-Za-z-]{1,4}", fullmatch=True), max_size=2)


@st.composite
def texts(draw: st.DrawFn) -> str:
    core = ".".join(draw(NUMBERS) for _ in range(3))
    prerelease, build = draw(PRERELEASES), draw(BUILDS)
    return (
        core + ("-" + ".".join(prerelease) if prerelease else "") + ("+" + ".".join(build) if build else "")
    )


VERSIONS = texts().map(SemVer.parse)


def compare(a: str, b: str) -> int:
    """SemVer 2.0 §11 written down step by step, without our classes."""
    (core_a, _, pre_a), (core_b, _, pre_b) = (text.split("+")[0].partition("-") for text in (a, b))
    for left, right in zip(core_a.split("."), core_b.split("."), strict=True):
        if left != right:
            return -1 if int(left) < int(right) else 1
    if not pre_a or not pre_b:
        return (not pre_a) - (not pre_b)
    for left, right in zip(pre_a.split("."), pre_b.split("."), strict=False):
        if left == right:
            continue
        if left.isdigit() and right.isdigit():
            return -1 if int(left) < int(right) else 1
        if left.isdigit() != right.isdigit():
            return -1 if left.isdigit() else 1
        return -1 if left < right else 1
    return (pre_a.count(".") > pre_b.count(".")) - (pre_a.count(".") < pre_b.count("."))


def test_the_order_of_the_specification() -> None:
    rising = (
        "0.9.10 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 "
        "1.0.0-rc.1 1.0.0 1.0.1 1.2.0 1.10.0 2.0.0"
    )

    for lower, higher in pairwise(rising.split()):
        assert SemVer.parse(lower) < SemVer.parse(higher)
        assert SemVer.parse(higher) > SemVer.parse(lower)
        assert SemVer.parse(lower) != SemVer.parse(higher)


def test_build_metadata_does_not_count() -> None:
    assert SemVer.parse("1.2.3+a") == SemVer.parse("1.2.3+b") == SemVer.parse("1.2.3")
    assert len({SemVer.parse("1.2.3+a"), SemVer.parse("1.2.3")}) == 1


def test_the_parts_of_a_version() -> None:
    version = SemVer.parse("1.20.3-rc.1+sha.5")

    assert (version.major, version.minor, version.patch) == (1, 20, 3)
    assert (version.prerelease, version.build) == (("rc", "1"), ("sha", "5"))


@given(texts())
def test_a_version_prints_as_it_was_written(text: str) -> None:
    assert str(SemVer.parse(text)) == text


@given(texts(), texts())
def test_the_order_is_that_of_the_specification(a: str, b: str) -> None:
    one, two = SemVer.parse(a), SemVer.parse(b)

    assert (one > two) - (one < two) == compare(a, b)
    assert (one == two) == (compare(a, b) == 0)
    if one == two:
        assert hash(one) == hash(two)


@given(st.lists(texts(), min_size=3, max_size=8))
def test_the_order_is_total(versions: list[str]) -> None:
    ours = [SemVer.parse(text) for text in sorted(versions, key=SemVer.parse)]
    plain = [SemVer.parse(text) for text in sorted(versions, key=cmp_to_key(compare))]

    assert ours == plain
    assert all(low <= high and high >= low for low, high in pairwise(ours))


@given(VERSIONS, VERSIONS, VERSIONS)
def test_before_is_transitive(a: SemVer, b: SemVer, c: SemVer) -> None:
    low, middle, high = sorted((a, b, c))

    assert low <= middle <= high
    assert low <= high


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.x.3", 'Invalid character(s) found in minor number "x"'),
        ("1.2.03", 'Patch number must not contain leading zeroes "03"'),
        ("1.2.3 ", 'Invalid character(s) found in patch number "3 "'),
        ("1..2", 'strconv.ParseUint: parsing "": invalid syntax'),
        (".1.2", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.2.18446744073709551616", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-a..b", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-ä", 'Invalid character(s) found in prerelease "ä"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a_b", 'Invalid character(s) found in build meta data "a_b"'),
        ("1.2.3-\t", 'Invalid character(s) found in prerelease "\\t"'),
        ("1." + "9" * 5000 + ".0", 'strconv.ParseUint: parsing "' + "9" * 5000 + '": value out of range'),
    ],
)
def test_a_text_that_is_no_version_gets_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(SemVerError) as raised:
        SemVer.parse(text)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1", "1.0.0"), ("1.2", "1.2.0"), ("v01.002.03", "1.2.3"), ("0", "0.0.0"), ("00.0.0", "0.0.0"),
     ("1.2.3-rc.1", "1.2.3-rc.1"), ("v1.2.3+b", "1.2.3+b")],
)  # fmt: skip
def test_the_lenient_form_fills_up_and_strips(text: str, version: str) -> None:
    assert str(SemVer.normalize(text)) == version


@pytest.mark.parametrize("text", ["", "1.0-rc1", "V1", "-1.2.3", "1.2.3 ", "vv1"])
def test_the_lenient_form_is_not_that_lenient(text: str) -> None:
    with pytest.raises(SemVerError):
        SemVer.normalize(text)


@given(st.text(alphabet="0123456789.-+vab ", max_size=12))
def test_any_text_is_a_version_or_a_version_error(text: str) -> None:
    for read in (SemVer.parse, SemVer.normalize):
        try:
            version = read(text)
        except SemVerError as error:
            assert str(error)
        else:
            assert SemVer.parse(str(version)) == version


def test_a_version_is_not_a_text() -> None:
    assert SemVer.parse("1.2.3") != "1.2.3"
    with pytest.raises(TypeError):
        assert SemVer.parse("1.2.3") < "1.2.4"  # type: ignore[operator]


def test_the_cel_oracle_agrees_on_versions() -> None:
    cases = list(cel_answers("semver-ctor", "semver-compare"))
    wrong = [
        (expression, answer, ours) for expression, answer in cases if (ours := evaluate(expression)) != answer
    ]

    assert not wrong
    assert len(cases) > 80


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a", '"a"'), ('a"\\', '"a\\"\\\\"'), ("\x00\x7f", '"\\x00\\x7f"'), ("\a\v\n", '"\\a\\v\\n"'),
     ("é", '"é"'), ("\u00a0", '"\\u00a0"'), ("\U000e0001", '"\\U000e0001"')],
)  # fmt: skip
def test_text_is_quoted_as_go_quotes_it(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted
