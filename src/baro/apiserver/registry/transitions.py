"""Changes that the server refuses: immutable fields and one-way doors, with the server's texts.

What an object may hold at all is checked by ``baro.model.validation``; this compares new with old.
Source: the ``Validate…Update`` functions of ``pkg/apis`` in Kubernetes 1.37.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from baro.apiserver.catalogue import DEFINITIONS, Served
from baro.apiserver.registry.strategy import PODS
from baro.apiserver.status import Cause
from baro.apiserver.validation import DRA

Body = dict[str, Any]

_UPDATABLE_POD_FIELDS: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def refused(served: Served, new: Body, old: Body, subresource: str) -> list[Cause]:
    """Why ``old`` may not become ``new``. Of resource.k8s.io ``baro.model.validation`` judges."""
    if served.kind.group == DRA:
        return []
    causes = _metadata(new["metadata"], old["metadata"])
    if subresource == "status":
        return causes
    if served.key == DEFINITIONS:
        causes += _definition(new.get("spec") or {}, old.get("spec") or {})
    elif served.key == PODS:
        causes += _pod(new.get("spec") or {}, old.get("spec") or {})
    elif old.get("immutable") is True:
        message = "Forbidden: field is immutable when `immutable` is set"
        changed = [name for name in ("immutable", "data", "binaryData") if new.get(name) != old.get(name)]
        causes += [Cause("FieldValueForbidden", name, message) for name in changed]
    return causes


def _metadata(new: Body, old: Body) -> list[Cause]:
    if not old.get("deletionTimestamp"):
        return []
    before = old.get("finalizers") or []
    added = [name for name in new.get("finalizers") or [] if name not in before]
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    message = (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return [Cause("FieldValueForbidden", "metadata.finalizers", message)]


def _definition(new: Body, old: Body) -> list[Cause]:
    names, before = new.get("names") or {}, old.get("names") or {}
    changes = (
        ("spec.group", new.get("group"), old.get("group")),
        ("spec.scope", new.get("scope"), old.get("scope")),
        ("spec.names.kind", names.get("kind"), before.get("kind")),
        ("spec.names.plural", names.get("plural"), before.get("plural")),
    )
    return [_immutable(path, value) for path, value, was in changes if value != was]


def _pod(new: Body, old: Body) -> list[Cause]:
    causes: list[Cause] = []
    gates = [gate.get("name") for gate in old.get("schedulingGates") or ()]
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            message = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            path = f"spec.schedulingGates[{index}].name"
            causes.append(Cause("FieldValueForbidden", path, f"Forbidden: {message}"))
    tolerations = new.get("tolerations") or []
    if any(toleration not in tolerations for toleration in old.get("tolerations") or ()):
        message = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        causes.append(Cause("FieldValueForbidden", "spec.tolerations", message))
    if gates:
        selector = new.get("nodeSelector") or {}
        if any(selector.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
            shown = msgspec.json.encode(selector, order="deterministic").decode()
            message = (
                f"Invalid value: {shown}: only additions to spec.nodeSelector are allowed "
                "(no mutations or deletions)"
            )
            causes.append(Cause("FieldValueInvalid", "spec.nodeSelector", message))
    if _fixed_part(new, gated=bool(gates)) != _fixed_part(old, gated=bool(gates)):
        names = ",".join(_UPDATABLE_POD_FIELDS)
        message = f"Forbidden: pod updates may not change fields other than {names}"
        causes.append(Cause("FieldValueForbidden", "spec", message))
    return causes


def _fixed_part(spec: Body, *, gated: bool) -> Body:
    """The pod spec without the fields that an update may change."""
    free = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "schedulingGates", "tolerations"}
    if gated:
        free |= {"nodeSelector", "affinity"}
    fixed = {name: value for name, value in spec.items() if name not in free}
    for name in ("containers", "initContainers"):
        fixed[name] = [
            {key: value for key, value in container.items() if key not in ("image", "imagePullPolicy")}
            for container in spec.get(name) or ()
        ]
    return fixed


def _immutable(path: str, value: Any) -> Cause:
    shown = msgspec.json.encode(value).decode()
    return Cause("FieldValueInvalid", path, f"Invalid value: {shown}: field is immutable")
