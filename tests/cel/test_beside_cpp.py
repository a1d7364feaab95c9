"""Random expressions on the part of CEL that Google's C++ library has too: both accept the same, and give the
same on the same device, up to a table of known differences that is itself tested.

500 examples, 20,000 with ``HYPOTHESIS_PROFILE=nightly``; skipped where cel-expr-python is not installed (it
has wheels for Linux only).
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.cel_cpp import KNOWN, SHARED, Cpp, Known, explained
from tests.support.cel_generator import ill_typed, many, texts, well_typed

pytest.importorskip("cel_expr_python", reason="cel-expr-python is not installed (Linux only)")
pytestmark = pytest.mark.timeout(3600)
_MANY = settings(deadline=None, max_examples=many(250), suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def cpp() -> Cpp:
    return Cpp()


@_MANY
@given(texts(well_typed, SHARED))
def test_well_typed_expressions_agree_with_the_cpp_library(cpp: Cpp, text: str) -> None:
    seen = cpp.compare(text)
    assert not seen.differs or explained(seen), seen


@_MANY
@given(texts(ill_typed, SHARED))
def test_ill_typed_expressions_agree_with_the_cpp_library(cpp: Cpp, text: str) -> None:
    seen = cpp.compare(text)
    assert not seen.differs or explained(seen), seen


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.reason.replace(" ", "-")[:50])
def test_a_known_difference_is_still_one(cpp: Cpp, known: Known) -> None:
    seen = cpp.compare(known.example)
    assert seen.differs, seen
    assert known.matches(seen), seen


@pytest.mark.parametrize(
    "text",
    [
        "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].index >= 3",
        "device.attributes['gpu.example.com'].?gone.orValue('x') == 'x'",
        "device.attributes['net.example.com'].huge + 1 > 0 || device.allowMultipleAllocations",
        "device.attributes['gpu.example.com'].exists(k, k.startsWith('prod'))",
        "cel.bind(a, device.attributes['gpu.example.com'], has(a.uuid) && a.uuid.matches('^GPU-[0-9]+$'))",
        "'nope' == 1",
        "device.attributes['gpu.example.com'].index.size() > ",
    ],
)
def test_everyday_expressions_agree_without_exception(cpp: Cpp, text: str) -> None:
    assert not cpp.compare(text).differs
