"""Manifests that are still templates: ``{{ … }}`` where a name, a class or an expression must stand.

A template whose braces are quoted is YAML that decodes, so reading it does not tell. Braces in commands,
environments, annotations and parameters of drivers are no business of ours: programs have templates too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from baro.diagnosis.lint.manifest import Manifest, items, mapping
from baro.diagnosis.lint.registry import note
from baro.diagnosis.lint.run import Note

_BRACES = re.compile(r"\{\{.*?\}\}|\{\{")
_LEFT_ALONE = frozenset({"annotations", "labels", "parameters", "opaque"})


def unrendered(manifest: Manifest) -> Note | None:
    """One finding for the first place that is not rendered; None for manifests, and for kinds left alone."""
    places: Iterator[tuple[str, str]] = iter(())
    if manifest.dra:
        places = _texts(manifest.body, "")
    elif manifest.pod_path is not None:
        places = _of_pods(manifest)
    for path, value in places:
        found = _BRACES.search(value)
        if found is not None:
            message = f"{path} holds {found[0]}: this is a template that is not rendered"
            return note("manifest-template", message, manifest.document.where_of(path))
    return None


def _of_pods(manifest: Manifest) -> Iterator[tuple[str, str]]:
    metadata = mapping(manifest.body, "metadata")
    for field in ("name", "namespace"):
        yield from _texts(metadata.get(field), f"metadata.{field}")
    for index, entry in items(manifest.pod_spec, "resourceClaims"):
        yield from _texts(entry, f"{manifest.pod_path}.resourceClaims[{index}]")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """(path, text) of all texts below a value that somebody reads here."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _LEFT_ALONE:
                yield from _texts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
