"""Deletion and what follows from it: finalizers, dependents, the content of a namespace.

Two simplifications against a real cluster, both visible and meant: a pod goes at once, whatever its grace
period, since no kubelet stops it; and dependents are collected in the same call instead of in the
background, with ``Foreground`` behaving as ``Background``.
Source: ``rest.BeforeDelete``, the garbage collector and the namespace controller of Kubernetes.
"""

from __future__ import annotations

import copy
from typing import Any

from baro.apiserver.catalogue import DEFINITIONS, Served
from baro.apiserver.registry.admission import UNDELETABLE
from baro.apiserver.registry.base import Objects
from baro.apiserver.registry.fields import index
from baro.apiserver.registry.options import DeleteOptions
from baro.apiserver.registry.strategy import NAMESPACES
from baro.apiserver.status import Cause, StatusError, conflict, forbidden, invalid, not_found
from baro.apiserver.storage import Key, NoSuchKeyError, Record, ResourceKey, StaleError

Body = dict[str, Any]

_PROPAGATIONS = ("Background", "Foreground", "Orphan")


def delete(
    objects: Objects, served: Served, namespace: str, name: str, options: DeleteOptions
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
        record = objects.get(served, namespace, name)
        _check_preconditions(served, record, options)
        if options.dry_run:
            return record.body(), not _waits(served, record.body())
        try:
            return _delete_once(objects, served, record, options)
        except StaleError:
            continue
        except NoSuchKeyError:
            raise not_found(served.resource, name) from None


def _delete_once(
    objects: Objects, served: Served, record: Record, options: DeleteOptions
) -> tuple[Body, bool]:
    body = record.body()
    if options.propagation == "Orphan":
        _release_dependents(objects, record.index.uid)
    if not _waits(served, body):
        return remove(objects, record).body(), True
    if not body["metadata"].get("deletionTimestamp"):
        _mark(objects, served, body)
        record = objects.store.replace(record.key, body, index(served, body), record.revision)
    if served.key == NAMESPACES:
        empty_namespace(objects, record.key.name)
        finish_namespace(objects, record.key.name)
    elif served.key == DEFINITIONS:
        if objects.catalogue.is_defined(record.key.name):
            for instance in objects.store.listing(_defined(record.key.name)).records:
                _delete_quietly(objects, instance.key)
        finish_definition(objects, record.key.name)
    after = objects.store.get(record.key)
    return (record if after is None else after).body(), after is None


def _mark(objects: Objects, served: Served, body: Body) -> None:
    metadata = body["metadata"]
    metadata["deletionTimestamp"] = objects.now()
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


def remove(objects: Objects, record: Record) -> Record:
    """Takes the object out of the store, then its dependents, then its namespace if that waited for it."""
    last = objects.store.delete(record.key, record.revision)
    _collect_dependents(objects, record.index.uid)
    if record.key.namespace:
        finish_namespace(objects, record.key.namespace)
    if record.key.resource == DEFINITIONS:
        objects.catalogue.undefine(record.key.name)
    else:
        finish_definition(objects, f"{record.key.resource.plural}.{record.key.resource.group}")
    return last


# --- namespaces ------------------------------------------------------------------------------------------


def empty_namespace(objects: Objects, namespace: str) -> None:
    """Deletes everything in a namespace; what has finalizers stays until they go."""
    for key in objects.store.in_namespace(namespace):
        _delete_quietly(objects, key)


def finish_namespace(objects: Objects, namespace: str) -> None:
    """Removes a namespace that is being deleted, has no finalizers of its own, and is empty."""
    record = objects.store.get(Key(NAMESPACES, "", namespace))
    if record is None or objects.store.in_namespace(namespace):
        return
    metadata = record.body()["metadata"]
    if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
        remove(objects, record)


# --- definitions ------------------------------------------------------------------------------------------


def _defined(name: str) -> ResourceKey:
    """The resource that the definition ``name`` describes."""
    plural, _, group = name.partition(".")
    return ResourceKey(group, plural)


def finish_definition(objects: Objects, name: str) -> None:
    """Removes a definition that is being deleted and has neither finalizers nor objects of its kind left."""
    record = objects.store.get(Key(DEFINITIONS, "", name))
    if record is None:
        return
    metadata = record.body()["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return
    if objects.catalogue.is_defined(name) and objects.store.listing(_defined(name)).records:
        return
    remove(objects, record)


# --- owners ----------------------------------------------------------------------------------------------


def _collect_dependents(objects: Objects, uid: str) -> None:
    for key in objects.store.owned_by(uid):
        record = objects.store.get(key)
        if record is None:
            continue
        body = record.body()
        owners = body["metadata"].get("ownerReferences") or []
        left = [
            owner for owner in owners if owner.get("uid") != uid and _exists(objects, key.namespace, owner)
        ]
        if left:
            _set_owners(objects, record, left)
        else:
            _delete_quietly(objects, key)


def _release_dependents(objects: Objects, uid: str) -> None:
    for key in objects.store.owned_by(uid):
        record = objects.store.get(key)
        if record is not None:
            owners = record.body()["metadata"].get("ownerReferences") or []
            _set_owners(objects, record, [owner for owner in owners if owner.get("uid") != uid])


def _set_owners(objects: Objects, record: Record, owners: list[Body]) -> None:
    served = objects.catalogue.stored(record.key.resource)
    while True:
        body = record.body()
        if owners:
            body["metadata"]["ownerReferences"] = copy.deepcopy(owners)
        else:
            body["metadata"].pop("ownerReferences", None)
        try:
            objects.store.replace(record.key, body, index(served, body), record.revision)
            return
        except NoSuchKeyError:
            return
        except StaleError:
            current = objects.store.get(record.key)
            if current is None:
                return
            record = current


def _exists(objects: Objects, namespace: str, owner: Body) -> bool:
    served = objects.catalogue.find_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
    if served is None:
        return True  # a kind that is not served here may exist elsewhere
    place = namespace if served.kind.namespaced else ""
    record = objects.store.get(Key(served.key, place, str(owner.get("name"))))
    return record is not None and record.index.uid == owner.get("uid")


def _delete_quietly(objects: Objects, key: Key) -> None:
    try:
        delete(objects, objects.catalogue.stored(key.resource), key.namespace, key.name, DeleteOptions())
    except StatusError:
        return  # gone already
