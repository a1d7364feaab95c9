"""Doubles, durations and times as Go's ``fmt`` prints them."""

from __future__ import annotations

import math
from datetime import datetime, timedelta


def show_duration(nanos: int) -> str:
    """Go's way: ``1h2m3.5s``, ``1.5ms``, ``0s``."""
    sign, rest = ("-" if nanos < 0 else ""), abs(nanos)
    if rest < 10**9:
        for unit, size in (("ms", 10**6), ("µs", 10**3), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_decimal(rest, size)}{unit}"
        return "0s"
    minutes, rest = divmod(rest, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{whole}{_decimal(rest, 10**9)}s"


def _decimal(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    return f"{whole}.{str(rest).zfill(len(str(size)) - 1).rstrip('0')}" if rest else str(whole)


def show_timestamp(nanos: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}{fraction} +0000 UTC"


def format_double(value: float) -> str:
    """Go's ``%g``: the shortest digits that read back, exponent from 1e6 on and below 1e-4."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits, exponent = _shortest(value)
    sign = "-" if value < 0 else ""
    if exponent < -4 or exponent >= 6:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def _shortest(value: float) -> tuple[str, int]:
    """Significant digits and decimal exponent of the first of them."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    shift = len(whole) - 1 if whole != "0" else -(len(fraction) - len(fraction.lstrip("0")) + 1)
    return digits.rstrip("0") or "0", shift + int(exponent or 0)
