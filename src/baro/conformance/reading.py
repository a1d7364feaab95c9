"""Records out of a stream: JSON lines one by one, or one document that holds a list of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from baro.model.errors import InputError, Where

_LISTS: Final = ("instances", "cases", "records")
"""Members of a document that hold its records."""
_NEXT_STEP: Final = "give one JSON object a line, or one document with a list named instances or cases"


def records(stream: Iterable[bytes], file: str) -> Iterator[dict[str, Any]]:
    """The records in the lines of ``stream``, as they come; a document is read whole first.

    Raises ``InputError`` with file and line for what is not JSON, or is no object.
    """
    numbered: Iterator[tuple[int, bytes]] = enumerate(stream, start=1)
    first = next(((number, line) for number, line in numbered if line.strip()), None)
    if first is None:
        return
    try:
        head = json.loads(first[1])
    except ValueError:
        # Not a record by itself: the beginning of a document over several lines, or no JSON at all.
        yield from _document(first[1] + b"".join(line for _, line in numbered), file, first[0])
        return
    if isinstance(head, list) or (isinstance(head, dict) and any(name in head for name in _LISTS)):
        yield from _document(first[1], file, first[0])
        numbered = ((number, line) for number, line in numbered if line.strip())
        extra = next(numbered, None)
        if extra is not None:
            raise _error("something follows the document", file, extra[0])
        return
    for number, line in itertools.chain([first], numbered):
        if line.strip():
            yield _record(line, file, number)


def _record(line: bytes, file: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _error(f"no JSON: {error}", file, number) from None
    if not isinstance(found, dict):
        raise _error("a record is a JSON object", file, number)
    return found


def _document(data: bytes, file: str, line: int) -> Iterator[dict[str, Any]]:
    """The records of one document, each decoded when it is asked for."""
    try:
        document: Any = msgspec.json.decode(data, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
    except msgspec.DecodeError as error:
        bad = line
        try:
            json.loads(data)
        except (ValueError, RecursionError) as exact:
            bad = line + getattr(exact, "lineno", 1) - 1
        raise _error(f"no JSON: {error}", file, bad) from None
    if isinstance(document, dict):
        name = next((name for name in _LISTS if name in document), None)
        if name is None:
            yield _whole(data, file, line)
            return
        document = _list_of(document[name], name, file, line)
    for raw in document:
        yield _whole(bytes(raw), file, line)


def _list_of(raw: msgspec.Raw, name: str, file: str, line: int) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        raise _error(f"{name} is no list", file, line) from None


def _whole(data: bytes, file: str, line: int) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _error(f"no JSON: {error}", file, line) from None
    if not isinstance(found, dict):
        raise _error("a record is a JSON object", file, line)
    return found


def _error(what: str, file: str, line: int) -> InputError:
    return InputError(what, where=Where(file=file, line=line), next_step=_NEXT_STEP)
