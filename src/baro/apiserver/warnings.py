"""``Warning`` headers: what a client should hear although its request was carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from baro.apiserver.catalogue import Served
from baro.model.validation.rules import parse

_DEPRECATED: Final = {
    ("resource.k8s.io", "v1beta1"): ("1.35", "1.38"),
    ("resource.k8s.io", "v1beta2"): ("1.36", "1.39"),
}
"""Group and version → deprecated in, removed in. Source: the API life cycle tags of Kubernetes 1.37."""


def deprecation(served: Served) -> str | None:
    """The warning that every request to an old version gets."""
    if served.custom is not None:
        return served.custom.warning or None
    life = _DEPRECATED.get((served.kind.group, served.kind.version))
    if life is None or parse(served.kube_version) < parse(life[0]):
        return None
    name = f"{served.kind.api_version} {served.kind.kind}"
    return f"{name} is deprecated in v{life[0]}+, unavailable in v{life[1]}+"


def headers(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """One ``Warning: 299`` header for each distinct text."""
    return tuple(("warning", f'299 - "{_escaped(text)}"') for text in dict.fromkeys(texts))


def _escaped(text: str) -> str:
    """A quoted string of HTTP: no control characters, nothing outside Latin-1."""
    plain = re.sub(r"[\x00-\x1f\x7f]", " ", text).encode("latin-1", "replace").decode("latin-1")
    return plain.replace("\\", "\\\\").replace('"', '\\"')
