"""Deletion and what follows from it: finalizers, dependents, the content of a namespace.

Two simplifications against a real cluster, both visible and meant: a pod goes at once, whatever its grace
period, since no kubelet stops it; and dependents are collected in the same call instead of in the
background, with ``Foreground`` behaving as ``Background``.
Source: ``rest.BeforeDelete``, the garbage collector and the namespace controller of Kubernetes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from baro.apiserver.catalogue import DEFINITIONS, Served
from baro.apiserver.registry.admission import UNDELETABLE
from baro.apiserver.registry.fields import index
from baro.apiserver.registry.options import DeleteOptions
from baro.apiserver.registry.strategy import NAMESPACES
from baro.apiserver.status import Cause, StatusError, conflict, forbidden, invalid, not_found
from baro.apiserver.storage import Key, NoSuchKeyError, Record, ResourceKey, StaleError

if TYPE_CHECKING:
    from baro.apiserver.registry.registry import Registry

Body = dict[str, Any]

_PROPAGATIONS = ("Background", "Foreground", "Orphan")


def delete(
    registry: Registry, served: Served, namespace: str, name: str, options: DeleteOptions
) -> tuple[Body, bool]:
    """The last state in its stored form, and whether the object is gone. Raises 403, 404, 409, 422."""
    if options.propagation not in _PROPAGATIONS:
        known = ", ".join(f'"{name}"' for name in _PROPAGATIONS)
        message = f'Unsupported value: "{options.propagation}": supported values: {known}'
        cause = Cause("FieldValueNotSupported", "propagationPolicy", message)
        raise invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    if served.key == NAMESPACES and name in UNDELETABLE:
        raise forbidden(served.resource, name, "this namespace may not be deleted")
    while True:
        record = registry.get(served, namespace, name)
        _check_preconditions(served, record, options)
        if options.dry_run:
            return record.body(), not _waits(served, record.body())
        try:
            return _delete_once(registry, served, record, options)
        except StaleError:
            continue
        except NoSuchKeyError:
            raise not_found(served.resource, name) from None


def _delete_once(
    registry: Registry, served: Served, record: Record, options: DeleteOptions
) -> tuple[Body, bool]:
    body = record.body()
    if options.propagation == "Orphan":
        _release_dependents(registry, record.index.uid)
    if not _waits(served, body):
        return remove(registry, record).body(), True
    if not body["metadata"].get("deletionTimestamp"):
        _mark(registry, served, body)
        record = registry.store.replace(record.key, body, index(served, body), record.revision)
    if served.key == NAMESPACES:
        empty_namespace(registry, record.key.name)
        finish_namespace(registry, record.key.name)
    elif served.key == DEFINITIONS:
        if registry.catalogue.is_defined(record.key.name):
            for instance in registry.store.listing(_defined(record.key.name)).records:
                _delete_quietly(registry, instance.key)
        finish_definition(registry, record.key.name)
    after = registry.store.get(record.key)
    return (record if after is None else after).body(), after is None


def _mark(registry: Registry, served: Served, body: Body) -> None:
    metadata = body["metadata"]
    metadata["deletionTimestamp"] = registry.now()
    if served.key == NAMESPACES:
        body["status"] = {"phase": "Terminating"}
        return
    metadata["deletionGracePeriodSeconds"] = 0
    if metadata.get("generation"):
        metadata["generation"] += 1


def _check_preconditions(served: Served, record: Record, options: DeleteOptions) -> None:
    name, why = record.key.name, ""
    if options.uid and options.uid != record.index.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({record.index.uid}). The object might have been deleted and then recreated"
        )
    elif options.resource_version and options.resource_version != str(record.revision):
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({record.revision}). The object might have been modified"
        )
    if why:
        raise conflict(served.resource, name, why)


def _waits(served: Served, body: Body) -> bool:
    """Whether something must happen before the object may go."""
    return served.key in (NAMESPACES, DEFINITIONS) or bool(body["metadata"].get("finalizers"))


def is_finished(served: Served, body: Body) -> bool:
    """Whether an update took the last thing that a deletion waited for.

    A namespace whose ``spec.finalizers`` were taken by hand goes with its content left behind, as it does on
    a real server.
    """
    metadata = body["metadata"]
    if served.key == NAMESPACES and (body.get("spec") or {}).get("finalizers"):
        return False
    if served.key == DEFINITIONS:
        return False  # finish_definition looks for objects of its kind first
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("finalizers")


def remove(registry: Registry, record: Record) -> Record:
    """Takes the object out of the store, then its dependents, then its namespace if that waited for it."""
    last = registry.store.delete(record.key, record.revision)
    _collect_dependents(registry, record.index.uid)
    if record.key.namespace:
        finish_namespace(registry, record.key.namespace)
    if record.key.resource == DEFINITIONS:
        registry.catalogue.undefine(record.key.name)
    else:
        finish_definition(registry, f"{record.key.resource.plural}.{record.key.resource.group}")
    return last


# --- namespaces ------------------------------------------------------------------------------------------


def empty_namespace(registry: Registry, namespace: str) -> None:
    """Deletes everything in a namespace; what has finalizers stays until they go."""
    for key in registry.store.in_namespace(namespace):
        _delete_quietly(registry, key)


def finish_namespace(registry: Registry, namespace: str) -> None:
    """Removes a namespace that is being deleted, has no finalizers of its own, and is empty."""
    record = registry.store.get(Key(NAMESPACES, "", namespace))
    if record is None or registry.store.in_namespace(namespace):
        return
    metadata = record.body()["metadata"]
    if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
        remove(registry, record)


# --- definitions ------------------------------------------------------------------------------------------


def _defined(name: str) -> ResourceKey:
    """The resource that the definition ``name`` describes."""
    plural, _, group = name.partition(".")
    return ResourceKey(group, plural)


def finish_definition(registry: Registry, name: str) -> None:
    """Removes a definition that is being deleted and has neither finalizers nor objects of its kind left."""
    record = registry.store.get(Key(DEFINITIONS, "", name))
    if record is None:
        return
    metadata = record.body()["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return
    if registry.catalogue.is_defined(name) and registry.store.listing(_defined(name)).records:
        return
    remove(registry, record)


# --- owners ----------------------------------------------------------------------------------------------


def _collect_dependents(registry: Registry, uid: str) -> None:
    for key in registry.store.owned_by(uid):
        record = registry.store.get(key)
        if record is None:
            continue
        body = record.body()
        owners = body["metadata"].get("ownerReferences") or []
        left = [
            owner for owner in owners if owner.get("uid") != uid and _exists(registry, key.namespace, owner)
        ]
        if left:
            _set_owners(registry, record, left)
        else:
            _delete_quietly(registry, key)


def _release_dependents(registry: Registry, uid: str) -> None:
    for key in registry.store.owned_by(uid):
        record = registry.store.get(key)
        if record is not None:
            owners = record.body()["metadata"].get("ownerReferences") or []
            _set_owners(registry, record, [owner for owner in owners if owner.get("uid") != uid])


def _set_owners(registry: Registry, record: Record, owners: list[Body]) -> None:
    served = registry.catalogue.stored(record.key.resource)
    while True:
        body = record.body()
        if owners:
            body["metadata"]["ownerReferences"] = copy.deepcopy(owners)
        else:
            body["metadata"].pop("ownerReferences", None)
        try:
            registry.store.replace(record.key, body, index(served, body), record.revision)
            return
        except NoSuchKeyError:
            return
        except StaleError:
            current = registry.store.get(record.key)
            if current is None:
                return
            record = current


def _exists(registry: Registry, namespace: str, owner: Body) -> bool:
    served = registry.catalogue.find_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
    if served is None:
        return True  # a kind that is not served here may exist elsewhere
    place = namespace if served.kind.namespaced else ""
    record = registry.store.get(Key(served.key, place, str(owner.get("name"))))
    return record is not None and record.index.uid == owner.get("uid")


def _delete_quietly(registry: Registry, key: Key) -> None:
    try:
        delete(registry, registry.catalogue.stored(key.resource), key.namespace, key.name, DeleteOptions())
    except StatusError:
        return  # gone already
