"""Kubernetes quantities: exact values, Kubernetes' text form, Kubernetes' quirks.

A quantity is a decimal number with a suffix: ``1500m``, ``80Gi``, ``1e3``. Kubernetes keeps nine decimal
places and rounds anything finer away from zero. This module follows ``pkg/api/resource`` of
k8s.io/apimachinery 0.37 in what is accepted, the error texts, the canonical text, the order and the
arithmetic. It does not know what a quantity counts (MiB, cores, engines): that is the caller's business.

Known differences, all beyond any real device: a value of more than 4,000 digits is refused instead of
being kept as an unevaluated exponent; an exponent is not truncated to 32 bits; a DecimalSI value of
1000E or more prints as a multiple of ``E``, where Kubernetes drops the suffix and with it the size;
``value()`` and ``milli_value()`` do not overflow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

Format: TypeAlias = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

FORMAT_ERROR = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_ERROR = "unable to parse numeric part of quantity"
SUFFIX_ERROR = "unable to parse quantity's suffix"

NANO = 10**9
"""Nano units in one: ``Quantity.scaled`` counts 10^-9."""

_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1
_MAX_DIGITS = 4_000  # CPython refuses to turn longer integers into text

_DECIMAL: Mapping[str, int] = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Mapping[str, int] = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}

# What Kubernetes' scanner accepts, which is wider than the expression in its error text: the number may
# be missing ("Gi" is 0) or a lone sign or point.
_SCAN = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)


class QuantityError(ValueError):
    """The text is not a quantity; the message is Kubernetes' own."""


class Quantity(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An exact amount. Equal, ordered and hashed by value, whatever the suffix.

    ``scaled`` is the value in units of 10^-9. ``format`` is the family of suffixes that ``str`` uses.
    ``exponent`` and ``small`` tell how Kubernetes holds the number (an int64 times 10^exponent if small,
    else a big decimal): ``is_integer`` and ``as_approximate_float`` depend on it, nothing else does.
    ``text`` is the text as given where Kubernetes keeps it, else empty.
    """

    scaled: int
    format: Format = "DecimalSI"
    exponent: int = -9
    small: bool = False
    text: str = ""

    @staticmethod
    def parse(raw: str | int | float) -> Quantity:
        """Read a quantity as it stands in an object. Raises ``QuantityError``; results are cached."""
        return _parse(raw if isinstance(raw, str) else _number_text(raw))

    @staticmethod
    def from_wire(raw: str | int | float) -> Quantity:
        """As ``parse``, but blanks around the text are allowed, as in a JSON body sent to the API server."""
        return _parse(raw.strip() if isinstance(raw, str) else _number_text(raw))

    @staticmethod
    def from_scaled(nano: int, format: Format = "DecimalSI") -> Quantity:
        """The quantity of ``nano`` times 10^-9."""
        if nano % NANO == 0 and _in_int64(nano, NANO):
            return Quantity(nano, format, 0, small=True)
        return Quantity(nano, format)

    @staticmethod
    def from_int(value: int, format: Format = "DecimalSI") -> Quantity:
        """The quantity of a whole number."""
        return Quantity.from_scaled(value * NANO, format)

    def __eq__(self, other: object) -> bool:
        return self.scaled == other.scaled if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.scaled)

    def __lt__(self, other: Quantity) -> bool:
        return self.scaled < other.scaled if isinstance(other, Quantity) else NotImplemented

    def __le__(self, other: Quantity) -> bool:
        return self.scaled <= other.scaled if isinstance(other, Quantity) else NotImplemented

    def __gt__(self, other: Quantity) -> bool:
        return self.scaled > other.scaled if isinstance(other, Quantity) else NotImplemented

    def __ge__(self, other: Quantity) -> bool:
        return self.scaled >= other.scaled if isinstance(other, Quantity) else NotImplemented

    def __bool__(self) -> bool:
        return self.scaled != 0

    def __add__(self, other: Quantity) -> Quantity:
        """Exact sum; a zero on the left takes the format of the right side."""
        return _sum(self, other, other.scaled) if isinstance(other, Quantity) else NotImplemented

    def __sub__(self, other: Quantity) -> Quantity:
        """Exact difference; a zero on the left takes the format of the right side."""
        if not isinstance(other, Quantity):
            return NotImplemented
        unit = _power(max(9 + other.exponent, 0))
        if other.small and other.scaled == _MIN_INT64 * unit:
            wrapped = _sum(self, other, other.scaled)  # Go negates the least int64 to itself
            if wrapped.small:
                return wrapped
        return _sum(self, other, -other.scaled)

    def __neg__(self) -> Quantity:
        return Quantity(-self.scaled, self.format, self.exponent, self.small)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.scaled > 0) - (self.scaled < 0)

    def is_integer(self) -> bool:
        """Whether Kubernetes reads it as an int64 *without* arithmetic.

        This is CEL's ``isInteger()``: true for ``1``, ``1k``, ``1Gi``; false for ``1500m`` but also for
        ``1000m``, ``1.0`` and numbers too long for the fast path, although they are whole.
        """
        return self.small and self.exponent >= 0 and _in_int64(self.scaled, NANO)

    def as_integer(self) -> int:
        """The int64 value. Raises ``QuantityError`` where ``is_integer`` is false."""
        if not self.is_integer():
            raise QuantityError("cannot convert value to integer")
        return self.scaled // NANO

    def value(self) -> int:
        """Whole units, a fraction rounded away from zero."""
        return _divide_away(self.scaled, NANO)

    def milli_value(self) -> int:
        """Thousandths, anything finer rounded away from zero."""
        return _divide_away(self.scaled, NANO // 1000)

    def as_approximate_float(self) -> float:
        """The float that Kubernetes computes, its rounding included (``0.3`` is 0.30000000000000004)."""
        shift = 9 + self.exponent
        unscaled = self.scaled // _power(shift) if shift >= 0 else self.scaled * _power(-shift)
        try:
            return float(unscaled) * _power_of_ten(self.exponent) if self.exponent else float(unscaled)
        except OverflowError:
            return math.copysign(math.inf, self.scaled)

    def __str__(self) -> str:
        return self.text or _canonical(self.scaled, self.format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


# --- reading ---------------------------------------------------------------------------------------------


def _number_text(raw: float) -> str:
    """The JSON text that Go gives a number; quantities in numbers are read from that text."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        raise QuantityError(FORMAT_ERROR)
    if isinstance(raw, int):
        if abs(raw) >= 10**_MAX_DIGITS:
            raise QuantityError(f"quantities of more than {_MAX_DIGITS} digits are not supported")
        return str(raw)
    if not math.isfinite(raw):
        raise QuantityError(FORMAT_ERROR)
    if raw == 0 or 1e-6 <= abs(raw) < 1e21:
        return format(Decimal(repr(raw)).normalize(), "f")
    return repr(raw)


@lru_cache(maxsize=16_384)  # the same few texts recur on every device of a cluster
def _parse(text: str) -> Quantity:
    match = _SCAN.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_ERROR)
    sign, digits, point, fraction, suffix = match.groups(default="")
    if not suffix and not digits.strip("0") and not point:
        return Quantity(0, exponent=0, small=True)
    exponent, format = _suffix(suffix)
    number = digits.lstrip("0") or "0"
    if len(number) + len(fraction) + max(exponent, 0) > _MAX_DIGITS:
        raise QuantityError(f"quantities of more than {_MAX_DIGITS} digits are not supported")
    if format == "BinarySI":
        return _parse_binary(text, number, fraction, exponent)
    scale = exponent - len(fraction)
    mantissa = int(number + fraction)
    if len(number) + len(fraction) <= 18 and scale >= -9:
        kept = scale % 3 == 0 and not (number + fraction).endswith("000") and number[0] != "0"
        value = mantissa * _power(9 + scale) * (-1 if sign == "-" else 1)
        return Quantity(value, format, scale, small=True, text=text if kept else "")
    if not _has_digits(text):
        raise QuantityError(NUMERIC_ERROR)
    return _big(text, _scale_up(mantissa, scale), format, scale)


def _suffix(suffix: str) -> tuple[int, Format]:
    """Exponent (of 10, or of 2 for BinarySI) and format of a suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return _BINARY[suffix], "BinarySI"
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise QuantityError(SUFFIX_ERROR)
    if len(exponent[1]) > 20 or not -(2**63) <= int(exponent[1]) <= _MAX_INT64:
        raise QuantityError(SUFFIX_ERROR)
    return int(exponent[1]), "DecimalExponent"


def _parse_binary(text: str, number: str, fraction: str, exponent: int) -> Quantity:
    negative = text.startswith("-")
    mantissa = int(number + fraction)
    if not fraction and 15 - len(number) - exponent * 3 // 10 - 1 >= 0:
        value = mantissa << exponent
        if value <= _MAX_INT64:
            signed = -value if negative else value
            return Quantity(signed * NANO, "BinarySI", 0, small=True, text=text if mantissa & 7 else "")
    if not _has_digits(text):
        raise QuantityError(NUMERIC_ERROR)
    scaled = _scale_up(mantissa << exponent, -len(fraction))
    if scaled > _MAX_INT64 * NANO:
        capped = _MAX_INT64 * NANO
        return Quantity(-capped if negative else capped, "BinarySI", 0)
    return _big(text, scaled, "DecimalSI" if 0 < scaled < NANO else "BinarySI", -len(fraction))


def _scale_up(mantissa: int, scale: int) -> int:
    """``mantissa`` times 10^scale in nano units, anything finer rounded up; ``mantissa`` is not negative."""
    shift = scale + 9
    if shift >= 0:
        return mantissa * _power(shift)
    if -shift > _MAX_DIGITS + 9:
        return 1 if mantissa else 0
    return -(-mantissa // _power(-shift))


def _power(exponent: int) -> int:
    power: int = 10**exponent
    return power


def _has_digits(text: str) -> bool:
    """Whether a digit comes before the suffix; the slow path of Kubernetes insists on one."""
    return text.lstrip("+-").lstrip(".")[:1].isdigit()


def _big(text: str, scaled: int, format: Format, scale: int) -> Quantity:
    """A number that Kubernetes holds as a big decimal: rounded to nine places unless it is zero."""
    return Quantity(-scaled if text.startswith("-") else scaled, format, -9 if scaled else max(scale, -30))


# --- arithmetic and text ---------------------------------------------------------------------------------


def _sum(left: Quantity, right: Quantity, addend: int) -> Quantity:
    format = right.format if left.scaled == 0 else left.format
    scaled = left.scaled + addend
    if left.small and right.small and addend == 0:
        return Quantity(scaled, format, left.exponent, small=True)
    if left.small and right.small and left.scaled == 0:
        return Quantity(scaled, format, right.exponent, small=True)
    exponent = min(left.exponent, right.exponent)
    unit = _power(max(9 + exponent, 0))
    fits = _in_int64(left.scaled, unit) and _in_int64(addend, unit) and _in_int64(scaled, unit)
    return Quantity(scaled, format, exponent, small=left.small and right.small and fits)


def _in_int64(scaled: int, unit: int) -> bool:
    """Whether ``scaled / unit`` fits an int64; both of its ends do."""
    return _MIN_INT64 * unit <= scaled <= _MAX_INT64 * unit


def _divide_away(scaled: int, unit: int) -> int:
    """``scaled / unit``, a remainder rounded away from zero."""
    whole = -(-abs(scaled) // unit)
    return -whole if scaled < 0 else whole


def _power_of_ten(exponent: int) -> float:
    """10^exponent as Go's math.Pow10 builds it from two table entries."""
    high, low = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * high}") / float(f"1e{low}")
    return float(f"1e{32 * high}") * float(f"1e{low}")


def _canonical(scaled: int, format: Format) -> str:
    """The largest suffix that leaves a whole number in front of it."""
    if scaled == 0:
        return "0"
    if format == "BinarySI" and abs(scaled) >= 1024 * NANO and scaled % NANO == 0:
        number, exponent = scaled // NANO, 0
        while number % 1024 == 0 and exponent < 60:
            number, exponent = number // 1024, exponent + 10
        return f"{number}{_BINARY_SUFFIX.get(exponent, '')}"
    number, exponent = scaled, -9
    largest = 18 if format != "DecimalExponent" else _MAX_DIGITS
    while number % 1000 == 0 and exponent < largest:
        number, exponent = number // 1000, exponent + 3
    if format == "DecimalExponent":
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


def is_quantity(text: str) -> bool:
    """Whether Kubernetes can parse the text as a quantity."""
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True
