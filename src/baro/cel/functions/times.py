"""Timestamps and durations: parsing, printing, and the parts of a date in a time zone."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from baro.cel.errors import CelRuntimeError
from baro.cel.functions import Implementation
from baro.cel.functions.quoting import quote
from baro.cel.operators import checked_timestamp
from baro.cel.values import INT_MAX, INT_MIN, Duration, Timestamp

_SECOND = 10**9
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _fail(wanted: str) -> CelRuntimeError:
    return CelRuntimeError(f"type conversion error from 'string' to '{wanted}'")


def parse_duration(text: str) -> Duration:
    """As Go's ``time.ParseDuration``: ``1h30m``, ``-1.5s``, ``0``."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    if not rest:
        raise _fail("google.protobuf.Duration")
    total, at = 0, 0
    while at < len(rest):
        part = _DURATION_PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            raise _fail("google.protobuf.Duration")
        unit = _UNITS[part[3]]
        total += int(part[1] or "0") * unit
        if part[2]:
            total += int(int(part[2]) * unit // 10 ** len(part[2]))
        at = part.end()
    if total * sign > INT_MAX or total * sign < INT_MIN:
        raise _fail("google.protobuf.Duration")
    return Duration(sign * total)


def duration_text(duration: Duration) -> str:
    """Seconds with as many digits as a double needs, and ``s``."""
    seconds = float(duration.nanos // _SECOND) + (duration.nanos % _SECOND) / 1e9
    if duration.nanos < 0:
        seconds = -(float(-duration.nanos // _SECOND) + (-duration.nanos % _SECOND) / 1e9)
    text = repr(seconds)
    if "e" in text:
        text = f"{seconds:.20f}".rstrip("0")
    return f"{text.removesuffix('.0')}s"


def parse_timestamp(text: str) -> Timestamp:
    """RFC 3339, the years 1 to 9999."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _fail("google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        # year 0 is legal text but out of range; the Gregorian calendar repeats every 400 years
        moment = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise _fail("google.protobuf.Timestamp") from None
    if year == 0:
        raise CelRuntimeError("timestamp overflow")
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:
            raise _fail("google.protobuf.Timestamp")
        offset = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
        seconds -= offset
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * _SECOND + fraction, offset)


def timestamp_text(timestamp: Timestamp) -> str:
    """RFC 3339 in the zone it was written in, with up to nine digits, trailing zeros cut."""
    moment = _EPOCH + timedelta(seconds=timestamp.nanos // _SECOND + timestamp.offset)
    zone = "Z"
    if timestamp.offset:
        minutes = abs(timestamp.offset) // 60
        zone = f"{'-' if timestamp.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    fraction = f"{timestamp.nanos % _SECOND:09d}".rstrip("0")
    whole = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"
    return f"{whole}.{fraction}{zone}" if fraction else f"{whole}{zone}"


def _in_zone(moment: datetime, name: str) -> datetime:
    """The wall clock in a named zone, or at an offset such as ``-05:30``."""
    hours_text, colon, minutes_text = name.partition(":")
    if not colon:
        return moment.astimezone(_named_zone(name))
    numbers = []
    for part in (hours_text, minutes_text):
        if not re.fullmatch(r"[+-]?[0-9]+", part, re.ASCII):
            raise CelRuntimeError(f"strconv.Atoi: parsing {quote(part)}: invalid syntax")
        numbers.append(int(part))
    hours, minutes = numbers
    return moment + timedelta(minutes=hours * 60 - minutes if name.startswith("-") else hours * 60 + minutes)


def _named_zone(name: str) -> tzinfo:
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise CelRuntimeError(f"unknown time zone {name}") from None


_PARTS: dict[str, Callable[[datetime], int]] = {
    "FullYear": lambda moment: moment.year,
    "Month": lambda moment: moment.month - 1,
    "DayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "DayOfMonth": lambda moment: moment.day - 1,
    "Date": lambda moment: moment.day,
    "DayOfWeek": lambda moment: moment.isoweekday() % 7,
    "Hours": lambda moment: moment.hour,
    "Minutes": lambda moment: moment.minute,
    "Seconds": lambda moment: moment.second,
    "Milliseconds": lambda moment: moment.microsecond // 1000,
}


def _reader(read: Callable[[datetime], int]) -> Implementation:
    def part(timestamp: Timestamp, zone: str = "UTC") -> int:
        moment = _EPOCH + timedelta(microseconds=timestamp.nanos // 1000)
        try:
            return read(_in_zone(moment, zone))
        except OverflowError:
            return _beyond(read, moment, zone)

    return part


def _beyond(read: Callable[[datetime], int], moment: datetime, zone: str) -> int:
    """The zone moves the moment over an end of Python's calendar, which repeats every 400 years."""
    shift = 400 if moment.year == 1 else -400
    near = _in_zone(moment.replace(year=moment.year + shift), zone)
    value = read(near)
    return value - shift if value == near.year else value


def _quotient(unit: int) -> Implementation:
    def part(duration: Duration) -> int:
        count = abs(duration.nanos) // unit
        return count if duration.nanos >= 0 else -count

    return part


IMPLEMENTATIONS: dict[str, Implementation] = {
    "duration_to_hours": _quotient(3600 * _SECOND),
    "duration_to_minutes": _quotient(60 * _SECOND),
    "duration_to_seconds": _quotient(_SECOND),
    "duration_to_milliseconds": _quotient(10**6),
}
for _name, _read in _PARTS.items():
    IMPLEMENTATIONS[f"timestamp_to_{_name}"] = _reader(_read)
    IMPLEMENTATIONS[f"timestamp_to_{_name}_tz"] = _reader(_read)
