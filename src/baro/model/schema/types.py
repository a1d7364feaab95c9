"""Object types of the API: which fields each has, of which type, and how lists merge.

The facts stand in ``tables/*.types``, one text file per API group and version, in the form ::

    Name = string                                    a named scalar, list or map type
    type ResourceSliceSpec                           a struct; "atomic" behind the name: replaced as a whole
      driver!  string                                "!" means required
      devices  []Device       list=atomic            list type: atomic, set, map:KEY[,KEY…]
      volumes  []core.Volume  list=map:name merge=name patch=merge,retainKeys

Types are written as in Go without pointers; ``core.``, ``meta.``, ``scheduling.`` name other tables.
``merge`` is the patchMergeKey of strategic merge, ``patch`` the patchStrategy where it is not plain "merge".
``in`` names the Go struct that is embedded here and holds the field.
``since=1.37`` marks a field that older servers do not know (1.34 is the oldest looked at), ``until=1.36`` one
that was removed after that version; the latter are in ``ObjectType.former``, not in ``fields``.
Field order is that of the API's declaration. Source: ``k8s.io/api`` and ``k8s.io/apimachinery`` v0.37, all
fields including those behind feature gates.

A file is read when the first of its types is asked for, a type is parsed when it is asked for: nothing
is paid for the kinds that a command does not touch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import msgspec

TypeKind = Literal[
    "object", "string", "int32", "int64", "bool", "float", "quantity", "time", "microTime",
    "intOrString", "any", "bytes", "array", "map",
]  # fmt: skip

_TABLES: Final = Path(__file__).with_name("tables")
_PACKAGES: Final = {
    "core": "v1",
    "meta": "meta/v1",
    "scheduling": "scheduling.k8s.io/v1alpha3",
}
"""Table names used in other tables → group and version."""

_BUILTIN: Final[Mapping[str, TypeKind]] = {
    "string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "float64": "float",
    "any": "any", "[]byte": "bytes", "resource.Quantity": "quantity", "types.UID": "string",
    "intstr.IntOrString": "intOrString", "runtime.RawExtension": "any",
    "meta.Time": "time", "meta.MicroTime": "microTime", "meta.FieldsV1": "any",
}  # fmt: skip


class TypeRef(msgspec.Struct, frozen=True):
    """The type of a field, list item or map value.

    ``ref`` names an object type (see ``resolve``) and is set for ``object`` only; ``items`` is the type of
    list items and map values; ``go`` is the type as the server's decoder prints it, such as
    ``[]v1.DeviceSelector`` or ``map[v1.QualifiedName]v1.DeviceAttribute``.
    """

    kind: TypeKind
    go: str
    ref: str | None = None
    items: TypeRef | None = None


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of an object type; ``name`` is the JSON name.

    ``merge_key`` and ``patch_strategy`` drive strategic merge patches, ``list_type`` and ``list_map_keys``
    server-side apply and duplicate checks; ``atomic`` marks maps that are replaced as a whole. ``since`` and
    ``until`` are Kubernetes versions (``1.37``): the first and the last that know the field. ``embedded`` is
    the Go struct, embedded in the object type, that holds the field; decoders name it.
    """

    name: str
    type: TypeRef
    required: bool = False
    merge_key: str | None = None
    patch_strategy: tuple[str, ...] = ()
    list_type: Literal["atomic", "set", "map"] | None = None
    list_map_keys: tuple[str, ...] = ()
    atomic: bool = False
    since: str | None = None
    until: str | None = None
    embedded: str | None = None


class ObjectType(msgspec.Struct, frozen=True):
    """A struct of the API: ``name`` is its Go name, ``ref`` its unique (OpenAPI component) name.

    ``fields`` are those of the newest version, ``former`` those that were removed since.
    """

    name: str
    group_version: str
    ref: str
    fields: Mapping[str, Field]
    former: Mapping[str, Field]
    atomic: bool = False


class _Table(msgspec.Struct, frozen=True):
    aliases: Mapping[str, str]
    blocks: Mapping[str, tuple[str, bool]]


def object_type(group_version: str, name: str) -> ObjectType:
    """The type ``name`` of ``group_version`` (``v1``, ``meta/v1``, ``resource.k8s.io/v1beta1`` …).

    Raises ``KeyError`` for a type that no table has.
    """
    return _object_type(group_version, name)


def resolve(ref: str) -> ObjectType:
    """The type that a ``TypeRef.ref`` or ``Kind.type`` names. Raises ``KeyError`` for an unknown name."""
    prefix, _, name = ref.rpartition(".")
    return _object_type(_by_prefix()[prefix], name)


def type_names(group_version: str) -> tuple[str, ...]:
    """All object types of a table, in its order."""
    return tuple(_table(group_version).blocks)


def group_versions() -> tuple[str, ...]:
    """All tables there are."""
    return tuple(_by_prefix().values())


# --- reading the tables ----------------------------------------------------------------------------------


@cache
def _by_prefix() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(_TABLES.glob("*.types")):
        group, _, version = path.stem.rpartition("_")
        group_version = version if group == "core" else f"{group}/{version}"
        found[_ref_prefix(group_version)] = group_version
    return found


def _ref_prefix(group_version: str) -> str:
    group, _, version = group_version.rpartition("/")
    if group == "meta":
        return f"io.k8s.apimachinery.pkg.apis.meta.{version}"
    if group == "baro.dev":
        return f"dev.baro.{version}"
    return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}"


@cache
def _table(group_version: str) -> _Table:
    group, _, version = group_version.rpartition("/")
    path = _TABLES / f"{group or 'core'}_{version}.types"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise KeyError(group_version) from None
    head, *blocks = re.split(r"^type ", text, flags=re.MULTILINE)
    aliases = dict(re.findall(r"^(\w+) *= (\S+)$", head, re.MULTILINE))
    parsed: dict[str, tuple[str, bool]] = {}
    for block in blocks:
        title, _, body = block.partition("\n")
        name, _, flag = title.partition("  ")
        parsed[name] = (body, flag == "atomic")
    return _Table(aliases, parsed)


@cache
def _object_type(group_version: str, name: str) -> ObjectType:
    body, atomic = _table(group_version).blocks[name]
    fields = [_field(group_version, line.split()) for line in body.splitlines() if line.strip()]
    return ObjectType(
        name=name,
        group_version=group_version,
        ref=f"{_ref_prefix(group_version)}.{name}",
        fields=MappingProxyType({field.name: field for field in fields if not field.until}),
        former=MappingProxyType({field.name: field for field in fields if field.until}),
        atomic=atomic,
    )


def _field(group_version: str, words: list[str]) -> Field:
    name, go_type, *options = words
    option = dict(word.partition("=")[::2] for word in options)
    list_type, _, keys = option.get("list", "").partition(":")
    strategy = option.get("patch") or ("merge" if "merge" in option else "")
    return Field(
        name=name.rstrip("!"),
        type=_type_ref(group_version, go_type),
        required=name.endswith("!"),
        merge_key=option.get("merge"),
        patch_strategy=tuple(strategy.split(",")) if strategy else (),
        list_type=list_type or None,  # type: ignore[arg-type]
        list_map_keys=tuple(keys.split(",")) if keys else (),
        atomic="atomic" in option,
        since=option.get("since"),
        until=option.get("until"),
        embedded=option.get("in"),
    )


@cache
def _type_ref(group_version: str, text: str) -> TypeRef:
    """The type written as ``text`` in the table of ``group_version``."""
    if group_version == "meta/v1" and f"meta.{text}" in _BUILTIN:
        text = f"meta.{text}"
    go = _go_name(group_version, text)
    if text in _BUILTIN:
        return TypeRef(_BUILTIN[text], go)
    if text.startswith("[]"):
        return TypeRef("array", go, items=_type_ref(group_version, text[2:]))
    if text.startswith("map["):
        return TypeRef("map", go, items=_type_ref(group_version, text[text.index("]") + 1 :]))
    package, _, name = text.rpartition(".")
    owner = _PACKAGES[package] if package else group_version
    alias = _table(owner).aliases.get(name)
    if alias is None:
        return TypeRef("object", go, ref=f"{_ref_prefix(owner)}.{name}")
    return msgspec.structs.replace(_type_ref(owner, alias), go=go)


def _go_name(group_version: str, text: str) -> str:
    """``text`` as Go's reflection prints it: ``Device`` → ``v1.Device``, ``[]byte`` → ``[]uint8``."""
    version = group_version.rpartition("/")[2]

    def qualified(match: re.Match[str]) -> str:
        package, name = match.groups()
        if package is None and name in ("map", "string", "bool", "int32", "int64", "float64"):
            return name
        if package is None:
            return {"byte": "uint8", "any": "interface {}"}.get(name, f"{version}.{name}")
        known = _PACKAGES.get(package)
        return f"{known.rpartition('/')[2]}.{name}" if known else match.group()

    return re.sub(r"(?:(\w+)\.)?(\w+)", qualified, text)
