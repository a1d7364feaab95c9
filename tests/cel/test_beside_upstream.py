"""Random expressions, well typed and ill typed, get the scheduler's own answers: verdict, text, type,
estimate, result, error and cost, in both environments.

Needs the Go program of ``bench/peers`` (any run of ``python -m bench cel_peers`` builds it); skipped without.
500 examples, 20,000 with ``HYPOTHESIS_PROFILE=nightly``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, example, given, settings

from tests.support.cel_generator import DEVICES, ill_typed, many, texts, well_typed
from tests.support.cel_peer import Upstream, upstream

pytestmark = pytest.mark.timeout(3600)
_MANY = settings(deadline=None, max_examples=many(250), suppress_health_check=list(HealthCheck))


LISTED = {
    "google.protobuf.Value{} == null": "messages that no selector has a use for are not made",
    "google.protobuf.Struct{} == {}": "as above",
    "google.protobuf.Empty{} == google.protobuf.Empty{}": "as above",
    "int{x: 1}": "which complaint follows a literal of a type that is no message",
}
"""Known differences, each with its reason."""
_OF_A_LISTED_KIND = re.compile(
    r"\b(google\.protobuf\.(Value|Struct|ListValue|Any|Empty)"
    r"|bool|bytes|double|int|string|uint|null_type|list|map)\s*\{"
)


@pytest.fixture(scope="module")
def peer() -> Iterator[Upstream]:
    with upstream(DEVICES) as running:
        if running is None:
            pytest.skip("upstream's CEL has not been built: python -m bench cel_peers")
        yield running


@_MANY
@given(texts(well_typed))
@example("ip('%e'.format([1e-7])).isLoopback()")
@example("((string(device.driver).substring(29)).format([timestamp('2024-01-02T03:04:05Z')])).contains('a')")
@example("format.dns1123Label().validate('1.2.3').orValue([])[0].contains('dots')")
@example("ip(format.labelValue().validate('A_/').value()[0]).isLoopback()")
@example("format.byte().validate('').hasValue()")
@example("'%s'.format([[?dyn(1)]]) == 'a'")
@example("quantity('0').sub(-9223372036854775808).isLessThan(quantity('1'))")
@example("optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()")
@example("optional.ofNonZeroValue(optional.none()).hasValue()")
@example("[1][dyn(1.0 / 0.0)] == 1")
@example("[1][dyn(18446744073709551615u)] == 1")
@example("'%.2f %e'.format([-0.0, -1.0 / 0.0]) == ''")
def test_well_typed_expressions_get_upstreams_answers(peer: Upstream, text: str) -> None:
    assert peer.differences(text) == []


@_MANY
@given(texts(ill_typed))
@example("{?'key': dyn(1)} == {}")
@example("cel.bind(t, type(1), true)")
@example("cel.bind(x, {}, x.key.indexOf('a') == 1 && x.key == 1)")
@example("cel.bind(x, {}, x.key.getHours() == 1 && x.key == 1u)")
@example("cel.bind(x, {}, x.key < 1u && x.key == b'')")
@example("cel{?'key': 1}).all(n, true)")
@example("has(a.) || (.'i' in c)")
@example("--!b'q'")
def test_ill_typed_and_broken_expressions_get_upstreams_answers(peer: Upstream, text: str) -> None:
    assume(_OF_A_LISTED_KIND.search(text) is None)
    assert peer.differences(text) == []


@pytest.mark.parametrize("text", LISTED)
def test_a_listed_difference_is_still_one(peer: Upstream, text: str) -> None:
    assert peer.differences(text) != []
