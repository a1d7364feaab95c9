"""Kubernetes' ip, cidr and format libraries."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from baro.cel.errors import CelRuntimeError
from baro.cel.functions import Implementation
from baro.cel.functions.addresses import Address, AddressError, parse_address
from baro.cel.functions.named_formats import FORMATS, validate
from baro.cel.functions.quoting import quote
from baro.cel.values import NONE, Cidr, NamedFormat, Optional, no_overload


def _ip(text: str) -> Address:
    quoted = quote(text)
    try:
        address = parse_address(text)
    except AddressError as error:
        raise CelRuntimeError(
            f"IP Address {quoted} parse error during conversion from string: {error}"
        ) from None
    if "%" in text:
        raise CelRuntimeError(f"IP address {quoted} with zone value is not allowed")
    if address.version == 6 and address.ipv4_mapped is not None:
        raise CelRuntimeError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
    return address


def _cidr(text: str) -> Cidr:
    quoted = quote(text)
    twice = "network address parse error during conversion from string: " * 2
    head = f"{twice}netip.ParsePrefix({quoted}): "
    address_text, slash, bits = text.rpartition("/")
    if not slash:
        raise CelRuntimeError(f"{head}no '/'")
    try:
        address = parse_address(address_text)
    except AddressError as error:
        raise CelRuntimeError(f"{head}{error}") from None
    if "%" in address_text:
        raise CelRuntimeError(f"{head}IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"0|[1-9][0-9]*", bits, re.ASCII):
        raise CelRuntimeError(f"{head}bad bits after slash: {quote(bits)}")
    if int(bits[:6]) > address.max_prefixlen:
        raise CelRuntimeError(f"{head}prefix length out of range")
    if address.version == 6 and address.ipv4_mapped is not None:
        first = "network address parse error during conversion from string: "
        raise CelRuntimeError(f"{first}IPv4-mapped IPv6 address {quoted} is not allowed")
    return Cidr(address, int(bits))


def _succeeds(parse: Implementation) -> Implementation:
    def check(text: str) -> bool:
        try:
            parse(text)
        except CelRuntimeError:
            return False
        return True

    return check


def _prefix(address: Address, bits: int) -> int:
    return int(address) >> (address.max_prefixlen - bits)


def _contains_ip(cidr: Cidr, address: Address) -> bool:
    same_family = cidr.address.version == address.version
    return same_family and _prefix(address, cidr.prefix) == _prefix(cidr.address, cidr.prefix)


def _contains_ip_text(cidr: Cidr, text: str) -> bool:
    try:
        address = _ip(text)
    except CelRuntimeError:
        raise no_overload() from None  # upstream loses the reason
    return _contains_ip(cidr, address)


def _contains_cidr(cidr: Cidr, other: Cidr) -> bool:
    return cidr.prefix <= other.prefix and _contains_ip(cidr, other.address)


def _masked(cidr: Cidr) -> Cidr:
    host_bits = cidr.address.max_prefixlen - cidr.prefix
    return Cidr(type(cidr.address)(int(cidr.address) >> host_bits << host_bits), cidr.prefix)


def _is_global_unicast(address: Address) -> bool:
    if address == ipaddress.IPv4Address("255.255.255.255"):
        return False
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def _is_link_local_multicast(address: Address) -> bool:
    if address.version == 4:
        return int(address) >> 8 == 0xE00000
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _named(name: str) -> Optional:
    return Optional(True, NamedFormat(name)) if name in FORMATS else NONE


def _validate(named: NamedFormat, text: str) -> Optional:
    problems = validate(named.name, text)
    return Optional(True, problems) if problems else NONE


def _format_getter(name: str) -> Implementation:
    return lambda: NamedFormat(name)


def _family(address: Any) -> int:
    return int(address.version)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "string_to_ip": _ip,
    "is_ip": _succeeds(_ip),
    "ip_is_canonical": lambda text: str(_ip(text)) == text,
    "ip_to_string": str,
    "ip_family": _family,
    "ip_is_unspecified": lambda address: address.is_unspecified,
    "ip_is_loopback": lambda address: address.is_loopback,
    "ip_is_link_local_unicast": lambda address: address.is_link_local,
    "ip_is_link_local_multicast": _is_link_local_multicast,
    "ip_is_global_unicast": _is_global_unicast,
    "string_to_cidr": _cidr,
    "is_cidr": _succeeds(_cidr),
    "cidr_to_string": str,
    "cidr_ip": lambda cidr: cidr.address,
    "cidr_masked": _masked,
    "cidr_prefix_length": lambda cidr: cidr.prefix,
    "cidr_contains_ip_ip": _contains_ip,
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_cidr": _contains_cidr,
    "cidr_contains_cidr_string": lambda cidr, text: _contains_cidr(cidr, _cidr(text)),
    "format-named": _named,
    "format-validate": _validate,
}
IMPLEMENTATIONS |= {f"format.{name}": _format_getter(name) for name in FORMATS}
