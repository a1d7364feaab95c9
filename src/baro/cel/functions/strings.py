"""Functions on strings, with regular expressions by RE2 as in Go (linear time, same syntax)."""

from __future__ import annotations

import functools
import re
from typing import Any

import re2  # type: ignore[import-untyped] # google-re2 ships no types

from baro.cel.errors import CelRuntimeError
from baro.cel.functions import Implementation
from baro.cel.functions.formatting import format_string
from baro.cel.regex_errors import go_error

_LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})
_UPPER = str.maketrans({chr(code): chr(code - 32) for code in range(ord("a"), ord("z") + 1)})
# Go's unicode.IsSpace; Python's strip() also takes the separators U+001C to U+001F
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTE = str.maketrans({
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
})  # fmt: skip

_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")  # known to RE2, not to Go
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@functools.lru_cache(maxsize=256)
def compile_regex(pattern: str) -> Any:
    """The compiled pattern. Raises ``CelRuntimeError`` with Go's words for a bad one."""
    if _ANY_BYTE.search(pattern):
        raise CelRuntimeError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern, options=_OPTIONS)
    except re2.error as error:
        raise CelRuntimeError(go_error(pattern, _reason(error))) from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def matches(text: str, pattern: str) -> bool:
    return compile_regex(pattern).search(text) is not None


def _searcher(pattern: str) -> Any:
    try:
        return compile_regex(pattern)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"Illegal regex: {error.message}") from None


def _find(text: str, pattern: str) -> str:
    found = _searcher(pattern).search(text)
    return str(found.group()) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    if limit == 0:
        return ()
    found: list[str] = []
    previous_end = -1
    for match in _searcher(pattern).finditer(text):
        if match.end() == match.start() == previous_end:
            continue  # Go takes no empty match right behind another match
        previous_end = match.end()
        found.append(match.group())
        if len(found) == limit:
            break
    return tuple(found)


def _out_of_range(position: int) -> CelRuntimeError:
    return CelRuntimeError(f"index out of range: {position}")


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise CelRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if not 0 <= stop <= len(text):
        raise _out_of_range(stop)
    return text[start:stop]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if part == "":
        return min(offset, len(text))
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    if part == "":
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def _split(text: str, separator: str, limit: int = -1) -> tuple[str, ...]:
    if limit == 0:
        return ()
    if separator == "":
        if limit < 0 or limit >= len(text):
            return tuple(text)
        return (*text[: limit - 1], text[limit - 1 :])
    return tuple(text.split(separator, limit - 1 if limit > 0 else -1))


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit if limit >= 0 else -1)


def _join(parts: tuple[Any, ...], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise CelRuntimeError(f"join: invalid input: {part}")
    return separator.join(parts)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "contains_string": lambda text, part: part in text,
    "starts_with_string": lambda text, part: text.startswith(part),
    "ends_with_string": lambda text, part: text.endswith(part),
    "matches": matches,
    "matches_string": matches,
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
    "string_char_at_int": _char_at,
    "string_format": format_string,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of,
    "list_join": _join,
    "list_join_string": _join,
    "string_lower_ascii": lambda text: text.translate(_LOWER),
    "string_upper_ascii": lambda text: text.translate(_UPPER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": lambda text: text.strip(_SPACE),
    "strings_quote": lambda text: f'"{text.translate(_QUOTE)}"',
}
