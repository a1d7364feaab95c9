"""Strict decoding: what the API server's decoder says about a body, in its words.

kube-apiserver decodes JSON into Go structs (``sigs.k8s.io/json``, strict and case-sensitive). Three kinds of
trouble come out of that, and one body may have several:

- ``unknown`` or ``duplicate`` fields, of which the server lists all: ``unknown field "spec.foo"``;
- ``type``: a JSON value of the wrong type; decoding goes on, the server names the first of them;
- ``value``: a quantity, time or int-or-string that cannot be read; decoding stops there.

``strict_errors`` finds all of them, for linters. ``rejection`` picks what the server would have answered.
Rules about values (limits, names, required fields) are not decoding: see ``baro.model.validation``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from baro.model.decode.gotime import time_error
from baro.model.decode.jsontext import Pairs
from baro.model.gotext import go_quote
from baro.model.quantity import Quantity
from baro.model.schema import Field, ObjectType, TypeRef, find_kind, resolve

Trouble = Literal["unknown", "duplicate", "type", "value"]

_MAX_LISTED: Final = 100
"""The server's decoder keeps at most so many unknown and duplicate fields."""
_INT_RANGE: Final = {"int32": 2**31, "int64": 2**63}
_NOT_A_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class StrictError(msgspec.Struct, frozen=True):
    """One thing the decoder does not take. ``path`` is like ``spec.devices[0].basic``."""

    path: str
    message: str
    trouble: Trouble


def strict_errors(body: Mapping[str, Any], *, kube_version: str = "1.37") -> tuple[StrictError, ...]:
    """Everything that strict decoding of ``body`` finds, in the order of the document.

    ``kube_version`` decides which fields are known (1.34 and up). A body of a kind that the schema does not
    hold gives no errors: nothing is known about it.
    """
    kind = find_kind(str(body.get("apiVersion", "")), str(body.get("kind", "")))
    if kind is None:
        return ()
    walk = _Walk(_version(kube_version))
    walk.fields(body, resolve(kind.type), "", ())
    return tuple(walk.errors)


def rejection(errors: Sequence[StrictError], api_version: str, kind: str) -> str | None:
    """The message of the server's 400 answer to a create or update, or None when it decodes.

    A ``value`` error stops the decoder, so it comes before all others; then the first ``type`` error;
    unknown and duplicate fields are listed together when there is nothing worse.
    """
    if not errors:
        return None
    fatal = next((e for trouble in ("value", "type") for e in errors if e.trouble == trouble), None)
    text = fatal.message if fatal else "strict decoding error: " + ", ".join(_listed(errors))
    return f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {kind}: {text}'


def _listed(errors: Iterable[StrictError]) -> list[str]:
    return list(dict.fromkeys(error.message for error in errors))[:_MAX_LISTED]


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.removeprefix("v").partition(".")
    return int(major), int(minor.partition(".")[0])


class _Walk:
    """One pass over a body along the schema.

    ``path`` is where we are for unknown fields, with indices and map keys; ``go`` is the decoder's own
    context: the struct whose field was entered last, and the JSON names of all fields entered so far.
    """

    def __init__(self, version: tuple[int, int]) -> None:
        self.version = version
        self.errors: list[StrictError] = []

    def fields(
        self, body: Mapping[str, Any], object_type: ObjectType, path: str, entered: tuple[str, ...]
    ) -> None:
        seen: set[str] = set()
        for key, value in _pairs(body):
            place = f"{path}.{key}" if path else key
            field = self.known(object_type, key)
            if field is None:
                self.errors.append(StrictError(place, f"unknown field {go_quote(place)}", "unknown"))
                continue
            if key in seen:
                self.errors.append(StrictError(place, f"duplicate field {go_quote(place)}", "duplicate"))
            seen.add(key)
            # Decoders before 1.35 did not name the embedded struct that holds a field.
            steps = (field.embedded, key) if field.embedded and self.version >= (1, 35) else (key,)
            self.value(value, field.type, place, _Context(object_type.name, (*entered, *steps)))

    def known(self, object_type: ObjectType, key: str) -> Field | None:
        field = object_type.fields.get(key)
        if field is not None and field.since and self.version < _version(field.since):
            field = None
        former = object_type.former.get(key)
        if former is not None and former.until and self.version <= _version(former.until):
            return former
        return field

    def value(self, value: Any, type_: TypeRef, path: str, context: _Context) -> None:
        if value is None:
            return
        match type_.kind:
            case "object":
                if not isinstance(value, Mapping):
                    self.wrong(value, type_, path, context)
                elif type_.ref:
                    self.fields(value, resolve(type_.ref), path, context.entered)
            case "map":
                self.map(value, type_, path, context)
            case "array":
                self.array(value, type_, path, context)
            case "any":  # Free documents are kept as they are: the decoder does not look inside.
                pass
            case _:
                self.scalar(value, type_, path, context)

    def map(self, value: Any, type_: TypeRef, path: str, context: _Context) -> None:
        if not isinstance(value, Mapping):
            self.wrong(value, type_, path, context)
            return
        seen: set[str] = set()
        for key, item in _pairs(value):
            place = f"{path}.{key}"
            if key in seen:
                self.errors.append(StrictError(place, f"duplicate field {go_quote(place)}", "duplicate"))
            seen.add(key)
            if type_.items:
                self.value(item, type_.items, place, context)

    def array(self, value: Any, type_: TypeRef, path: str, context: _Context) -> None:
        if not isinstance(value, list | tuple):
            self.wrong(value, type_, path, context)
            return
        for index, item in enumerate(value):
            if type_.items:
                self.value(item, type_.items, f"{path}[{index}]", context)

    def scalar(self, value: Any, type_: TypeRef, path: str, context: _Context) -> None:
        if type_.kind in ("quantity", "time", "microTime", "intOrString"):
            text = _unreadable(value, type_, context)
            if text:
                self.errors.append(StrictError(path, text, "value"))
            return
        if type_.kind == "bytes":
            self.bytes(value, type_, path, context)
            return
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = {
            "string": isinstance(value, str),
            "bool": isinstance(value, bool),
            "float": number,
            "int32": number and _is_int(value, "int32"),
            "int64": number and _is_int(value, "int64"),
        }
        if not fits[type_.kind]:
            self.wrong(value, type_, path, context)

    def bytes(self, value: Any, type_: TypeRef, path: str, context: _Context) -> None:
        if isinstance(value, list):
            return
        if not isinstance(value, str):
            self.wrong(value, type_, path, context)
            return
        place = _base64_error(value)
        if place is not None:
            self.errors.append(StrictError(path, f"illegal base64 data at input byte {place}", "type"))

    def wrong(self, value: Any, type_: TypeRef, path: str, context: _Context) -> None:
        name = _json_name(value)
        if name == "number" and type_.kind in _INT_RANGE:
            name = f"number {_number_text(value)}"
        self.errors.append(StrictError(path, context.cannot(name, type_.go), "type"))


class _Context(msgspec.Struct, frozen=True):
    struct: str
    entered: tuple[str, ...]

    def cannot(self, value: str, go_type: str) -> str:
        """The decoder's sentence about a value of the wrong type."""
        place = f"{self.struct}.{'.'.join(self.entered)}"
        return f"json: cannot unmarshal {value} into Go struct field {place} of type {go_type}"


# --- scalars ---------------------------------------------------------------------------------------------


def _pairs(body: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    found = body.pairs if isinstance(body, Pairs) else body.items()
    return ((key if isinstance(key, str) else str(key), value) for key, value in found)


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, list | tuple) else "string"


def _is_int(value: Any, kind: str) -> bool:
    limit = _INT_RANGE[kind]
    return isinstance(value, int) and -limit <= value < limit


def _number_text(value: float) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits.
        return hex(int(value))


def _unreadable(value: Any, type_: TypeRef, context: _Context) -> str | None:
    """Why a type with its own decoder cannot read ``value``; None when it can."""
    name = _json_name(value)
    if type_.kind == "quantity":
        if name not in ("string", "number"):
            return _NOT_A_QUANTITY
        try:
            Quantity.parse(value.strip() if isinstance(value, str) else value)
        except ValueError as error:  # QuantityError, or an int too long for Python to print
            return str(error)
        return None
    if type_.kind == "intOrString":
        if name == "string" or (name == "number" and _is_int(value, "int32")):
            return None
        shown = f"number {_number_text(value)}" if name == "number" else name
        return context.cannot(shown, "int32")
    if name != "string":
        return context.cannot(name, "string")
    return time_error(value, micro=type_.kind == "microTime")


def _base64_error(text: str) -> int | None:
    """Index of the first character that Go's decoder refuses; None when ``text`` is base64."""
    alphabet = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    plain = text.replace("\r", "").replace("\n", "")
    try:
        base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        body = plain.rstrip("=")
        return next((i for i, char in enumerate(body) if char not in alphabet), len(plain))
    return None
