"""Managers of fields: what a write does to ``metadata.managedFields``.

Two operations. *Update* (every create, update and patch): the writer gets what it changed, the others lose
it. *Apply*: the writer states all that it wants; others keep what they hold unless the applier insists.
Source: ``merge/update.go`` of structured-merge-diff, the managers of ``apimachinery/pkg/util/managedfields``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from baro.apiserver.ownership import paths
from baro.apiserver.ownership.paths import Fields, Path
from baro.apiserver.ownership.shapes import Shape
from baro.apiserver.ownership.values import compare, fields_of, merge, remove, with_named

Body = dict[str, Any]

APPLY: Final = "Apply"
UPDATE: Final = "Update"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
MAX_UPDATE_MANAGERS: Final = 10
_ANCIENT: Final = "ancient-changes"

_SERVERS_OWN: Final[Fields] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
            "managedFields", "resourceVersion",
        )
    }
)  # fmt: skip
"""Fields that nobody owns."""


class Manager(msgspec.Struct, frozen=True, order=True):
    """Who wrote, and how. An applier is one whatever API version it uses, so it has none here."""

    operation: str
    name: str
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Held(msgspec.Struct, frozen=True):
    """What a manager owns, in the API version of its last write, and when that was."""

    fields: Fields
    api_version: str
    time: str | None = None


Managed = dict[Manager, Held]


class Applied(msgspec.Struct, frozen=True):
    """The merged object, without ``managedFields``, and who owns what from now on."""

    body: Body
    managed: Managed


class ConflictError(Exception):
    """Other managers own fields that an applier wants to change. ``str()`` is the server's message."""

    def __init__(self, conflicts: Sequence[tuple[Manager, Path]]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__(_conflict_text(self.conflicts))


def _conflict_text(conflicts: Sequence[tuple[Manager, Path]]) -> str:
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {paths.text(path)}"
    lines: list[str] = []
    for manager in dict.fromkeys(manager for manager, _ in conflicts):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {paths.text(path)}" for other, path in conflicts if other == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


# --- reading and writing ---------------------------------------------------------------------------------


def decode_managed(entries: Any) -> Managed:
    """From ``metadata.managedFields``. Raises ``ValueError`` when it cannot be read."""
    managed: Managed = {}
    for entry in entries or ():
        if not isinstance(entry, Mapping) or entry.get("operation") not in (APPLY, UPDATE):
            raise ValueError("an entry of managedFields needs the operation Apply or Update")
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            raise ValueError(f"unsupported fieldsType {entry.get('fieldsType')!r}")
        version = str(entry.get("apiVersion", ""))
        manager = Manager(
            entry["operation"],
            str(entry.get("manager", "")),
            version if entry["operation"] == UPDATE else "",
            str(entry.get("subresource", "")),
        )
        fields = paths.from_fields_v1(entry.get("fieldsV1") or {})
        before = managed.get(manager)
        managed[manager] = Held(fields | before.fields if before else fields, version, entry.get("time"))
    return managed


def encode_managed(managed: Managed) -> list[Body]:
    """Appliers first, then by time. Managers that own nothing are left out."""
    entries: list[Body] = []
    order = sorted(managed.items(), key=lambda item: (item[0].operation, item[1].time or "", item[0]))
    for manager, held in order:
        if not held.fields:
            continue
        entry: Body = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": held.api_version,
            "time": held.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": paths.to_fields_v1(held.fields),
            "subresource": manager.subresource,
        }
        entries.append({name: value for name, value in entry.items() if value not in (None, "")})
    return entries


# --- updates ---------------------------------------------------------------------------------------------


def record_update(
    managed: Managed,
    old: Body,
    new: Body,
    shape: Shape,
    *,
    writer: Held,
    manager: Manager,
    ignored: Fields = frozenset(),
) -> Managed:
    """Who owns what after ``manager`` changed ``old`` into ``new``. ``writer`` gives version and time.

    ``ignored`` are the parts that this way of writing resets. Neither body carries ``managedFields``.
    """
    difference = compare(old, new, shape)
    changed = _without(difference.added | difference.modified, ignored)
    removed = _without(difference.removed, ignored)
    left = {
        other: msgspec.structs.replace(held, fields=held.fields - changed - removed)
        for other, held in managed.items()
    }
    own = changed - _SERVERS_OWN
    if own:
        before = left.get(manager)
        left[manager] = msgspec.structs.replace(writer, fields=own | before.fields if before else own)
    return _capped({other: held for other, held in left.items() if held.fields})


def _without(fields: Fields, roots: Fields) -> Fields:
    return frozenset(path for path in fields if not paths.below(path, roots)) if roots else fields


def _capped(managed: Managed) -> Managed:
    """At most so many updaters: the oldest of each version become one."""
    updaters = sorted(
        (manager for manager in managed if manager.operation == UPDATE),
        key=lambda manager: (managed[manager].time or "", manager),
    )
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managed
    left = dict(managed)
    for manager in updaters[: excess + 1]:
        bucket = Manager(UPDATE, _ANCIENT, manager.api_version)
        held = left.pop(manager)
        before = left.get(bucket)
        left[bucket] = (
            msgspec.structs.replace(held, fields=held.fields | before.fields) if before is not None else held
        )
    return left


# --- apply -----------------------------------------------------------------------------------------------


def apply(  # noqa: PLR0913 - what an applier may say
    managed: Managed,
    live: Body,
    config: Body,
    shape: Shape,
    *,
    writer: Held,
    manager: Manager,
    force: bool = False,
    ignored: Fields = frozenset(),
    last_applied: Body | None = None,
) -> Applied:
    """``config`` applied to ``live`` (``{}`` for a new object). Raises :class:`ConflictError`.

    Fields that the manager applied before and does not any more go, unless somebody else owns them.
    ``last_applied`` is what kubectl once applied on the client: its fields are no conflict.
    """
    if not managed and live:
        first = Manager(UPDATE, BEFORE_FIRST_APPLY, writer.api_version)
        managed = record_update({}, {}, live, shape, writer=writer, manager=first)
    before = managed.get(manager)
    last = before.fields if before is not None else frozenset()
    wanted = _without(fields_of(config, shape), ignored) - _SERVERS_OWN
    others = {other: held for other, held in managed.items() if other != manager}
    merged = _pruned(merge(live, config, shape), last, wanted, others, shape)
    difference = compare(live, merged, shape)
    changed = _without(difference.added | difference.modified, ignored)
    conflicts = [(other, path) for other in sorted(others) for path in sorted(others[other].fields & changed)]
    if conflicts and not force:
        allowed = fields_of(last_applied, shape) if last_applied is not None else frozenset()
        serious = [(other, path) for other, path in conflicts if path not in allowed]
        if serious:
            raise ConflictError(serious)
    lost = changed | _without(difference.removed, ignored)
    left = {other: msgspec.structs.replace(held, fields=held.fields - lost) for other, held in others.items()}
    # An apply that changes nothing but the ownership has no time of its own, as on a real server.
    time = writer.time if merged != live else before.time if before is not None else None
    left[manager] = msgspec.structs.replace(writer, fields=wanted, time=time)
    return Applied(merged, {other: held for other, held in left.items() if held.fields})


def _pruned(merged: Any, last: Fields, wanted: Fields, others: Managed, shape: Shape) -> Any:
    """Without what only ``last`` held."""
    if not last - wanted:
        return merged
    owned = frozenset().union(wanted, *(held.fields for held in others.values()))
    gone = with_named(last, shape) - with_named(owned, shape)
    return remove(merged, shape, paths.tree(gone)) if gone else merged
