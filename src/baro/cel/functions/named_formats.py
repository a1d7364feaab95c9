"""The named formats of Kubernetes' format library: what ``format.dns1123Label().validate(text)`` complains
of."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date

from baro.cel.functions.urls import url_fault

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ALPHANUMERIC_ENDS = "and must start and end with an alphanumeric character"
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
    f" {_ALPHANUMERIC_ENDS}"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    f" {_ALPHANUMERIC_ENDS}"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character"
)
_NAME_TEXT = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}"
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    f" {_ALPHANUMERIC_ENDS}"
)

Validate = Callable[[str], tuple[str, ...]]


def _pattern(regex: str, limit: int, message: str, *examples: str) -> Validate:
    compiled = re.compile(regex)
    shown = " or ".join(f"'{example}'" for example in examples)
    full = f"{message} (e.g. {', or '.join(shown.split(' or '))}, regex used for validation is '{regex}')"

    def check(text: str) -> tuple[str, ...]:
        problems = []
        if len(text.encode()) > limit:
            problems.append(f"must be no more than {limit} characters")
        if not compiled.fullmatch(text):
            problems.append(full)
        return tuple(problems)

    return check


def _prefix_of(check: Validate) -> Validate:
    """For generated names: a trailing dash is completed by what is appended."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _qualified_name(text: str) -> tuple[str, ...]:
    parts = text.split("/")
    if len(parts) > 2:
        return (f"a qualified name {_NAME_TEXT}",)
    problems: list[str] = []
    if len(parts) == 2:
        problems += ["prefix part must be non-empty"] if not parts[0] else [
            f"prefix part {problem}" for problem in _SUBDOMAIN_CHECK(parts[0])
        ]  # fmt: skip
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 characters")
    if not re.fullmatch(_NAME, name):
        problems.append(f"name part {_NAME_TEXT}")
    return tuple(problems)


def _uri(text: str) -> tuple[str, ...]:
    fault = url_fault(text)
    return (f'parse "{text}": {fault}',) if fault else ()


def _uuid(text: str) -> tuple[str, ...]:
    fine = re.fullmatch(
        r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}", text
    )
    return () if fine else ("does not match the UUID format",)


def _byte(text: str) -> tuple[str, ...]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ("invalid base64",)
    return ()


def _date(text: str) -> tuple[str, ...]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ("invalid date",)
    return () if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else ("invalid date",)


def _datetime(text: str) -> tuple[str, ...]:
    shape = r"(\d{4}-\d\d-\d\d)[tT ](?:[01]\d|2[0-3]):[0-5]\d:[0-6]\d(\.\d+)?([zZ]|[+-]\d\d:\d\d)?"
    match = re.fullmatch(shape, text, re.ASCII)
    return () if match and not _date(match[1]) else ("invalid datetime",)


_LABEL_CHECK = _pattern(_LABEL, 63, _LABEL_TEXT, "my-name", "123-abc")
_SUBDOMAIN_CHECK = _pattern(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT, "example.com")
_LABEL_1035_CHECK = _pattern(_LABEL_1035, 63, _LABEL_1035_TEXT, "my-name", "abc-123")

FORMATS: dict[str, Validate] = {
    "dns1123Label": _LABEL_CHECK,
    "dns1123LabelPrefix": _prefix_of(_LABEL_CHECK),
    "dns1123Subdomain": _SUBDOMAIN_CHECK,
    "dns1123SubdomainPrefix": _prefix_of(_SUBDOMAIN_CHECK),
    "dns1035Label": _LABEL_1035_CHECK,
    "dns1035LabelPrefix": _prefix_of(_LABEL_1035_CHECK),
    "qualifiedName": _qualified_name,
    "labelValue": _pattern(f"({_NAME})?", 63, _VALUE_TEXT, "MyValue", "my_value", "12345"),
    "uri": _uri,
    "uuid": _uuid,
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}


def validate(name: str, text: str) -> tuple[str, ...]:
    """What is wrong with a text; empty when it follows the format."""
    return FORMATS[name](text)
