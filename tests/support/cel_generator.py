"""Random CEL expressions: well typed by construction, and ill typed ones made from them.

One source of randomness is handed in (``random.Random``, or Hypothesis' own, which shrinks), so a seed gives
the same expression everywhere. The grammar is data (``cel_grammar``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from baro.cel import DeviceView
from baro.conformance.cel import device as view_of_json
from tests.support.cel_grammar import BASE, GROUPS, KUBERNETES, LEAVES

EVERYTHING = frozenset(GROUPS)
"""All groups of templates: what Kubernetes' environment has."""
_NAMES = ("x", "y", "n", "k", "item", "v2")
_PIECE = re.compile(r"‹([\w:]+)›|\$([\w:]+)")
_TOKEN = re.compile(r"\s+|[A-Za-z_]\w*|\d[\w.]*|'[^'\n]*'|\"[^\"\n]*\"|&&|\|\||[=!<>]=|.", re.DOTALL)

Piece = str | tuple[str, str]
"""Text, or (``hole`` or ``declare``, type)."""


@cache
def _pieces(template: str) -> tuple[Piece, ...]:
    found: list[Piece] = []
    at = 0
    for match in _PIECE.finditer(template):
        found.append(template[at : match.start()])
        found.append(("hole", match[1]) if match[1] else ("declare", match[2]))
        at = match.end()
    return (*found, template[at:])


@cache
def _templates(groups: frozenset[str], kind: str) -> tuple[str, ...]:
    """Templates that give a type, those with a type parameter included."""
    shape, _, parameter = kind.partition(":")
    keys = [kind, f"{shape}:T"] if parameter else [kind]
    if kind not in _ONLY_LEAVES:
        keys.append("T")
    tables = [GROUPS[name] for name in sorted(groups)]
    return tuple(template for table in tables for key in keys for template in table.get(key, ()))


_ONLY_LEAVES = frozenset(
    ["pattern", "zone", "moment", "span", "amount", "version", "address", "host", "net", "type", "format"]
)
_DEEPEST_PARAMETER = 2


class Maker:
    """Makes expressions. ``wrong``: how often a hole gets something of another type."""

    def __init__(self, random: Random, groups: frozenset[str] = EVERYTHING, wrong: float = 0.0) -> None:
        self.random = random
        self.groups = groups
        self.wrong = wrong
        self.types = (*BASE, *KUBERNETES) if "cluster" in groups else BASE
        self.scope: list[tuple[str, str]] = []

    def make(self, kind: str, depth: int) -> str:
        """An expression of a type, at most so many templates deep."""
        if self.wrong and self.random.random() < self.wrong:
            kind = self.random.choice((*self.types, "dyn", "list:int", "map:string", "opt:int", "type"))
        if depth <= 0 or self.random.random() < 0.15 or kind.count(":") > _DEEPEST_PARAMETER:
            return self.leaf(kind)
        templates = _templates(self.groups, kind)
        return self.fill(self.random.choice(templates), kind, depth - 1) if templates else self.leaf(kind)

    def leaf(self, kind: str) -> str:
        known = [name for name, held in self.scope if held == kind or (kind == "dyn" and held in self.types)]
        if known and self.random.random() < 0.6:
            return self.random.choice(known)
        shape, _, parameter = kind.partition(":")
        if parameter:
            inner = self.leaf(parameter)
            made = {
                "list": ("[]", f"[{inner}]"), "map": ("{}", f"{{'key': {inner}}}"),
                "opt": ("optional.none()", f"optional.of({inner})"),
            }[shape]  # fmt: skip
            return self.random.choice(made) if shape != "opt" or "optional" in self.groups else inner
        plain = LEAVES[kind]
        if kind in ("dyn", "bool", "string") and "device" in self.groups:
            plain += tuple(text for text in GROUPS["device"].get(kind, ()) if "‹" not in text)
        return self.random.choice(plain)

    def fill(self, template: str, kind: str, depth: int) -> str:
        names = {"T": kind.partition(":")[2] or kind, "U": self.random.choice(self.types)}
        if template in _WHOLE_TYPE:
            names["T"] = kind
        held = len(self.scope)
        declared: list[tuple[str, str]] = []
        text = []
        for piece in _pieces(template):
            if isinstance(piece, str):
                text.append(piece)
                continue
            what, wanted = piece
            wanted = ":".join(names.get(part, part) for part in wanted.split(":"))
            if what == "declare":
                declared.append((self.random.choice(_NAMES) + str(held + len(declared)), wanted))
                text.append(declared[-1][0])
                continue
            if not (template in _BINDINGS and len(text) <= _VALUE):  # the value of a binding cannot see it
                self.scope[held:] = declared
            text.append(_guarded(self.make(wanted, depth)))
        del self.scope[held:]
        return "".join(text)


_BINDINGS = frozenset(GROUPS["bind"]["T"])
_VALUE = 3  # pieces before the value of a binding
_WHOLE_TYPE = frozenset(template for table in GROUPS.values() for template in table.get("T", ()))
_SIMPLE = re.compile(r"[\w.]+|'[^']*'|\"[^\"]*\"|[\w.]+\([^()]*\)")


def _guarded(text: str) -> str:
    """In parentheses unless it is plainly one term."""
    return text if _SIMPLE.fullmatch(text) else f"({text})"


def well_typed(random: Random, groups: frozenset[str] = EVERYTHING, depth: int = 4) -> str:
    """A selector that type checks, up to literals that upstream refuses (bad patterns, bad dates)."""
    return Maker(random, groups).make("bool", random.randint(1, depth))


def ill_typed(random: Random, groups: frozenset[str] = EVERYTHING, depth: int = 4) -> str:
    """A selector that most often does not: types swapped, or tokens changed."""
    text = Maker(random, groups, wrong=random.choice((0.0, 0.1, 0.3))).make("bool", random.randint(1, depth))
    return mutated(random, text) if random.random() < 0.6 else text


def mixed(random: Random, groups: frozenset[str] = EVERYTHING, depth: int = 4) -> str:
    """One or the other."""
    return (well_typed if random.random() < 0.6 else ill_typed)(random, groups, depth)


# --- mutation ----------------------------------------------------------------------------------------------

_NEW_TOKENS = (
    "(", ")", "[", "]", "{", "}", ",", ".", "?", ":", "!", "-", "+", "*", "/", "%", "==", "<", "&&", "||",
    "in", "=", "&", "`a`", "'", '"', "1", "1.0", "1u", "'s'", "null", "true", "unknown", "size", "has",
    "map", "exists", "all", "filter", "bind", "cel", "optional", "type", "if", "for", "device",
    "attributes", "@", "#", "é", "\\", "\n", "\t", "//c\n", "0x", "1e", "r", "b", ".?", "[?", "duration",
    "timestamp", "format", "orValue", "quantity", "int", "..", "$", "\x00", "__result__", "this",
)  # fmt: skip


def mutated(random: Random, text: str) -> str:
    """The text with one to three tokens removed, doubled, exchanged, replaced or put in."""
    tokens = _TOKEN.findall(text)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if not tokens:
            break
        place = random.randrange(len(tokens))
        random.choice(_CHANGES)(random, tokens, place)
    return "".join(tokens)


def _remove(random: Random, tokens: list[str], place: int) -> None:
    del tokens[place]


def _double(random: Random, tokens: list[str], place: int) -> None:
    tokens.insert(place, tokens[place])


def _exchange(random: Random, tokens: list[str], place: int) -> None:
    other = random.randrange(len(tokens))
    tokens[place], tokens[other] = tokens[other], tokens[place]


def _replace(random: Random, tokens: list[str], place: int) -> None:
    tokens[place] = random.choice(_NEW_TOKENS)


def _put_in(random: Random, tokens: list[str], place: int) -> None:
    tokens.insert(place, random.choice(_NEW_TOKENS))


def _cut(random: Random, tokens: list[str], place: int) -> None:
    del tokens[place:]


_CHANGES: tuple[Callable[[Random, list[str], int], None], ...] = (
    _remove, _double, _exchange, _replace, _replace, _put_in, _put_in, _cut,
)  # fmt: skip


# --- devices -----------------------------------------------------------------------------------------------

_FULL: dict[str, Any] = {
    "driver": "gpu.example.com",
    "attributes": {
        "index": {"int": 3},
        "product": {"string": "NVIDIA H100"},
        "uuid": {"string": "GPU-1"},
        "ready": {"bool": True},
        "text": {"string": "a,b,c"},
        "date": {"string": "2024-01-02T03:04:05Z"},
        "driverVersion": {"version": "550.1.2"},
        "numbers": {"ints": [1, 2, 3]},
        "names": {"strings": ["a", "b"]},
        "net.example.com/name": {"string": "eth0"},
        "net.example.com/huge": {"int": 9223372036854775807},
    },
    "capacity": {"memory": {"value": "80Gi"}},
    "allowMultipleAllocations": True,
}
DEVICES: tuple[Mapping[str, Any], ...] = (
    _FULL,
    {
        "driver": "gpu.example.com",
        "attributes": {
            "index": {"int": -1},
            "product": {"string": "é"},
            "ready": {"bool": False},
            "driverVersion": {"version": "1.0.0-rc.1"},
            "net.example.com/name": {"int": 0},
        },
        "capacity": {"memory": {"value": "0"}, "net.example.com/bandwidth": {"value": "1500m"}},
    },
    {"driver": "other.example.com", "attributes": {}, "capacity": {}},
    {
        "driver": "gpu.example.com",
        "attributes": {
            "index": {"string": "3"},
            "product": {"version": "1.2.3"},
            "uuid": {"strings": []},
            "text": {"string": "日本"},
            "numbers": {"versions": ["1.0.0", "2.0.0"]},
            "names": {"bools": [True]},
            "net.example.com/huge": {"int": -9223372036854775808},
        },
        "capacity": {"memory": {"value": "1.5"}},
    },
)
"""Devices in the API's form: full, sparse, empty, and with other types than expected."""

VIEWS: tuple[DeviceView, ...] = tuple(map(view_of_json, DEVICES))


# --- for Hypothesis ----------------------------------------------------------------------------------------


class _Draw(msgspec.Struct, frozen=True):
    make: Callable[[Random, frozenset[str], int], str]
    groups: frozenset[str]
    depth: int

    def __call__(self, random: Random) -> str:
        return self.make(random, self.groups, self.depth)


def texts(
    make: Callable[[Random, frozenset[str], int], str] = mixed,
    groups: frozenset[str] = EVERYTHING,
    depth: int = 4,
) -> st.SearchStrategy[str]:
    """Texts of ``well_typed``, ``ill_typed`` or ``mixed``, drawn (and shrunk) by Hypothesis."""
    return st.randoms(use_true_random=False).map(_Draw(make, groups, depth))


def views() -> st.SearchStrategy[DeviceView]:
    """One of ``VIEWS``."""
    return st.sampled_from(VIEWS)


_NIGHTLY = 10_000


def many(examples: int) -> int:
    """How many examples one of two halves of a comparison tries: more in the nightly profile, 10,000."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return max(examples, _NIGHTLY if profile.max_examples > _NIGHTLY else 0)
