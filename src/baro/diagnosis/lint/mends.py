"""What people write for CEL, made into CEL: the shapes of slips that really occur.

Each mend rewrites a text; nothing is offered that does not compile. Text inside quotes is left alone except
where the slip is in the quotes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Final

from baro.cel import CelCompileError, Program, compile_selector
from baro.cel.environment import EnvironmentName
from baro.diagnosis.catalogue import Catalogue
from baro.model.names import STANDARD_DOMAIN

_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_DOMAIN = r"(?:'[^']*'|\"[^\"]*\")"
_READ_CAPACITY = rf"device\.capacity\[{_DOMAIN}\](?:\.\w+|\[{_DOMAIN}\])"
_QUANTITY_COMPARISON = re.compile(
    rf"""(?P<read>{_READ_CAPACITY})
        \s*(?P<operator>>=|<=|==|!=|>|<)\s*
        (?:quantity\(\s*)?(?P<quote>['"]?)(?P<amount>\d+(?:\.\d+)?(?:\s?[KMGTPE]i?[Bb]?|[kmun])?)(?P=quote)
        (?:\s*\))?(?![\w.'"])""",
    re.VERBOSE,
)
_METHOD_COMPARISON = re.compile(
    rf"(?P<read>{_READ_CAPACITY})\.(?P<method>isGreaterThan|isLessThan|compareTo)"
    r"\(\s*(?P<quote>['\"]?)(?P<amount>\d+(?:\.\d+)?[KMGTPE]?i?)(?P=quote)\s*\)"
)
_GLOB = re.compile(r"""\.matches\(\s*(['"])(\*?)([\w ./-]+)(\*?)\1\s*\)""")
_BARE_NAME = re.compile(r"device\.attributes\.([A-Za-z_]\w*)")
_DEVICE_FIELD = re.compile(
    r"device\.(?!driver\b|attributes\b|capacity\b|allowMultipleAllocations\b)([A-Za-z_]\w*)"
)
_FULL_NAME = re.compile(r"device\.(attributes|capacity)\[(['\"])([^'\"/]+)/(\w+)\2\]")
_TRIES: Final = 60
_BYTES: Final = 2**20


def quantities(text: str) -> str:
    """Comparisons of a capacity by operator or with a bare number, in the form that quantities have."""

    def compare(match: re.Match[str]) -> str:
        if match["amount"].isdecimal() and 0 < int(match["amount"]) < _BYTES:
            return match[0]
        return f"{match['read']}.compareTo(quantity('{amount(match['amount'])}')) {match['operator']} 0"

    def call(match: re.Match[str]) -> str:
        if match["amount"].isdecimal() and int(match["amount"]) < _BYTES:
            return match[0]  # a number of what? nobody asks for 80 bytes
        return f"{match['read']}.{match['method']}(quantity('{amount(match['amount'])}'))"

    return _METHOD_COMPARISON.sub(call, _QUANTITY_COMPARISON.sub(compare, text))


def amount(written: str) -> str:
    """An amount as a quantity has it: ``80 GiB`` and ``80GB`` are ``80Gi`` and ``80G``."""
    plain = written.replace(" ", "")
    if re.fullmatch(r"[\d.]+[KMGTPE]i?[Bb]", plain):
        plain = plain[:-1]
    return re.sub(r"^([\d.]+)K$", r"\1k", plain)


def _quotes(text: str) -> str:
    return text.translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0xA0: " "})


def _outside(text: str, change: Callable[[str], str]) -> str:
    """``change`` for what is not in quotes."""
    parts: list[str] = []
    position = 0
    for match in _STRING.finditer(text):
        parts += (change(text[position : match.start()]), match[0])
        position = match.end()
    return "".join((*parts, change(text[position:])))


def _operators(text: str) -> str:
    def change(part: str) -> str:
        part = re.sub(r"(?<![=!<>])=(?![=~])", "==", part)
        part = re.sub(r"(?<!&)&(?!&)", "&&", part)
        part = re.sub(r"(?<!\|)\|(?!\|)", "||", part)
        part = re.sub(r"(?<![\w.])(?:and|AND)(?!\w)", "&&", part)
        part = re.sub(r"(?<![\w.])(?:or|OR)(?!\w)", "||", part)
        return re.sub(r"(?<![\w.])(?:not|NOT)\s+", "!", part)

    return _outside(text, change)


def _globs(text: str) -> str:
    def change(match: re.Match[str]) -> str:
        quote, before, word, after = match.groups()
        if not before and not after:
            return match[0]
        method = "contains" if before and after else "endsWith" if before else "startsWith"
        return f".{method}({quote}{word}{quote})"

    return _GLOB.sub(change, text)


def names(text: str, catalogue: Catalogue) -> str:
    """Attributes that are read without their domain, or with domain and name in one key."""
    text = _FULL_NAME.sub(r"device.\1[\2\3\2].\4", text)

    def qualified(match: re.Match[str]) -> str:
        name = match[1]
        found = sorted(full for full in catalogue.attribute_names() if full.rpartition("/")[2] == name)
        standard = f"{STANDARD_DOMAIN}/{name}"
        domains = {full.rpartition("/")[0] for full in ([standard] if standard in found else found)}
        return f"device.attributes['{domains.pop()}'].{name}" if len(domains) == 1 else match[0]

    def field(match: re.Match[str]) -> str:
        attribute = qualified(match)
        if attribute != match[0]:
            return attribute
        capacities = {
            full.rpartition("/")[0] for full in catalogue.capacity_names() if full.endswith(f"/{match[1]}")
        }
        if len(capacities) == 1:
            return f"device.capacity['{capacities.pop()}'].{match[1]}"
        domains = [one.facts.driver for one in catalogue.drivers.values() if match[1] in one.facts.meant]
        return f"device.attributes['{domains[0]}'].{match[1]}" if len(domains) == 1 else match[0]

    return _DEVICE_FIELD.sub(field, _BARE_NAME.sub(qualified, text))


def _brackets(text: str) -> Iterator[str]:
    """One bracket more or less, of a kind that does not come in pairs."""
    stripped = text.rstrip()
    plain = _STRING.sub("", text)
    odd = [closing for opening, closing in ("()", "[]") if plain.count(opening) != plain.count(closing)]
    for closing in odd:
        if stripped.endswith(closing):
            yield stripped[:-1]
        yield stripped + closing
    for match in list(_STRING.finditer(text))[:_TRIES]:
        for closing in odd:
            yield f"{text[: match.end()]}{closing}{text[match.end() :]}"


def mended(text: str, catalogue: Catalogue, environment: EnvironmentName) -> str | None:
    """The text as CEL that compiles; None when no mend does it."""
    current = text
    for mend in (_quotes, _operators, quantities, _globs, lambda part: names(part, catalogue)):
        current = mend(current)
        if compiled(current, environment) is not None:
            return current
    for candidate in _brackets(current):
        if compiled(candidate, environment) is not None:
            return candidate
    return None


@functools.lru_cache(maxsize=2048)
def compiled(text: str, environment: EnvironmentName = "stored") -> Program | None:
    """The program of a selector; None where it does not compile. Failures are kept too: they cost most."""
    try:
        return compile_selector(text, environment)
    except CelCompileError:
        return None
