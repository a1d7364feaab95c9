"""Field ownership of stored objects: who is recorded for a write, and what applying does.

The algebra is in ``baro.apiserver.ownership``; this knows which parts of a kind a write resets, which fields
an empty object of a kind has, and where ``managedFields`` stands.
Source: ``GetResetFields`` of the strategies and the managers of ``apimachinery/pkg/util/managedfields``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from baro.apiserver.catalogue import Served
from baro.apiserver.ownership import (
    Applied,
    ConflictError,
    Managed,
    Manager,
    apply,
    decode_managed,
    encode_managed,
    misfits,
    record_update,
)
from baro.apiserver.ownership.managers import Held
from baro.apiserver.ownership.paths import Fields, text
from baro.apiserver.registry.options import WriteOptions
from baro.apiserver.registry.strategy import NAMESPACES
from baro.apiserver.registry.versions import from_stored
from baro.apiserver.status import Cause, StatusError, apply_conflict, bad_request

Body = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

_DEVICES: Final[Body] = {"devices": {}}
_EMPTY: Final[Mapping[str, Body]] = {
    "Pod": {"spec": {"containers": None}, "status": {}},
    "Node": {"spec": {}, "status": {"daemonEndpoints": {}, "nodeInfo": {}}},
    "Namespace": {"spec": {}, "status": {}},
    "Lease": {"spec": {}},
    "ResourceClaim": {"spec": _DEVICES, "status": {}},
    "ResourceClaimTemplate": {"spec": {"metadata": {}, "spec": _DEVICES}},
    "ResourceSlice": {"spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}}},
    "DeviceClass": {"spec": {}},
    "DeviceTaintRule": {"spec": {"taint": {}}, "status": {}},
    "Event": {"involvedObject": {}, "source": {}, "regarding": {}, "deprecatedSource": {}, "eventTime": None},
}
"""What Go writes for an empty object of a kind: structs that are no pointers are always there."""


def _ignored(served: Served, subresource: str) -> Fields:
    """The parts that a write to this subresource resets."""
    if "status" not in served.kind.subresources:
        return frozenset()
    if subresource == "status":
        return frozenset({("f:spec",)})
    if served.key == NAMESPACES and not subresource:
        return frozenset({("f:status",), ("f:spec", "f:finalizers")})
    return frozenset({("f:status",)})


def track(
    served: Served, old: Body | None, new: Body, options: WriteOptions, now: str, subresource: str = ""
) -> None:
    """Sets ``managedFields`` of ``new`` for a write that changed ``old`` into it. Bodies are stored forms.

    A client may send ``managedFields`` back as it read them, or clear them with one empty entry. Writes that
    nobody signs, and objects whose ownership is not tracked, stay as they are.
    """
    given = new["metadata"].pop("managedFields", None)
    if given == [{}]:
        return
    kept = (old["metadata"].get("managedFields") if old is not None else None) or []
    managed = _readable(given) or _readable(kept)
    if not options.manager or (old is not None and not managed):
        _set(new, encode_managed(managed) if managed else [])
        return
    before = _bare(served, old) if old is not None else _empty(served)
    manager = Manager("Update", options.manager, served.kind.api_version, subresource)
    signed = None if subresource == "scale" else now  # as there: a scaler's entry has no time
    writer = Held(frozenset(), served.kind.api_version, signed)
    ignored = _ignored(served, subresource)
    after = _bare(served, new)
    _set(
        new,
        encode_managed(
            record_update(
                managed, before, after, served.merging, writer=writer, manager=manager, ignored=ignored
            )
        ),
    )


def applied(
    served: Served, old: Body | None, config: Body, options: WriteOptions, now: str, subresource: str = ""
) -> Body:
    """``config`` applied to ``old``, in the form that clients of ``served`` see, ``managedFields`` included.

    The config has passed :func:`check_config`. Raises 409 with every conflict.
    """
    live = _bare(served, old) if old is not None else {}
    managed = _readable(old["metadata"].get("managedFields")) if old is not None else {}
    try:
        result = apply(
            managed,
            live,
            config,
            served.merging,
            writer=Held(frozenset(), served.kind.api_version, now),
            manager=Manager("Apply", options.manager, "", subresource),
            force=options.force,
            ignored=_ignored(served, subresource),
            last_applied=_last_applied(live) if options.manager == "kubectl" else None,
        )
    except ConflictError as error:
        causes = [
            Cause("FieldManagerConflict", text(path), f"conflict with {manager}")
            for manager, path in error.conflicts
        ]
        raise apply_conflict(str(error), causes) from None
    return _with_ownership(result, config)


def _with_ownership(result: Applied, config: Body) -> Body:
    body = result.body
    annotations = (body.get("metadata") or {}).get("annotations") or {}
    if LAST_APPLIED in annotations and any(m.name == "kubectl" for m in result.managed):
        refreshed = {**annotations, LAST_APPLIED: json.dumps(config, separators=(",", ":")) + "\n"}
        body["metadata"]["annotations"] = refreshed
    body["metadata"]["managedFields"] = encode_managed(result.managed)
    return body


def same(left: Body, right: Body) -> bool:
    """Whether two states of an object differ in nothing but the times of ``managedFields``."""

    def timeless(body: Body) -> Body:
        entries = body["metadata"].get("managedFields") or ()
        bare = [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
        return {**body, "metadata": {**body["metadata"], "managedFields": bare}}

    return left == right or timeless(left) == timeless(right)


def check_config(served: Served, config: Body) -> None:
    """Raises 400 for a config that claims ownership itself, 500 for one that does not fit the schema."""
    if config["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    missing = misfits(config, served.merging)
    if not missing:
        return
    metadata = config["metadata"]
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    listed = missing[0] if len(missing) == 1 else "\n  ".join(["errors:", *missing])
    group = served.kind.api_version if served.kind.group else f"/{served.kind.version}"
    raise StatusError(
        500, "", f"failed to create typed patch object ({place}; {group}, Kind={served.kind.kind}): {listed}"
    )


def _empty(served: Served) -> Body:
    return {"metadata": {}, **_EMPTY.get(served.kind.kind, {})} if served.builtin else {}


def _bare(served: Served, stored: Body) -> Body:
    metadata = {name: value for name, value in stored["metadata"].items() if name != "managedFields"}
    return from_stored({**stored, "metadata": metadata}, served)


def _readable(entries: Any) -> Managed:
    try:
        return decode_managed(entries)
    except ValueError:
        return {}


def _set(body: Body, entries: list[Body]) -> None:
    if entries:
        body["metadata"]["managedFields"] = entries
    else:
        body["metadata"].pop("managedFields", None)


def _last_applied(live: Body) -> Body | None:
    written = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        decoded = json.loads(written) if isinstance(written, str) else None
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) else None
