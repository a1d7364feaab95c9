"""New inputs for the recorder: right writes, changed a little by values of the schema's types, as JSON lines.

``python -m tests.support.oracle_inputs COUNT SEED >inputs.jsonl`` prints records without answers (``name``,
``category``, ``operation``, ``object``, for updates ``old``): what ``baro conformance validate`` reads and
what a recorder sends to a real server. The same count and seed give the same records.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from baro.model.decode import strict_errors
from baro.model.schema import TypeRef, find_kind, resolve
from tests.support.schema import claim_body, slice_body

Record = dict[str, Any]

_TEXTS: Final = (
    "a", "gpu-0", "A_b", "", "x" * 64, "x" * 33, "a/b", "a/b/c", "dra.example.com/attr", "ü", "a.b",
    "x" * 254, "1.2.3", "True", "gpu.example.com", "r0", "NoSchedule", "Exists", "10.0.0.1/24",
    "example.com/f", "-a", "All", "ExactCount", "FromClaim", "11111111-2222-4333-8444-555555555555",
)  # fmt: skip
"""Right, wrong, empty and too long, for whatever field they meet."""
_NUMBERS: Final = (0, 1, -1, 2, 5, 2**31 - 1)
_QUANTITIES: Final = ("1", "0", "-1", "1500m", "2Gi", "10Gi", "1e3", "0.5", "8Gi", 5)
_LENGTHS: Final = (0, 1, 1, 2, 2, 3, 9, 17, 33)
_SERVER_SET: Final = frozenset({
    "apiVersion", "kind", "name", "generateName", "namespace", "uid", "resourceVersion", "selfLink",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
})  # fmt: skip


class _Drawer:
    """Draws values of the schema's types."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - inputs, not secrets

    def value(self, type_: TypeRef, depth: int = 0) -> Any:
        pick = self.random.choice
        if type_.kind == "object" and type_.ref:
            return {} if depth > 3 else self._object(type_.ref, depth)
        if type_.kind == "array" and type_.items:
            return [self.value(type_.items, depth + 1) for _ in range(pick(_LENGTHS))]
        if type_.kind == "map" and type_.items:
            return {pick(_TEXTS) or "z": self.value(type_.items, depth + 1) for _ in range(pick(_LENGTHS))}
        drawn: Mapping[str, Any] = {
            "string": pick(_TEXTS), "int32": pick(_NUMBERS), "int64": pick(_NUMBERS), "float": 1.5,
            "bool": pick((True, True, False)), "quantity": pick(_QUANTITIES),
            "time": "2026-01-02T03:04:05Z", "microTime": "2026-01-02T03:04:05.000006Z", "intOrString": 1,
            "bytes": "YQ==", "any": pick(({"a": 1}, {}, "x", 1, [1])),
        }  # fmt: skip
        return drawn[type_.kind]

    def _object(self, ref: str, depth: int) -> dict[str, Any]:
        return {
            field.name: self.value(field.type, depth + 1)
            for field in resolve(ref).fields.values()
            if field.name not in ("apiVersion", "kind")
            and self.random.random() < (0.8 if field.required else 0.3)
        }

    def change(self, body: dict[str, Any]) -> None:
        """Changes one place of ``body``: takes it away, repeats it, or puts another value there."""
        kind = find_kind(body["apiVersion"], body["kind"])
        assert kind is not None
        places = list(_places(body, TypeRef("object", "", kind.type)))
        holder, key, type_ = self.random.choice(places)
        chance = self.random.random()
        if chance < 0.15:
            holder.pop(key) if isinstance(holder, list) else holder.pop(key, None)
        elif chance < 0.3 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif chance < 0.35 and isinstance(holder, list):
            copies = [copy.deepcopy(item) for item in holder * 17]
            holder[:] = copies[:140]
        else:
            holder[key] = self.value(type_, 1)


def _places(value: Any, type_: TypeRef) -> Iterator[tuple[Any, Any, TypeRef]]:
    """(holder, key, type) of everything in ``value`` that may be changed, and of what may be added."""
    if type_.kind == "object" and type_.ref and isinstance(value, dict):
        for name, field in resolve(type_.ref).fields.items():
            if name in _SERVER_SET and "spec" in value:
                continue  # the object's own identity
            if name != "metadata" and name not in _SERVER_SET - {"name"}:
                yield value, name, field.type
            if value.get(name) is not None and name != "metadata":
                yield from _places(value[name], field.type)
    elif type_.items and isinstance(value, list | dict):
        keys = range(len(value)) if isinstance(value, list) else list(value)
        for key in keys:
            yield value, key, type_.items
            yield from _places(value[key], type_.items)


def _bases() -> tuple[tuple[str, dict[str, Any], dict[str, Any] | None], ...]:
    """(operation, object, old) of right writes to start from."""
    metadata = {"name": "inputs", "namespace": "oracle"}
    claim = {**claim_body(), "metadata": metadata}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
    allocated = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-0"}],
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": claim["spec"]},
    }
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "inputs"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
    }
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "inputs"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "k", "effect": "None"}},
    }
    device = {
        "name": "d0",
        "attributes": {"model": {"string": "H200"}},
        "capacity": {"memory": {"value": "8Gi"}},
        "taints": [{"key": "k", "effect": "NoSchedule"}],
    }
    item = slice_body(device)
    counters = slice_body(sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}])
    del counters["spec"]["devices"]
    shared = slice_body({**device, "allowMultipleAllocations": True})
    bases: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
        ("create", body, None) for body in (item, shared, counters, claim, template, device_class, rule)
    ]
    bases += [("update", body, body) for body in (item, claim, template, device_class)]
    bases.append(("update-status", {**claim, "status": allocated}, claim))
    bases.append(("update-status", {**claim, "status": allocated}, {**claim, "status": allocated}))
    return tuple(bases)


def inputs(count: int, seed: int) -> Iterator[Record]:
    """``count`` records that decode, each a right write with one to six changes."""
    drawer, bases, made = _Drawer(seed), _bases(), 0
    while made < count:
        operation, base, before = drawer.random.choice(bases)
        body, old = copy.deepcopy(base), copy.deepcopy(before)
        for _ in range(drawer.random.choice((1, 1, 2, 3, 6))):
            drawer.change(body)
        if strict_errors(body):
            continue
        record = {"name": f"inputs/{seed}-{made}", "category": body["kind"], "operation": operation}
        yield {**record, "object": body, **({"old": old} if old is not None else {})}
        made += 1


def main(arguments: list[str]) -> None:
    """Prints records; arguments: count, seed."""
    for record in inputs(int(arguments[0]), int(arguments[1])):
        print(json.dumps(record))  # noqa: T201 - the data of this tool


if __name__ == "__main__":
    main(sys.argv[1:])
