"""Filling a server from manifests and ``kubectl get -o yaml`` dumps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from baro.apiserver.registry import Registry
from baro.apiserver.status import StatusError
from baro.model.errors import InputError
from baro.model.load import Loaded, load_paths

_FIRST = ("Namespace", "Node", "DeviceClass")


def load_files(registry: Registry, paths: Sequence[str | Path]) -> int:
    """Takes every object in the files over, status and UIDs included; returns how many.

    Namespaces come first, and objects without one land in ``default``. Raises ``InputError`` with file and
    line for an object that is not served here or that the server would refuse.
    """
    loaded = sorted(load_paths(paths), key=lambda entry: entry.kind not in _FIRST)
    for entry in loaded:
        _load(registry, entry)
    return len(loaded)


def _load(registry: Registry, entry: Loaded) -> None:
    body, where = entry.body, entry.where
    served = registry.catalogue.find_kind(str(body.get("apiVersion")), str(body.get("kind")))
    if served is None:
        raise InputError(
            f"{body.get('kind') or 'an object without kind'} of {body.get('apiVersion') or 'no apiVersion'} "
            "is not served here",
            where=where,
            next_step="load only the kinds that `kubectl api-resources` lists",
        )
    metadata = body.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, dict) else None
    namespace = str(named or "default") if served.kind.namespaced else ""
    try:
        registry.restore(served, namespace, body)
    except StatusError as error:
        if error.reason == "AlreadyExists" and served.kind.kind == "Namespace":
            return  # default, kube-system and the like are there from the start
        raise InputError(error.message, where=where, next_step="mend the object") from None
