"""Records out of a stream: JSON lines one by one, or one document that holds a list of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from baro.model.errors import InputError, Where

_LISTS: Final = ("instances", "cases", "records")
"""Members of a document that hold its records."""
_NEXT_STEP: Final = "give one JSON object a line, or one document with a list named instances or cases"


OnError = Callable[[InputError], None]


def records(stream: Iterable[bytes], file: str) -> Iterator[dict[str, Any]]:
    """The records in the lines of ``stream``, as they come; a document is read whole first.

    Raises ``InputError`` with file and line for what is not JSON, or is no object.
    """
    return (record for _, record in numbered_records(stream, file))


def numbered_records(
    stream: Iterable[bytes], file: str, on_error: OnError | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records, each with the line that it begins on (in a document: that the document begins on).

    A line that is no record goes to ``on_error`` if that is given, and reading goes on; else, and for a
    document that cannot be read, ``InputError`` is raised.
    """
    numbered: Iterator[tuple[int, bytes]] = enumerate(stream, start=1)
    first = next(((number, line) for number, line in numbered if line.strip()), None)
    if first is None:
        return
    try:
        head = json.loads(first[1])
    except (ValueError, RecursionError):
        # Not a record by itself: the beginning of a document over several lines, or no JSON at all.
        rest = [line for _, line in numbered]
        whole = first[1] + b"".join(rest)
        if on_error is None or _is_json(whole) or not _has_records(rest):
            yield from _document(whole, file, first[0])
            return
        numbered, head = enumerate(rest, start=first[0] + 1), None
    if isinstance(head, list) or (isinstance(head, dict) and any(name in head for name in _LISTS)):
        yield from _document(first[1], file, first[0])
        numbered = ((number, line) for number, line in numbered if line.strip())
        extra = next(numbered, None)
        if extra is not None:
            raise _error("something follows the document", file, extra[0])
        return
    for number, line in itertools.chain([first], numbered):
        if not line.strip():
            continue
        try:
            yield number, _record(line, file, number)
        except InputError as error:
            if on_error is None:
                raise
            on_error(error)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _has_records(lines: list[bytes]) -> bool:
    """Whether one of the lines is an object by itself, so that a broken line before is a broken record."""
    for line in lines:
        try:
            if isinstance(json.loads(line), dict):
                return True
        except (ValueError, RecursionError):
            continue
    return False


def _record(data: bytes, file: str, line: int) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _error(f"no JSON: {error}", file, line) from None
    if not isinstance(found, dict):
        raise _error("a record is a JSON object", file, line)
    return found


def _document(data: bytes, file: str, line: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of one document, each decoded when it is asked for."""
    try:
        document: Any = msgspec.json.decode(data, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        bad = line
        try:
            json.loads(data)
        except (ValueError, RecursionError) as exact:
            bad = line + getattr(exact, "lineno", 1) - 1
        raise _error(f"no JSON: {error}", file, bad) from None
    if isinstance(document, dict):
        name = next((name for name in _LISTS if name in document), None)
        if name is None:
            yield line, _record(data, file, line)
            return
        document = _list_of(document[name], name, file, line)
    for raw in document:
        yield line, _record(bytes(raw), file, line)


def _list_of(raw: msgspec.Raw, name: str, file: str, line: int) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        raise _error(f"{name} is no list", file, line) from None


def _error(what: str, file: str, line: int) -> InputError:
    return InputError(what, where=Where(file=file, line=line), next_step=_NEXT_STEP)
