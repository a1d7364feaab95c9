"""Rules for names and other short texts. Each function returns what is wrong; empty means right.

Texts are those of ``k8s.io/apimachinery`` (``pkg/util/validation``, ``pkg/api/validate``). Hand-written
checks count "characters", declarative ones "bytes"; both mean bytes of UTF-8.
"""

from __future__ import annotations

import re
from typing import Final

from baro.model.validation.causes import Problems

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_KEY})?"
_CONFIG_KEY: Final = r"[-._a-zA-Z0-9]+"
_CONFIG_KEY_TEXT: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_C_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_NUMBER: Final = r"(0|[1-9]\d*)"
_PRERELEASE: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_CASELESS_TEXT: Final = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with "
    "an alphanumeric character"
)
_KEY_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'"
)
_DOMAIN_LIMIT: Final = 63
_IDENTIFIER_LIMIT: Final = 32
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Found = tuple[str, ...]


def dns_label(name: str, unit: str = "characters") -> Found:
    """At most 63 of ``[a-z0-9-]``, no ``-`` at the ends."""
    found = _over(name, 63, unit)
    if re.fullmatch(_LABEL, name):
        return found
    if re.fullmatch(_SUBDOMAIN, name):
        return (*found, "must not contain dots")
    return (*found, regex_text(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))


def dns_subdomain(name: str, unit: str = "characters") -> Found:
    """Labels joined by dots, at most 253."""
    found = _over(name, 253, unit)
    if not re.fullmatch(_SUBDOMAIN, name):
        found += (regex_text(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"),)
    return found


def label_key(key: str) -> Found:
    """``[prefix/]name`` as labels, annotations and taints use it."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        text = regex_text(f"a valid label key {_KEY_TEXT}", _KEY, "MyName", "my.name", "123-abc")
        return (f"{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    found: Found = ()
    if slash:
        wrong = dns_subdomain(prefix, "bytes") if prefix else ("must be non-empty",)
        found = tuple(f"prefix part {text}" for text in wrong)
    if not name:
        found += ("name part must be non-empty",)
    else:
        found += tuple(f"name part {text}" for text in _over(name, 63, "bytes"))
    if not re.fullmatch(_KEY, name):
        found += (f"name part {regex_text(_KEY_TEXT, _KEY, 'MyName', 'my.name', '123-abc')}",)
    return found


def label_value(value: str) -> Found:
    found = _over(value, 63, "bytes")
    if not re.fullmatch(_VALUE, value):
        text = f"a valid label must be an empty string or {_KEY_TEXT.removeprefix('must ')}"
        found += (regex_text(text, _VALUE, "MyValue", "my_value", "12345"),)
    return found


def path_segment(name: str) -> Found:
    """What may stand in a URL between two slashes; the rule for the beginning of any name."""
    return tuple(f"may not contain '{char}'" for char in "/%" if char in name)


def config_key(key: str) -> Found:
    """A key of a config map or secret: a file name."""
    found = _over(key, 253, "characters")
    if not re.fullmatch(_CONFIG_KEY, key):
        found += (regex_text(_CONFIG_KEY_TEXT, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"),)
    if key in (".", ".."):
        found += (f"must not be '{key}'",)
    elif key.startswith(".."):
        found += ("must not start with '..'",)
    return found


def is_semver(version: str) -> bool:
    """Semantic Versioning 2.0.0, the three numbers without leading zeros and without ``v``."""
    return _SEMVER.fullmatch(version) is not None


def is_uuid(text: str) -> bool:
    """Lowercase UUID in 8-4-4-4-12 form."""
    return _UUID.fullmatch(text) is not None


def extended_resource(name: str) -> Found:
    """A domain-prefixed resource name outside ``kubernetes.io``, usable in a quota."""
    found: Found = ()
    if "/" not in name:
        found += ("a name must be a domain-prefixed path, such as 'example.com/my-prop'",)
    elif "kubernetes.io/" in name:
        found += ('must not have "kubernetes.io/" domain',)
    if name.startswith("requests."):
        found += ('must not have "requests." prefix',)
    return found + label_key(f"requests.{name}")


# --- checks that report more than one kind of cause ------------------------------------------------------


def check_driver(problems: Problems, path: str, name: str) -> None:
    """A DRA driver name: DNS subdomain in any case, at most 63."""
    if not name:
        problems.required(path)
        if problems.rules.since("1.35"):  # older servers find no name wrong as well as missing
            return
    if byte_size(name) > _DOMAIN_LIMIT:
        problems.too_long(path, _DOMAIN_LIMIT)
    problems.invalid(path, name, *dns_subdomain(go_lower(name)))


def go_lower(text: str) -> str:
    """``text`` in lower case, letter by letter as Go does it."""
    return text.replace("\u0130", "i").lower()


def check_driver_declared(problems: Problems, path: str, name: str) -> None:
    """A driver name where 1.37 declares the rule: other words than :func:`check_driver`, the same names."""
    if not problems.rules.declarative:
        check_driver(problems, path, name)
        return
    declared = problems.declared
    if not name:
        declared.required(path)
        return
    declared.invalid(path, name, *_over(name, 253, "bytes"))
    # Go takes two more letters for s and k where case does not matter; only one of them is one in lower case.
    if not re.fullmatch(_SUBDOMAIN, name.replace("ſ", "s").replace("\u212a", "k"), re.IGNORECASE | re.ASCII):
        declared.invalid(path, name, regex_text(_CASELESS_TEXT, _SUBDOMAIN, "Example.com"))
    elif byte_size(name) <= 253:
        problems.invalid(path, name, *dns_subdomain(go_lower(name)))
    if len(name) > _DOMAIN_LIMIT:
        declared.too_long(path, _DOMAIN_LIMIT, "characters")


def check_pool_declared(problems: Problems, path: str, name: str) -> None:
    """A pool name where 1.37 declares the rule: it numbers the segments."""
    if not problems.rules.declarative:
        check_pool(problems, path, name)
        return
    declared = problems.declared
    if not name:
        declared.required(path)
        return
    if byte_size(name) > 253:
        declared.too_long(path, 253)
    for index, part in enumerate(name.split("/")):
        if not part:
            declared.invalid(path, name, f"segment {index}: must not be empty")
        else:
            declared.invalid(
                path, part, *(f"segment {index}: {text}" for text in dns_subdomain(part, "bytes"))
            )


def check_pool(problems: Problems, path: str, name: str) -> None:
    """A pool name: DNS subdomains joined by ``/``, at most 253."""
    if not name:
        problems.required(path)
        return
    if byte_size(name) > 253:
        problems.too_long(path, 253)
    for part in name.split("/"):
        problems.invalid(path, part, *dns_subdomain(part))


def check_qualified(problems: Problems, path: str, name: str) -> None:
    """The name of an attribute or capacity: ``[domain/]identifier``.

    A name with two slashes passes, as it does on a real server (a known gap upstream).
    """
    parts = name.split("/")
    if len(parts) > 2:
        return
    by_hand = not problems.rules.since("1.35")
    if by_hand and not name:
        problems.required(path, "name required")
        return

    def missing(text: str) -> None:
        problems.required(path, text) if by_hand else problems.invalid(path, "", text)

    if len(parts) == 2:
        if parts[0]:
            check_driver(problems, path, parts[0])
        else:
            missing("the domain must not be empty")
    if len(parts) == 2 and not parts[1]:
        missing("the name must not be empty")
    else:
        _check_identifier(problems, path, parts[-1])


def check_fully_qualified(problems: Problems, path: str, name: str) -> None:
    """``domain/identifier``, as constraints name attributes; the domain in lower case since 1.37."""
    declared = problems.declared
    if not problems.rules.declarative:
        check_qualified(declared, path, name)
    else:
        parts = name.split("/")
        if len(parts) == 2:
            if not parts[0]:
                declared.invalid(path, "", "prefix must not be empty")
            else:
                if byte_size(parts[0]) > _DOMAIN_LIMIT:
                    declared.too_long(path, _DOMAIN_LIMIT)
                wrong = dns_subdomain(parts[0], "bytes")
                declared.invalid(path, parts[0], *(f"prefix: {text}" for text in wrong))
        if len(parts) == 2 and not parts[1]:
            declared.invalid(path, "", "name must not be empty")
        elif len(parts) <= 2:
            _check_identifier(declared, path, parts[-1])
    if not problems.rules.since("1.35"):
        if name and "/" not in name:
            declared.invalid(path, name, "must include a domain")
    elif "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        declared.invalid(path, name, text)


def _check_identifier(problems: Problems, path: str, name: str) -> None:
    if is_longer(name, _IDENTIFIER_LIMIT):
        problems.too_long(path, _IDENTIFIER_LIMIT)
    if not re.fullmatch(_C_IDENTIFIER, name):
        problems.invalid(
            path, name, regex_text(_IDENTIFIER_TEXT, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")
        )


def _over(text: str, limit: int, unit: str) -> Found:
    return (f"must be no more than {limit} {unit}",) if is_longer(text, limit) else ()


def is_longer(text: str, limit: int) -> bool:
    """Whether ``text`` has more than ``limit`` bytes; short texts are not encoded to find out."""
    return len(text) * 4 > limit and byte_size(text) > limit


def byte_size(text: str) -> int:
    """Bytes of ``text`` in UTF-8; a lone surrogate, which JSON can hold, counts as three."""
    return len(text.encode("utf-8", errors="surrogatepass"))


def regex_text(text: str, regex: str, *examples: str) -> str:
    """The examples in Go's odd punctuation: ``'a',  or 'b'``."""
    listed = ",  or ".join(f"'{example}'" for example in examples)
    return f"{text} (e.g. {listed}, regex used for validation is '{regex}')"
