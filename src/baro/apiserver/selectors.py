"""Label and field selectors: what ``-l`` and ``--field-selector`` send, with the server's own error texts.

The grammar is that of ``k8s.io/apimachinery/pkg/labels`` and ``pkg/fields``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from baro.apiserver.status import bad_request

_BINARY: Final = ("in", "notin", "=", "==", "!=", "gt", "lt")
_SYMBOLS: Final = frozenset("=!(),><")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


class Requirement(msgspec.Struct, frozen=True):
    """``operator``: ``exists``, ``!``, ``=``, ``!=``, ``in``, ``notin``, ``gt``, ``lt``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in ("exists", "!"):
            return (value is not None) == (self.operator == "exists")
        if self.operator in ("notin", "!="):
            return value not in self.values
        if value is None:
            return False
        if self.operator in ("gt", "lt"):
            bound = int(next(iter(self.values)))
            return bool(re.fullmatch(r"[+-]?[0-9]+", value)) and (
                int(value) > bound if self.operator == "gt" else int(value) < bound
            )
        return value in self.values


class LabelSelector(msgspec.Struct, frozen=True):
    """All requirements must hold; none hold for everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


class FieldSelector(msgspec.Struct, frozen=True):
    """(field, equal or not, value) triples, all of which must hold. A missing field is the empty text."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(field, "") == value) == equal for field, equal, value in self.terms)

    def exact(self, field: str) -> str | None:
        """The value that ``field`` must have, if it must have one."""
        return next((value for name, equal, value in self.terms if name == field and equal), None)


class Selector(msgspec.Struct, frozen=True):
    """What a list, watch or collection delete is limited to."""

    labels: LabelSelector = LabelSelector()
    fields: FieldSelector = FieldSelector()

    @property
    def empty(self) -> bool:
        return not self.labels.requirements and not self.fields.terms

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        return self.labels.matches(labels) and self.fields.matches(fields)


# --- label selectors -------------------------------------------------------------------------------------


def parse_labels(text: str) -> LabelSelector:
    """Raises a 400 StatusError with the server's text."""
    return LabelSelector(tuple(_LabelParser(text).parse()))


class _LabelParser:
    """Recursive descent over the tokens. An operator word is a name where a name is expected."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek() != "":
            word = self._peek()
            if word != "!" and not _is_name(word):
                raise bad_request(f"found '{word}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            word = self._take()
            if word == "":
                break
            if word != ",":
                raise bad_request(f"found '{word}', expected: ',' or 'end of string'")
            following = self._peek()
            if following != "!" and not _is_name(following):
                raise bad_request(f"found '{following}', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        key = self._take()
        negated = key == "!"
        if negated:
            key = self._take()
        if not _is_name(key):
            raise _unparsed(f"found '{key}', expected: identifier")
        _check_key(key)
        if negated:
            return Requirement(key, "!")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self._take()
        if operator not in ("in", "notin", "=", "==", "!=", ">", "<"):
            raise _unparsed(f"found '{operator}', expected: {', '.join(_BINARY)}")
        if operator in ("in", "notin"):
            return self._checked(key, operator, self._values())
        operator = {"==": "=", ">": "gt", "<": "lt"}.get(operator, operator)
        return self._checked(key, operator, [self._exact_value()])

    def _exact_value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        word = self._take()
        if not _is_name(word):
            raise _unparsed(f"found '{word}', expected: identifier")
        return word

    def _values(self) -> list[str]:
        opening = self._take()
        if opening != "(":
            raise _unparsed(f"found '{opening}' expected: '('")
        values, current = [], ""
        while True:
            word = self._take()
            if word in (",", ")"):
                values.append(current)
                current = ""
                if word == ")":
                    return values
            elif _is_name(word):
                if current:
                    raise _unparsed(f"found '{word}', expected: ',' or ')'")
                current = word
            else:
                raise _unparsed(f"found '{word}', expected: ',', or identifier")

    @staticmethod
    def _checked(key: str, operator: str, values: list[str]) -> Requirement:
        for value in values:
            if operator in ("gt", "lt") and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
                raise _unparsed(
                    f"values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, "
                    "the value must be an integer"
                )
            if value and (len(value) > 63 or not _LABEL_NAME.fullmatch(value)):
                rule = "must be no more than 63 bytes" if len(value) > 63 else _VALUE_RULE
                raise _unparsed(f'values[0][{key}]: Invalid value: "{value}": {rule}')
        return Requirement(key, operator, frozenset(values))

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        word = self._peek()
        self._next += 1
        return word


def _tokens(text: str) -> list[str]:
    return re.findall(r"==|!=|[=!(),><]|[^\s=!(),><]+", text)


def _is_name(word: str) -> bool:
    return word != "" and word[0] not in _SYMBOLS


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    name_good = len(name) <= 63 and _LABEL_NAME.fullmatch(name)
    prefix_good = not slash or (len(prefix) <= 253 and _LABEL_PREFIX.fullmatch(prefix))
    if not (name_good and prefix_good):
        raise _unparsed(f'<nil>: Invalid value: "{key}": {_NAME_RULE}')


def _unparsed(why: str) -> Exception:
    return bad_request(f"unable to parse requirement: {why}")


# --- field selectors -------------------------------------------------------------------------------------


def parse_fields(text: str) -> FieldSelector:
    """Raises a 400 StatusError with the server's text. Which fields exist is checked by the registry."""
    terms: list[tuple[str, bool, str]] = []
    for part in sorted(_split_terms(text)):
        for operator, equal in (("!=", False), ("==", True), ("=", True)):
            name, found, value = part.partition(operator)
            if found:
                terms.append((name, equal, re.sub(r"\\(.)", r"\1", value)))
                break
        else:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
    return FieldSelector(tuple(terms))


def _split_terms(text: str) -> list[str]:
    """Parts between commas; a backslash keeps the next character."""
    return [part for part in re.findall(r"(?:\\.|[^,\\])+", text) if part]
