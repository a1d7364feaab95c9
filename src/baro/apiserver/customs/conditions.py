"""The status of a definition: which of its names it gets, and whether its kind is served.

Source: the naming and establishing controllers of ``apiextensions-apiserver``. Both act at once here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

Body = dict[str, Any]


def status_of(body: Body, now: str, resources: Collection[str], kinds: Collection[str]) -> Body:
    """``resources`` and ``kinds`` are the names that others of its group have already."""
    before = body.get("status") or {}
    names, reason, message = _names(
        body["spec"]["names"], before.get("acceptedNames") or {}, resources, kinds
    )
    accepted = reason == "NoConflicts"
    serving = accepted or established(body)
    conditions = [
        _condition("NamesAccepted", accepted, reason, message),
        _condition(
            "Established",
            serving,
            "InitialNamesAccepted" if serving else "NotAccepted",
            "the initial names have been accepted" if serving else "not all names are accepted",
        ),
    ]
    old = {condition.get("type"): condition for condition in before.get("conditions") or ()}
    for condition in conditions:
        same = old.get(condition["type"], {})
        kept = same.get("lastTransitionTime") if same.get("status") == condition["status"] else None
        condition["lastTransitionTime"] = kept or now
    stored = next((v["name"] for v in body["spec"]["versions"] if v.get("storage")), "")
    versions = list(dict.fromkeys([*(before.get("storedVersions") or ()), stored]))
    return {"conditions": conditions, "acceptedNames": names, "storedVersions": versions}


def _names(
    asked: Body, had: Body, resources: Collection[str], kinds: Collection[str]
) -> tuple[Body, str, str]:
    """The names that are accepted; reason and message of the last that is not."""
    names: Body = {"plural": "", "kind": "", **had}
    reason, message = "NoConflicts", "no conflicts found"
    for name, conflict, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        wanted = asked.get(name)
        each = wanted if isinstance(wanted, list) else [wanted]
        own = had.get(name)
        held = own if isinstance(own, list) else [own]
        taken = [value for value in each if value not in held and value in used]
        if taken:
            texts = [f'"{value}" is already in use' for value in dict.fromkeys(taken)]
            reason, message = conflict, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        elif wanted:
            names[name] = wanted
        else:
            names.pop(name, None)
    names.pop("categories", None)
    if asked.get("categories"):
        names["categories"] = asked["categories"]
    return dict(sorted(names.items())), reason, message


def _condition(name: str, holds: bool, reason: str, message: str) -> Body:
    status = "True" if holds else "False"
    return {"lastTransitionTime": "", "message": message, "reason": reason, "status": status, "type": name}


def established(body: Body) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
