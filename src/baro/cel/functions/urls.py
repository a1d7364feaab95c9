"""Kubernetes' url library: parsing as Go's ``net/url`` does, and the parts of a URL."""

from __future__ import annotations

import re
import urllib.parse

from baro.cel.errors import CelRuntimeError
from baro.cel.functions import Implementation
from baro.cel.functions.addresses import AddressError, parse_address
from baro.cel.functions.quoting import quote
from baro.cel.values import Map, Url


def _url(text: str) -> Url:
    reason = url_fault(text)
    body = text.partition("#")[0]
    if reason is None and body.startswith("//") and not body.startswith("///"):
        reason = _authority_fault(body[2:].partition("?")[0].partition("/")[0], "")
    if reason is not None:
        quoted = quote(text)
        raise CelRuntimeError(f"URL parse error during conversion from string: parse {quoted}: {reason}")
    scheme, rest = _scheme(body)
    before, _, query = rest.partition("?")
    host, path = "", before
    if before.startswith("//") and (scheme or not before.startswith("///")):
        authority, slash, tail = before[2:].partition("/")
        host, path = authority.rpartition("@")[2], slash + tail
    if scheme and not before.startswith("/"):
        path = ""  # an opaque URL such as mailto:a@b
    return Url(text, scheme.lower(), urllib.parse.unquote(host), path, query)


def _scheme(text: str) -> tuple[str, str]:
    match = re.match(r"([a-zA-Z][a-zA-Z0-9+.\-]*):", text)
    return (match[1], text[match.end() :]) if match else ("", text)


def url_fault(text: str) -> str | None:
    """Go's reason why ``url.ParseRequestURI`` refuses a text."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        return "net/url: invalid control character in URL"
    if text == "":
        return "empty url"
    if text == "*":
        return None
    if text.startswith(":"):
        return "missing protocol scheme"
    scheme, rest = _scheme(text)
    if not scheme and not rest.startswith("/"):
        return "invalid URI for request"
    before = rest.partition("?")[0]
    if not before.startswith("/"):
        return None if scheme else "invalid URI for request"
    if scheme and before.startswith("//"):
        fault = _authority_fault(before[2:].partition("/")[0], scheme)
        if fault is not None:
            return fault
    bad = re.search(r"%(?![0-9a-fA-F]{2}).{0,2}", before)
    return f"invalid URL escape {quote(bad.group())}" if bad else None


def _authority_fault(authority: str, scheme: str) -> str | None:
    any_colon = scheme.lower() not in ("", "http", "https")
    user, at, host = authority.rpartition("@")
    if at and not re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", user):
        return _host_fault(host, any_colon) or "net/url: invalid userinfo"
    return _host_fault(host, any_colon)


def _host_fault(host: str, any_colon: bool = False) -> str | None:
    """Go's reason for refusing a host with its port: first the port, then the characters, then an address."""
    bracketed = host.startswith("[")
    if host.rfind("[") > 0:
        return "invalid IP-literal"
    if bracketed:
        close = host.rfind("]")
        if close < 0:
            return "missing ']' in host"
        name, port = host[1:close], host[close + 1 :]
    else:
        colon = host.rfind(":") if any_colon else host.find(":")
        name, port = host, host[colon:] if colon >= 0 else ""
    if port and not re.fullmatch(r":[0-9]*", port, re.ASCII):
        return f"invalid port {quote(port)} after host"
    zone = name.find("%25") if bracketed else -1
    fault = _character_fault(name if zone < 0 else name[:zone], False)
    if fault is None and zone >= 0:
        fault = _character_fault(name[zone:], True)
    if fault is not None or not bracketed:
        return fault
    try:
        parse_address(name.replace("%25", "%", 1))
    except AddressError as error:
        return f"invalid host: {error}"
    return None


_HOST_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff]*")


def _character_fault(host: str, is_zone: bool) -> str | None:
    at = 0
    while True:
        match = _HOST_CHARACTERS.match(host, at)
        at = match.end() if match else at
        if at >= len(host):
            return None
        escape = host[at : at + 3]
        if host[at] != "%":
            return f"invalid character {quote(host[at])} in host name"
        allowed = "%[0-9a-fA-F]{2}" if is_zone else "%[8-9a-fA-F][0-9a-fA-F]|%25"
        if not re.fullmatch(allowed, escape):
            return f"invalid URL escape {quote(escape)}"
        at += 3


def _hostname(url: Url) -> str:
    if url.host.startswith("["):
        return url.host[1 : url.host.rfind("]")]
    return url.host.partition(":")[0]


def _port(url: Url) -> str:
    match = re.search(r":([0-9]*)$", url.host.rpartition("]")[2], re.ASCII)
    return match[1] if match else ""


def _query(url: Url) -> Map:
    found: dict[str, list[str]] = {}
    for part in filter(None, url.query.split("&")):
        key, _, value = part.partition("=")
        if ";" in part or re.search(r"%(?![0-9a-fA-F]{2})", part):
            continue
        found.setdefault(urllib.parse.unquote_plus(key), []).append(urllib.parse.unquote_plus(value))
    return Map((key, tuple(values)) for key, values in found.items())


def _escaped_path(url: Url) -> str:
    return urllib.parse.quote(url.path, safe="/%:@!$&'()*+,;=~[]")


IMPLEMENTATIONS: dict[str, Implementation] = {
    "string_to_url": _url,
    "is_url_string": lambda text: url_fault(text) is None,
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": _hostname,
    "url_get_port": _port,
    "url_get_escaped_path": _escaped_path,
    "url_get_query": _query,
}
