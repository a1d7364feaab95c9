"""Changes that the server refuses: immutable fields and one-way doors, with the server's texts.

What an object may hold at all is checked by ``baro.model.validation``; this compares new with old.
Source: the ``Validate…Update`` functions of ``pkg/apis`` in Kubernetes 1.37.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from baro.apiserver.catalogue import Served
from baro.apiserver.registry.strategy import CLAIMS, PODS
from baro.apiserver.status import Cause
from baro.apiserver.storage import ResourceKey

Body = dict[str, Any]

_SLICES: Final = ResourceKey("resource.k8s.io", "resourceslices")
_TEMPLATES: Final = ResourceKey("resource.k8s.io", "resourceclaimtemplates")
MAX_CONSUMERS: Final = 256
MAX_RESULTS: Final = 32

_UPDATABLE_POD_FIELDS: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def refused(served: Served, new: Body, old: Body, subresource: str) -> list[Cause]:
    """Why ``old`` may not become ``new``; empty when it may."""
    causes = _metadata(new["metadata"], old["metadata"])
    if subresource == "status":
        return causes + (_claim_status(new, old) if served.key == CLAIMS else [])
    if served.key in (CLAIMS, _TEMPLATES) and new.get("spec") != old.get("spec"):
        causes.append(_immutable("spec", None))
    elif served.key == _SLICES:
        causes += _slice(new.get("spec") or {}, old.get("spec") or {})
    elif served.key == PODS:
        causes += _pod(new.get("spec") or {}, old.get("spec") or {})
    elif new.get("immutable") is not True and old.get("immutable") is True:
        causes.append(
            Cause("FieldValueForbidden", "immutable", "Forbidden: field is immutable when `immutable` is set")
        )
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


def _slice(new: Body, old: Body) -> list[Cause]:
    changes = (
        ("spec.pool.name", (new.get("pool") or {}).get("name"), (old.get("pool") or {}).get("name")),
        ("spec.driver", new.get("driver"), old.get("driver")),
        ("spec.nodeName", new.get("nodeName"), old.get("nodeName")),
    )
    return [_immutable(path, value) for path, value, before in changes if value != before]


def _claim_status(new: Body, old: Body) -> list[Cause]:
    status, before = new.get("status") or {}, old.get("status") or {}
    causes: list[Cause] = []
    allocation, allocated = status.get("allocation"), before.get("allocation")
    if allocation and allocated and allocation != allocated:
        message = "Invalid value: null: field cannot be modified once set"
        causes.append(Cause("FieldValueInvalid", "status.allocation", message))
    reserved = {consumer.get("uid") for consumer in status.get("reservedFor") or ()}
    earlier = {consumer.get("uid") for consumer in before.get("reservedFor") or ()}
    causes += _consumers(status.get("reservedFor") or [])
    causes += _results(allocation or {}, _request_names(new.get("spec") or {}))
    if reserved and not allocation:
        message = "Forbidden: may not be specified when `allocated` is not set"
        causes.append(Cause("FieldValueForbidden", "status.reservedFor", message))
    if new["metadata"].get("deletionTimestamp") and reserved - earlier:
        message = (
            "Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` "
            "are set"
        )
        causes.append(Cause("FieldValueForbidden", "status.reservedFor", message))
    return causes


def _consumers(consumers: list[Body]) -> list[Cause]:
    if len(consumers) > MAX_CONSUMERS:
        message = f"Too many: {len(consumers)}: must have at most {MAX_CONSUMERS} items"
        return [Cause("FieldValueTooMany", "status.reservedFor", message)]
    return [
        Cause("FieldValueRequired", f"status.reservedFor[{index}].{name}", "Required value")
        for index, consumer in enumerate(consumers)
        for name in ("resource", "name", "uid")
        if not consumer.get(name)
    ]


def _results(allocation: Body, requests: set[str]) -> list[Cause]:
    """The results of an allocation that are too many or for a request that the claim does not have."""
    results = (allocation.get("devices") or {}).get("results") or []
    path = "status.allocation.devices.results"
    if len(results) > MAX_RESULTS:
        message = f"Too many: {len(results)}: must have at most {MAX_RESULTS} items"
        return [Cause("FieldValueTooMany", path, message)]
    rule = (
        "must be the name of a request in the claim or the name of a request and a subrequest "
        "separated by '/'"
    )
    return [
        Cause("FieldValueInvalid", f"{path}[{index}].request", f'Invalid value: "{name}": {rule}')
        for index, result in enumerate(results)
        if (name := str(result.get("request", ""))) not in requests
    ]


def _request_names(spec: Body) -> set[str]:
    """How results may name the requests: a request with alternatives only together with one of them."""
    names: set[str] = set()
    for request in (spec.get("devices") or {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        name = str(request.get("name", ""))
        names |= {f"{name}/{sub.get('name', '')}" for sub in alternatives} if alternatives else {name}
    return names


def _pod(new: Body, old: Body) -> list[Cause]:
    causes: list[Cause] = []
    gates = [gate.get("name") for gate in old.get("schedulingGates") or ()]
    added = [gate.get("name") for gate in new.get("schedulingGates") or () if gate.get("name") not in gates]
    if added:
        message = "Forbidden: only deletion is allowed, but found new scheduling gate "
        causes.append(
            Cause("FieldValueForbidden", f"spec.schedulingGates[{len(gates)}].name", f"{message}'{added[0]}'")
        )
    tolerations = new.get("tolerations") or []
    if any(toleration not in tolerations for toleration in old.get("tolerations") or ()):
        message = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        causes.append(Cause("FieldValueForbidden", "spec.tolerations", message))
    if gates:
        selector = new.get("nodeSelector") or {}
        if any(selector.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
            message = (
                "Invalid value: only additions to spec.nodeSelector are allowed (no mutations or deletions)"
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
