"""What every kind shares: Struct settings, object metadata, references, conditions.

Field names are Python's; ``rename="camel"`` gives the wire name, with an explicit name where Kubernetes
spells an abbreviation in capitals. Unknown fields are ignored here: these Structs are for reading what
baro needs. Strict decoding, which reports unknown fields, works on the schema (``baro.model.schema``).
Writes go out as patches of the fields baro owns, so nothing unknown is ever lost.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

RawQuantity: TypeAlias = str | int | float
"""A quantity as it stands on the wire; ``Quantity.parse`` gives its value."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all wire types: immutable, keyword-only, camelCase, defaults left out when encoded.

    ``gc=False`` is safe since no value can refer back to its owner.
    """


class OwnerReference(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True):
    """Without ``managedFields``: they are most of many an object, and nothing here reads them."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None
    observed_generation: int = 0


class ObjectReference(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class KubeObject(Wire, frozen=True):
    """Base of top-level kinds: ``apiVersion``, ``kind``, ``metadata``."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def ref(self) -> str:
        """``Kind namespace/name`` as errors and reports print it."""
        name = self.metadata.name or f"{self.metadata.generate_name}*"
        return (
            f"{self.kind} {self.metadata.namespace}/{name}"
            if self.metadata.namespace
            else f"{self.kind} {name}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The object as the API takes it: JSON types, defaults left out, ``apiVersion`` and ``kind`` kept."""
        body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {"apiVersion": self.api_version, "kind": self.kind, **body}
