"""Tables: how ``kubectl get`` shows objects. The server computes the cells, kubectl only prints them.

Columns come from the table of kinds; this computes their cells from stored forms, as
``pkg/printers/internalversion`` of Kubernetes does. Cells of priority 1 are always sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from baro.apiserver.catalogue import Served
from baro.apiserver.customs import AGE, Version, find
from baro.model.schema import Column

Body = dict[str, Any]
Cells = list[Any]

_UNKNOWN: Final = "<unknown>"
_NONE: Final = "<none>"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def table(
    served: Served,
    bodies: Sequence[Body],
    *,
    now: datetime,
    metadata: Mapping[str, Any],
    include: str = "Metadata",
    headers: bool = True,
) -> Body:
    """A ``meta.k8s.io/v1`` Table. ``include``: ``None``, ``Metadata`` or ``Object`` beside the cells."""
    result: Body = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata),
        "columnDefinitions": column_definitions(served) if headers else [],
        "rows": [_row(served, body, now, include) for body in bodies],
    }
    return result


def column_definitions(served: Served) -> list[Body]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in served.kind.columns
    ]


def partial_metadata(body: Body) -> Body:
    """The object without all but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}


def _row(served: Served, body: Body, now: datetime, include: str) -> Body:
    row: Body = {"cells": cells(served, body, now)}
    if include == "Object":
        row["object"] = body
    elif include != "None":
        row["object"] = partial_metadata(body)
    return row


def cells(served: Served, body: Body, now: datetime) -> Cells:
    """One cell for each column of the kind."""
    if served.custom is not None:
        return [body["metadata"]["name"], *_custom(served, served.custom, body, now)]
    printer = _PRINTERS.get(served.kind.kind)
    name, age = body["metadata"]["name"], since(body["metadata"].get("creationTimestamp"), now)
    return printer(body, name, age, now) if printer is not None else [name, age][: len(served.kind.columns)]


def _custom(served: Served, version: Version, body: Body, now: datetime) -> Cells:
    """The cells behind the name. What a path does not find stays empty."""
    found: Cells = []
    for column, path in zip(served.kind.columns[1:], version.paths, strict=True):
        values = find(body, path)
        if column.type == "string" and column != AGE:
            texts = [value if isinstance(value, str) else _json_text(value) for value in values]
            found.append(" ".join(texts) if texts else None)
        elif not values:
            found.append(None)
        else:
            found.append(_typed(column, values[0], now))
    return found


def _typed(column: Column, value: Any, now: datetime) -> Any:
    if column.type == "date" or column == AGE:
        return since(value, now)
    if column.type == "integer" and isinstance(value, int | float):
        return int(value)
    if column.type == "number" and isinstance(value, int | float):
        return float(value)
    if column.type == "boolean" and isinstance(value, bool):
        return value
    return None


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# --- ages ------------------------------------------------------------------------------------------------


def since(moment: Any, now: datetime) -> str:
    """The time from ``moment`` (RFC 3339) to ``now`` as kubectl shows ages."""
    if not isinstance(moment, str) or not moment:
        return _UNKNOWN
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return _UNKNOWN
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return human_duration((now - then).total_seconds())


def human_duration(seconds: float) -> str:
    """Two units at most, coarser the longer: ``119s``, ``9m59s``, ``179m``, ``7h59m``, ``2d1h``, ``2y3d``."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    steps: tuple[tuple[bool, str], ...] = (
        (whole < 120, f"{whole}s"),
        (minutes < 10, _pair(minutes, "m", whole % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _pair(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _pair(days, "d", hours % 24, "h")),
        (days < 730, f"{days}d"),
        (days < 2920, _pair(days // 365, "y", days % 365, "d")),
    )
    return next((text for applies, text in steps if applies), f"{days // 365}y")


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


# --- kinds -----------------------------------------------------------------------------------------------


def _pod(body: Body, name: str, age: str, now: datetime) -> Cells:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    ready, restarts, reason = _container_state(spec, status, now)
    phase = status.get("phase", "")
    if body["metadata"].get("deletionTimestamp") and phase not in ("Succeeded", "Failed"):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    total = len(spec.get("containers") or ()) + sum(map(_is_sidecar, spec.get("initContainers") or ()))
    ips = status.get("podIPs") or [{}]
    gates = spec.get("readinessGates") or []
    true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    passed = sum(gate.get("conditionType") in true for gate in gates)
    return [
        name,
        f"{ready}/{total}",
        reason,
        restarts,
        age,
        ips[0].get("ip") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{passed}/{len(gates)}" if gates else _NONE,
    ]


def _container_state(spec: Body, status: Body, now: datetime) -> tuple[int, str, str]:
    """Ready containers, restarts, and the reason that stands in the STATUS column."""
    reason = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    statuses = status.get("containerStatuses") or []
    init = _init_reason(spec, status)
    ready = sum(bool(c.get("ready") and (c.get("state") or {}).get("running")) for c in statuses)
    counted = statuses if init is None else status.get("initContainerStatuses") or []
    restarts = _restarts(counted, now)
    if init is not None:
        return ready, restarts, init
    failed = ""
    for container in reversed(statuses):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif ended is not None:
            reason = ended.get("reason") or _exit(ended)
            failed = reason if ended.get("exitCode") else failed
    if reason == "Completed":
        if ready:
            is_ready = any(
                c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()
            )
            reason = "Running" if is_ready else failed or "NotReady"
        elif failed:
            reason = failed
    return ready, restarts, reason


def _init_reason(spec: Body, status: Body) -> str | None:
    """What the STATUS column says while init containers run; None when they are done."""
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if _is_sidecar(c)}
    for position, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended, waits = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if ended is not None:
            return "Init:" + (ended.get("reason") or _exit(ended))
        if waits and waits != "PodInitializing":
            return f"Init:{waits}"
        return f"Init:{position}/{len(spec.get('initContainers') or ())}"
    return None


def _exit(ended: Body) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(statuses: Sequence[Body], now: datetime) -> str:
    count = sum(int(container.get("restartCount", 0)) for container in statuses)
    ends = [((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for c in statuses]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _is_sidecar(container: Body) -> bool:
    return container.get("restartPolicy") == "Always"


def _node(body: Body, name: str, age: str, _now: datetime) -> Cells:
    status, info = body.get("status") or {}, (body.get("status") or {}).get("nodeInfo") or {}
    ready = next((c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if (body.get("spec") or {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    addresses = {a.get("type"): a.get("address") for a in reversed(status.get("addresses") or [])}
    kernel = info.get("kernelVersion") or _UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name,
        state,
        ",".join(_roles(body["metadata"].get("labels") or {})) or _NONE,
        age,
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or _NONE,
        addresses.get("ExternalIP") or _NONE,
        info.get("osImage") or _UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or _UNKNOWN,
    ]


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(role for role in roles if role)


def _event(body: Body, name: str, _age: str, now: datetime) -> Cells:
    about = body.get("involvedObject") or {}
    first = since(body.get("firstTimestamp") or body.get("eventTime"), now)
    last = since(body["lastTimestamp"], now) if body.get("lastTimestamp") else first
    count = int(body.get("count") or 1)
    series = body.get("series")
    if series:
        last, count = since(series.get("lastObservedTime"), now), int(series.get("count", 0))
    kind = str(about.get("kind", "")).lower()
    return [
        last,
        body.get("type", ""),
        body.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        _event_source(body),
        str(body.get("message", "")).strip(),
        first,
        count,
        name,
    ]


def _event_source(body: Body) -> str:
    source = body.get("source") or {}
    component = source.get("component") or body.get("reportingComponent") or ""
    place = source.get("host") or body.get("reportingInstance") or ""
    return f"{component}, {place}" if place else component


def _claim(body: Body, name: str, age: str, _now: datetime) -> Cells:
    status = body.get("status") or {}
    states = ["deleted"] if body["metadata"].get("deletionTimestamp") else []
    if status.get("allocation"):
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return [name, ",".join(states), age]


def _slice(body: Body, name: str, age: str, _now: datetime) -> Cells:
    spec = body.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [name, spec.get("nodeName") or "", spec.get("driver", ""), pool, age]


def _taint_rule(body: Body, name: str, age: str, _now: datetime) -> Cells:
    taint = (body.get("spec") or {}).get("taint") or {}
    return [name, *(taint.get(part) or "" for part in ("key", "value", "effect", "timeAdded")), age]


def _namespace(body: Body, name: str, age: str, _now: datetime) -> Cells:
    return [name, (body.get("status") or {}).get("phase", ""), age]


def _config_map(body: Body, name: str, age: str, _now: datetime) -> Cells:
    return [name, len(body.get("data") or ()) + len(body.get("binaryData") or ()), age]


def _secret(body: Body, name: str, age: str, _now: datetime) -> Cells:
    return [name, body.get("type", ""), len(body.get("data") or ()), age]


def _lease(body: Body, name: str, age: str, _now: datetime) -> Cells:
    return [name, (body.get("spec") or {}).get("holderIdentity") or "", age]


_PRINTERS: Final[dict[str, Callable[[Body, str, str, datetime], Cells]]] = {
    "Pod": _pod,
    "Node": _node,
    "Namespace": _namespace,
    "Event": _event,
    "ConfigMap": _config_map,
    "Secret": _secret,
    "Lease": _lease,
    "ResourceClaim": _claim,
    "ResourceSlice": _slice,
    "DeviceTaintRule": _taint_rule,
}
