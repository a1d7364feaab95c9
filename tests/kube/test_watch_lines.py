"""Lines of a watch, however the bytes of the stream are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baro.kube.client import _lines


@given(st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"\n", b"")), max_size=6), st.data())
def test_lines_are_the_same_wherever_the_stream_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    chunks = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        chunks.append(stream[:size])
        stream = stream[size:]
    assert list(_lines(chunks)) == lines


def test_a_last_line_without_an_end_is_given_as_it_is() -> None:
    assert list(_lines([b'{"a"', b":1}\n{", b'"b":2}'])) == [b'{"a":1}', b'{"b":2}']


def test_only_a_line_feed_ends_a_line() -> None:
    text = '{"a": "x\u2028y\x0bz"}'.encode()
    assert list(_lines([text, b"\n"])) == [text]
