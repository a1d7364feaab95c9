"""The named formats of Kubernetes' format library: what ``format.dns1123Label().validate(text)`` complains
of.

The rules for names are the API server's own (``baro.model.validation.names``), loaded when first used. The
formats of dates and the like follow go-openapi's strfmt, with its gaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from baro.cel.functions.quoting import quote
from baro.cel.functions.urls import url_fault

_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character"
)
_LABEL_1035_LIMIT = 63
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)

Validate = Callable[[str], tuple[str, ...]]


def _label(text: str) -> tuple[str, ...]:
    from baro.model.validation.names import dns_label  # noqa: PLC0415 much to load for a rare function

    return dns_label(text)


def _subdomain(text: str) -> tuple[str, ...]:
    from baro.model.validation.names import dns_subdomain  # noqa: PLC0415 as above

    return dns_subdomain(text)


def _label_1035(text: str) -> tuple[str, ...]:
    from baro.model.validation.names import is_longer, regex_text  # noqa: PLC0415 as above

    found: tuple[str, ...] = ()
    if is_longer(text, _LABEL_1035_LIMIT):
        found += (f"must be no more than {_LABEL_1035_LIMIT} characters",)
    if not re.fullmatch(_LABEL_1035, text):
        found += (regex_text(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"),)
    return found


def _qualified_name(text: str) -> tuple[str, ...]:
    from baro.model.validation.names import label_key  # noqa: PLC0415 as above

    return label_key(text)


def _label_value(text: str) -> tuple[str, ...]:
    from baro.model.validation.names import label_value  # noqa: PLC0415 as above

    return label_value(text)


def _prefix_of(check: Validate) -> Validate:
    """For generated names: a trailing dash is completed by what is appended."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> tuple[str, ...]:
    fault = url_fault(text)
    return (f"parse {quote(text)}: {fault}",) if fault else ()


def _uuid(text: str) -> tuple[str, ...]:
    return () if _UUID.fullmatch(text) else ("does not match the UUID format",)


def _byte(text: str) -> tuple[str, ...]:
    return () if _BASE64.fullmatch(text) else ("invalid base64",)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or 2000, month, day)  # there is a year 0, and it is a leap year
    except ValueError:
        return False
    return True


def _date(text: str) -> tuple[str, ...]:
    return () if _is_date(text) else ("invalid date",)


def _datetime(text: str) -> tuple[str, ...]:
    parts = text.lower().split("t")  # what follows a second t is not looked at
    fine = len(parts) > 1 and _is_date(parts[0]) and _TIME.fullmatch(parts[1])
    return () if fine else ("invalid datetime",)


FORMATS: dict[str, Validate] = {
    "dns1123Label": _label,
    "dns1123LabelPrefix": _prefix_of(_label),
    "dns1123Subdomain": _subdomain,
    "dns1123SubdomainPrefix": _prefix_of(_subdomain),
    "dns1035Label": _label_1035,
    "dns1035LabelPrefix": _prefix_of(_label_1035),
    "qualifiedName": _qualified_name,
    "labelValue": _label_value,
    "uri": _uri,
    "uuid": _uuid,
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}


def validate(name: str, text: str) -> tuple[str, ...]:
    """What is wrong with a text; empty when it follows the format."""
    return FORMATS[name](text)
