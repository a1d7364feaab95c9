"""New inputs for the recorder: right writes, changed a little or a lot, as JSON lines.

``python -m tests.support.oracle_inputs COUNT SEED [--decoding SHARE] [--kinds dra|other|all]`` prints records
without answers (``name``, ``category``, ``operation``, ``object`` or ``raw`` with its ``path``, for updates
``old``): what ``baro conformance validate`` reads and what a recorder sends to a real server. The same
arguments give the same records. Where the writes start is in ``oracle_bases``, what is put into them in
``oracle_values``. Objects of ``resource.k8s.io`` come in all three versions.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from baro.model.convert import convert
from baro.model.decode import strict_errors
from baro.model.schema import Field, TypeRef, find_kind, resolve
from tests.support import oracle_values as values
from tests.support.oracle_bases import Base, bases

Record = dict[str, Any]

V1: Final = ("v1",)
VERSIONS: Final = ("v1", "v1", "v1beta2", "v1beta1")
"""Of resource.k8s.io, as often as they should come."""
DECODING: Final = 0.15
"""Share of the records that get a fault of form: wrong type, unknown or doubled field, broken text."""
_GROUP: Final = "resource.k8s.io/"
_DOUBLE: Final = "\0double:"
"""Before the second name of a field that comes twice; it goes when the text is written."""
_SERVER_SET: Final = frozenset({
    "apiVersion", "kind", "namespace", "uid", "resourceVersion", "selfLink", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
})  # fmt: skip
_METADATA: Final = frozenset({
    "labels", "annotations", "ownerReferences", "finalizers", "managedFields", "generateName",
})  # fmt: skip
"""What all kinds share, and which would crowd out the rest."""
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "PodSpec": "containers initContainers nodeSelector nodeName affinity tolerations schedulingGates "
        "resourceClaims activeDeadlineSeconds",
        "Container": "name image resources", "ResourceRequirements": "claims", "Affinity": "nodeAffinity",
        "PodStatus": "conditions nominatedNodeName resourceClaimStatuses",
        "NodeStatus": "capacity allocatable",
        "NodeSpec": "taints providerID unschedulable", "NamespaceSpec": "", "NamespaceStatus": "",
        "ServiceAccount": "metadata", "Event": "metadata involvedObject reason message type count source",
        "ConfigMap": "metadata data immutable",
    }.items()
}  # fmt: skip
"""Type → the parts of it that validation knows, where that is not all: others are left alone."""


class Place(NamedTuple):
    """Where a value is, or could be: in ``holder`` under ``key``; ``field`` is the field's JSON name."""

    holder: Any
    key: Any
    type: TypeRef
    field: str


class Drawer:
    """Draws values of the schema's types, and changes objects."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - inputs, not secrets

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def value(self, type_: TypeRef, field: str = "", depth: int = 0) -> Any:
        pick = self.random.choice
        if type_.kind == "object" and type_.ref:
            return {} if depth > 3 else self._object(type_.ref, depth)
        if type_.kind == "array" and type_.items:
            lengths = values.LENGTHS if depth < 2 and self.chance(0.3) else values.SHORT_LENGTHS
            return [self.value(type_.items, field, depth + 1) for _ in range(pick(lengths))]
        if type_.kind == "map" and type_.items:
            keys, many = values.KEYS.get(field, values.ATTRIBUTES), pick(values.SHORT_LENGTHS)
            found = {pick(keys): self.value(type_.items, field, depth + 1) for _ in range(many)}
            for index in range(pick((8, 31, 32, 33, 48, 49)) if self.chance(0.05) else 0):
                found[f"k{index}"] = self.value(type_.items, field, depth + 1)
            return found
        if type_.kind == "quantity":
            return pick(values.QUANTITIES)
        pool = values.BY_FIELD.get(field)
        if pool is not None and type_.kind == "string":
            return pick(pool)
        return self._scalar(type_.kind)

    def _scalar(self, kind: str) -> Any:
        pools: dict[str, Sequence[Any]] = {
            "string": values.NAMES, "int32": values.NUMBERS, "int64": values.LONG_NUMBERS, "float": (1.5, 0),
            "bool": (True, True, False), "time": values.TIMES, "intOrString": (1, "x"),
            "microTime": ("2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:05Z", None),
            "bytes": ("YQ==", ""), "any": values.DOCUMENTS, "object": ({},),
        }  # fmt: skip
        return copy.deepcopy(self.random.choice(pools[kind]))

    def _object(self, ref: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in _fields(ref):
            if field.name in _SERVER_SET - {"apiVersion", "kind", "uid"}:
                continue
            if self.chance(0.8 if field.required else 0.3):
                found[field.name] = self.value(field.type, field.name, depth + 1)
        return found

    def change(self, body: dict[str, Any]) -> None:
        """Changes one place of ``body``: takes it away, repeats it, or puts another value there."""
        place = self._place(body)
        holder, key = place.holder, place.key
        chance = self.random.random()
        if chance < 0.12:
            holder.pop(key) if isinstance(holder, list) else holder.pop(key, None)
        elif chance < 0.24 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif chance < 0.3 and isinstance(holder, list):
            self._lengthen(holder)
        elif chance < 0.34 and isinstance(holder, list):
            self.random.shuffle(holder)
        else:
            holder[key] = self.value(place.type, place.field, 1)

    def _place(self, body: dict[str, Any]) -> Place:
        """Deep places are many: half of the time a small part of the object is chosen first."""
        found = list(_places(body))
        if self.chance(0.8):
            found = [place for place in found if place.field not in _METADATA] or found
        field = self.random.choice(sorted({place.field for place in found}))
        chosen = [place for place in found if place.field == field] if self.chance(0.5) else found
        return self.random.choice(chosen)

    def _lengthen(self, holder: list[Any]) -> None:
        """Copies of the items up to a limit or over it, with names of their own most of the time."""
        wanted, named = self.random.choice(values.LENGTHS), self.chance(0.7)
        for index in range(len(holder), wanted):
            item = copy.deepcopy(holder[index % len(holder)])
            if named and isinstance(item, dict) and "name" in item:
                item["name"] = f"n{index}"
            holder.append(item)

    # --- faults of form ------------------------------------------------------------------------------------

    def spoil(self, body: dict[str, Any]) -> None:
        """One fault that decoding finds, or should not mind: see ``values``."""
        if not list(_places(body)):
            return
        place = self._place(body)
        holders = [each for each in _objects(body) if each]
        holder = self.random.choice(holders)
        name = self.random.choice(sorted(holder))
        chance = self.random.random()
        if chance < 0.3:
            place.holder[place.key] = copy.deepcopy(self.random.choice(values.WRONG_TYPES))
        elif chance < 0.4 and place.type.kind in ("quantity", "time", "microTime"):
            quantity = place.type.kind == "quantity"
            pool = values.UNREADABLE_QUANTITIES if quantity else values.UNREADABLE_TIMES
            place.holder[place.key] = copy.deepcopy(self.random.choice(pool))
        elif chance < 0.5:
            place.holder[place.key] = None
        elif chance < 0.7:
            holder[self.random.choice(values.UNKNOWN)] = self.random.choice((1, "x", {}, None, {"a": [1]}))
        elif chance < 0.85:
            twisted = self.random.choice((name.upper(), name.capitalize(), name.lower(), f"{name} "))
            holder[twisted] = holder.pop(name) if self.chance(0.5) else holder[name]
        else:
            again = holder[name] if self.chance(0.7) else self.random.choice((None, 1, "x", {}))
            holder[_DOUBLE + name] = copy.deepcopy(again)

    def break_text(self, text: str) -> str:
        """JSON text that is none any more."""
        at = self.random.randrange(len(text))
        return self.random.choice((
            text[:at], text + self.random.choice(("}", "x", " ", "\n", "{}")), text[:at] + "\0" + text[at:],
            text[:at] + text[at + 1 :], text[:at] + self.random.choice('"{}[],:\\') + text[at:],
            "[" + text + "]", text.replace(":", ";", 1), text.replace('"', "'"), "", " ", "null", "1",
        ))  # fmt: skip


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(item)


def _places(body: dict[str, Any]) -> Iterator[Place]:
    kind = find_kind(str(body.get("apiVersion")), str(body.get("kind")))
    if kind is None:
        return  # spoilt already
    yield from _walk(body, TypeRef("object", "", kind.type), "", ())


def _fields(ref: str) -> list[Field]:
    shape = resolve(ref)
    only = _PARTS.get(shape.name)
    return [field for field in shape.fields.values() if only is None or field.name in only]


def _walk(value: Any, type_: TypeRef, field: str, above: tuple[str, ...]) -> Iterator[Place]:
    """Everything in ``value`` that may be changed, and what may be added."""
    if type_.kind == "object" and type_.ref and isinstance(value, dict):
        for declared in _fields(type_.ref):
            name = declared.name
            own = not above or above == ("metadata",)  # the object's own identity stays
            if own and name in _SERVER_SET | {"name"}:
                continue
            if above:
                yield Place(value, name, declared.type, name)
            if value.get(name) is not None:
                yield from _walk(value[name], declared.type, name, (*above, name))
    elif type_.items and isinstance(value, list | dict):
        for key in range(len(value)) if isinstance(value, list) else list(value):
            yield Place(value, key, type_.items, field)
            yield from _walk(value[key], type_.items, field, (*above, field))


# --- records ---------------------------------------------------------------------------------------------


def inputs(
    count: int, seed: int, decoding: float = 0.0, kinds: str = "dra", versions: Sequence[str] = V1
) -> Iterator[Record]:
    """``count`` records, each a right write with up to eight changes; ``decoding`` of them do not decode.

    ``kinds``: ``dra`` for those of ``resource.k8s.io``, ``other`` for the rest, ``all``. ``versions`` are
    those of ``resource.k8s.io`` to write in.
    """
    drawer = Drawer(seed)
    chosen = [base for base in bases() if kinds == "all" or _is_dra(base[1]) == (kinds == "dra")]
    made = 0
    while made < count:
        base, version = drawer.random.choice(chosen), drawer.random.choice(versions)
        record = _drawn(drawer, base, version, spoilt=drawer.chance(decoding))
        if record is not None:
            yield {"name": f"inputs/{seed}-{made}", **record}
            made += 1


def _is_dra(body: Record) -> bool:
    return str(body["apiVersion"]).startswith(_GROUP)


def _drawn(drawer: Drawer, base: Base, version: str, *, spoilt: bool) -> Record | None:
    operation, body, old = copy.deepcopy(base)
    if _is_dra(body) and body["kind"] != "DeviceTaintRule":
        body, old = convert(body, _GROUP + version), old and convert(old, _GROUP + version)
    for _ in range(drawer.random.choice((0, 1, 1, 2, 3, 5, 8)) if spoilt else drawer.random.choice(
        (1, 1, 1, 2, 2, 3, 5, 8))):  # fmt: skip
        drawer.change(body)
    if any(error.trouble in ("value", "type") for error in strict_errors(body)):
        return None  # a change that was meant to decode
    record: Record = {"category": body["kind"], "operation": operation}
    path = collection(body)
    for _ in range(drawer.random.choice((1, 1, 1, 2, 4)) if spoilt else 0):
        drawer.spoil(body)
    if not spoilt:
        record["object"] = body
    else:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        text = text.replace(json.dumps(_DOUBLE)[1:-1], "")
        broken = operation == "create" and drawer.chance(0.1)
        record |= {"raw": drawer.break_text(text) if broken else text, "path": path}
    return {**record, **({"old": old} if old is not None else {})}


def collection(body: Record) -> str:
    """The URL path that ``body`` is created at."""
    kind = find_kind(body["apiVersion"], body["kind"])
    assert kind is not None
    scope = f"/namespaces/{body['metadata']['namespace']}" if kind.namespaced else ""
    return f"/{'apis' if kind.group else 'api'}/{kind.api_version}{scope}/{kind.plural}"


def main() -> None:
    """Prints records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--decoding", type=float, default=DECODING)
    parser.add_argument("--kinds", choices=("dra", "other", "all"), default="dra")
    given = parser.parse_args()
    for record in inputs(given.count, given.seed, given.decoding, given.kinds, VERSIONS):
        print(json.dumps(record))  # noqa: T201 - the data of this tool


if __name__ == "__main__":
    main()
