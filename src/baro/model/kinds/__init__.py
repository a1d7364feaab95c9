"""Kubernetes kinds as frozen Structs, one module per API group."""

from baro.model.kinds.base import (
    Condition,
    KubeObject,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    RawQuantity,
    Wire,
)

__all__ = [
    "Condition",
    "KubeObject",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "RawQuantity",
    "Wire",
]
