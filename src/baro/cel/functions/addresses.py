"""Addresses as Go's ``netip`` parses them, with its reasons for refusing one."""

from __future__ import annotations

import ipaddress
import re

from baro.cel.functions.quoting import quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEX = re.compile("[0-9a-fA-F]*")


class AddressError(ValueError):
    """Go's reason why a text is no address."""


def parse_address(text: str) -> Address:
    """Go's ``netip.ParseAddr``; a zone is checked and left out. Raises ``AddressError``."""
    mark = re.search("[.:%]", text)
    if mark is None:
        raise _fault(text, "unable to parse IP")
    if mark.group() == "%":
        raise _fault(text, "missing IPv6 address")
    if mark.group() == ".":
        return ipaddress.IPv4Address(_ipv4_fields(text, text))
    return ipaddress.IPv6Address(_parse_ipv6(text))


def _fault(text: str, reason: str, at: str = "") -> AddressError:
    place = f" (at {quote(at)})" if at else ""
    return AddressError(f"ParseAddr({quote(text)}): {reason}{place}")


def _ipv4_fields(whole: str, part: str) -> bytes:
    fields = bytearray()
    value = digits = 0
    for index, char in enumerate(part):
        if "0" <= char <= "9":
            if digits == 1 and value == 0:
                raise _fault(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise _fault(whole, "IPv4 field has value >255")
        elif char == ".":
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise _fault(whole, "IPv4 field must have at least one digit", part[index:])
            if len(fields) == 3:
                raise _fault(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise _fault(whole, "unexpected character", part[index:])
    if len(fields) < 3:
        raise _fault(whole, "IPv4 address too short")
    return bytes((*fields, value))


def _parse_ipv6(whole: str) -> bytes:
    rest, percent, zone = whole.partition("%")
    if percent and not zone:
        raise _fault(whole, "zone must be a non-empty string")
    out = bytearray()
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return bytes(16)
    while len(out) < 16:
        field = _ipv6_field(whole, rest)
        if rest[len(field) : len(field) + 1] == ".":
            _check_embedded(whole, rest, len(out), ellipsis)
            out += _ipv4_fields(whole, rest)
            rest = ""
            break
        out += int(field, 16).to_bytes(2, "big")
        rest = rest[len(field) :]
        if not rest:
            break
        rest = _after_colon(whole, rest)
        if rest.startswith(":"):
            if ellipsis >= 0:
                raise _fault(whole, "multiple :: in address", rest)
            ellipsis, rest = len(out), rest[1:]
            if not rest:
                break
    return _expanded(whole, rest, out, ellipsis)


def _ipv6_field(whole: str, rest: str) -> str:
    match = _HEX.match(rest)
    field = match.group() if match else ""
    if len(field) > 4:
        raise _fault(whole, "each group must have 4 or less digits", rest)
    if not field:
        raise _fault(whole, "each colon-separated field must have at least one digit", rest)
    return field


def _check_embedded(whole: str, rest: str, done: int, ellipsis: int) -> None:
    if ellipsis < 0 and done != 12:
        raise _fault(whole, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if done + 4 > 16:
        reason = "too many hex fields to fit an embedded IPv4 at the end of the address"
        raise _fault(whole, reason, rest)


def _after_colon(whole: str, rest: str) -> str:
    if rest[0] != ":":
        raise _fault(whole, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _fault(whole, "colon must be followed by more characters", rest)
    return rest[1:]


def _expanded(whole: str, rest: str, out: bytearray, ellipsis: int) -> bytes:
    if rest:
        raise _fault(whole, "trailing garbage after address", rest)
    if len(out) == 16:
        if ellipsis >= 0:
            raise _fault(whole, "the :: must expand to at least one field of zeros")
        return bytes(out)
    if ellipsis < 0:
        raise _fault(whole, "address string too short")
    return bytes(out[:ellipsis]) + bytes(16 - len(out)) + bytes(out[ellipsis:])
