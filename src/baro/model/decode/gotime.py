"""Why Go's ``time.Parse`` refuses a timestamp, in its words.

Kubernetes reads ``Time`` as RFC 3339 and ``MicroTime`` as RFC 3339 with exactly six digits of a second's
fraction. ``time_error`` gives the error, ``canonical_time`` what is stored of a right one.
"""

from __future__ import annotations

import calendar
import datetime
import re
from typing import Final

_SECONDS_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"

# Layout element, what may stand there, name and allowed range of its number.
_ELEMENTS: Final = (
    ("2006", r"\d{4}", "", 0, 9999),
    ("-", "-", "", 0, 0),
    ("01", r"\d\d", "month", 1, 12),
    ("-", "-", "", 0, 0),
    ("02", r"\d\d", "", 0, 99),
    ("T", "T", "", 0, 0),
    ("15", r"\d\d?", "hour", 0, 23),
    (":", ":", "", 0, 0),
    ("04", r"\d\d", "minute", 0, 59),
    (":", ":", "", 0, 0),
    ("05", r"\d\d", "second", 0, 59),
)
_PARTS: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_ZONE: Final = re.compile(r"Z|[+-](\d\d):(\d\d)")


def time_error(text: str, *, micro: bool = False) -> str | None:
    """The error of ``time.Parse``, or None when ``text`` is a timestamp of the wanted form."""
    layout = _MICRO_LAYOUT if micro else _SECONDS_LAYOUT
    rest = text
    numbers: list[int] = []
    for element, pattern, name, low, high in _ELEMENTS:
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return _cannot(text, layout, rest, element)
        rest = rest[match.end() :]
        if match.group().isdigit():
            numbers.append(int(match.group()))
            if name and not low <= numbers[-1] <= high:
                return f'parsing time "{text}": {name} out of range'
    fraction = re.match(r"[.,]\d+", rest, re.ASCII)
    if micro and (fraction is None or fraction.end() != 7):
        return _cannot(text, layout, rest, ".000000")
    rest = rest[fraction.end() :] if fraction else rest
    zone = _ZONE.match(rest)
    if zone is None:
        return _cannot(text, layout, rest, "Z07:00")
    if zone.end() != len(rest):
        return f'parsing time "{text}": extra text: "{rest[zone.end() :]}"'
    year, month, day = numbers[:3]
    if not 1 <= day <= calendar.monthrange(max(year, 1), month)[1]:
        return f'parsing time "{text}": day out of range'
    return None


def canonical_time(text: str, *, micro: bool = False) -> str:
    """A timestamp as Go writes it back: in UTC, in whole seconds or with six digits of a fraction.

    A text that is none, or that UTC would move out of the years 1 to 9999, comes back as it is.
    """
    match = _PARTS.fullmatch(text)
    if match is None or time_error(text, micro=micro) is not None:
        return text
    fraction, sign, hours, minutes = match.group(7, 9, 10, 11)
    try:
        year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
        moment = datetime.datetime(year, month, day, hour, minute, second)
        offset = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        moment += offset if sign == "-" else -offset
    except (ValueError, OverflowError):
        return text
    whole = f"{moment.year:04d}{moment:-%m-%dT%H:%M:%S}"
    return f"{whole}.{fraction[:6]}Z" if micro else f"{whole}Z"


def _cannot(text: str, layout: str, rest: str, element: str) -> str:
    return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"'
