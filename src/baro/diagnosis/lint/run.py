"""What a run of lint knows: the target, what devices publish, and all documents together.

Rules ask here for classes, claims and namespaces by name. Whatever is not in the documents may exist in the
cluster all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from baro.cel.environment import EnvironmentName
from baro.diagnosis.catalogue import Catalogue, built_in, of_class
from baro.diagnosis.lint.ignores import Ignores, ignores
from baro.diagnosis.lint.manifest import CLAIM_KINDS, Manifest, Request, mapping, selectors, text
from baro.diagnosis.lint.places import Places
from baro.diagnosis.lint.selectors import SelectorReport
from baro.model.decode import StrictError
from baro.model.edits import Edit
from baro.model.errors import Where
from baro.model.findings import Finding
from baro.model.names import SELECTOR_ANNOTATION
from baro.model.validation import Verdict
from baro.model.validation.rules import DEFAULT_KUBE_VERSION, default_gates, known_gates


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The Kubernetes version to judge for. ``kube_version`` None: no particular one, 1.37's rules."""

    kube_version: str | None = None
    gates: frozenset[str] | None = None
    """The gates that are on; None: the defaults of the version."""

    @property
    def version(self) -> str:
        return self.kube_version or DEFAULT_KUBE_VERSION

    @property
    def on(self) -> frozenset[str]:
        return default_gates(self.version) if self.gates is None else self.gates

    @property
    def known(self) -> tuple[str, ...]:
        return known_gates(self.version)

    @property
    def environment(self) -> EnvironmentName:
        """How the API server of the target compiles a new selector."""
        return "stored" if "DRAListTypeAttributes" in self.on else "admission"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with what mends it, and the server's own words where the server would speak."""

    finding: Finding
    edits: tuple[Edit, ...] = ()
    server: str = ""


class Opinion(msgspec.Struct, frozen=True):
    """What the API server thinks of a document: how it decodes, and its verdict on what decodes."""

    errors: tuple[StrictError, ...]
    verdict: Verdict


class Run:
    """All documents of one run, and the yardsticks."""

    def __init__(
        self,
        manifests: Sequence[Manifest],
        catalogue: Catalogue | None = None,
        target: Target | None = None,
        *,
        silenced: frozenset[str] = frozenset(),
    ) -> None:
        self.manifests = manifests
        self.catalogue = catalogue or built_in()
        self.target = target or Target()
        self.places = Places()
        self.silenced = silenced
        self._ignores: dict[int, Ignores] = {}
        self.reports: dict[tuple[str, int, frozenset[str]], SelectorReport] = {}
        """Selector, yardstick and silent codes → what was found: many documents have the same selectors."""
        self.opinions: dict[int, Opinion] = {}
        """By ``id`` of the manifest."""
        self.said: dict[str, tuple[str, ...]] = {}
        """Selector → what the API server has against it."""
        self._classes: dict[str, Catalogue | None] = {}
        self._parts: dict[tuple[str, ...], Catalogue] = {}

    def ignored(self, manifest: Manifest, path: str | Where) -> frozenset[str]:
        """The codes that are silent at a path of ``v1``, or at a place: by comment, or in the whole run."""
        source = manifest.document.source
        if source is None:
            return self.silenced
        key = id(source.text)
        if key not in self._ignores:
            self._ignores[key] = ignores(source.text)
        found = self._ignores[key]
        if not found.file and not found.lines:
            return self.silenced
        line = (manifest.where(path) if isinstance(path, str) else path).line
        return self.silenced | found.at(line, manifest.document.where.line)

    @cached_property
    def pools(self) -> dict[tuple[str, str], list[Manifest]]:
        """(driver, pool) → its slices."""
        found: dict[tuple[str, str], list[Manifest]] = {}
        for one in self.of_kind("ResourceSlice"):
            spec = mapping(one.v1, "spec")
            found.setdefault((text(spec, "driver"), text(mapping(spec, "pool"), "name")), []).append(one)
        return found

    def of_kind(self, *kinds: str) -> Iterable[Manifest]:
        return (manifest for manifest in self.manifests if manifest.kind in kinds)

    @cached_property
    def classes(self) -> dict[str, Manifest]:
        return {manifest.name: manifest for manifest in self.of_kind("DeviceClass") if manifest.dra}

    @cached_property
    def claims(self) -> dict[tuple[str, str, str], Manifest]:
        """(kind, namespace, name) → claim or template. An empty namespace fits any."""
        return {
            (one.kind, one.namespace, one.name): one
            for one in self.of_kind(*CLAIM_KINDS)
            if one.dra and one.name
        }

    @cached_property
    def made_templates(self) -> frozenset[str]:
        """Templates that other objects of the documents make, such as NVIDIA's ComputeDomain."""
        made = (
            mapping(one.body, "spec", "channel", "resourceClaimTemplate")
            for one in self.of_kind("ComputeDomain")
        )
        return frozenset(name for one in made if (name := text(one, "name")))

    @cached_property
    def named_elsewhere(self) -> frozenset[str]:
        """Claims and templates that kinds which are left alone name: operators' kinds, groups of pods."""
        return frozenset(
            name
            for one in self.manifests
            if one.pod_path is None and not one.dra
            for name in claim_names(one.body)
        )

    def claim(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """The claim or template of that name, if it is in the documents."""
        found = self.claims.get((kind, namespace, name)) or self.claims.get((kind, "", name))
        if found is None and not namespace:
            named = [one for (k, _, n), one in self.claims.items() if (k, n) == (kind, name)]
            found = named[0] if len(named) == 1 else None
        return found

    @cached_property
    def namespace_labels(self) -> dict[str, dict[str, str]]:
        return {
            one.name: {str(k): str(v) for k, v in mapping(one.body, "metadata", "labels").items()}
            for one in self.of_kind("Namespace")
            if not one.group
        }

    def yardstick(self, request: Request) -> Catalogue | None:
        """The devices that the request's class lets through; None when nothing is known of the class."""
        name = request.class_name
        if name not in self._classes:
            self._classes[name] = self._of_class(name)
        return self._classes[name]

    def only(self, drivers: tuple[str, ...]) -> Catalogue:
        """The part of the catalogue about these drivers."""
        if drivers not in self._parts:
            self._parts[drivers] = self.catalogue.only(drivers)
        return self._parts[drivers]

    def _of_class(self, name: str) -> Catalogue | None:
        manifest = self.classes.get(name)
        return of_class(self.catalogue, name, None if manifest is None else class_expressions(manifest))


def claim_names(body: Any) -> Iterator[str]:
    """Every claim or template that is named anywhere in a document, as pods name them."""
    stack: list[Any] = [body]
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            for key in ("resourceClaimName", "resourceClaimTemplateName"):
                if isinstance(found.get(key), str):
                    yield found[key]
            stack += found.values()
        elif isinstance(found, list):
            stack += found


def class_expressions(manifest: Manifest) -> tuple[str, ...]:
    """The selectors of a DeviceClass as baro reads them: an exclusive class has the real one in an
    annotation."""
    hidden = text(mapping(manifest.body, "metadata", "annotations"), SELECTOR_ANNOTATION)
    if hidden:
        return (hidden,)
    return tuple(expression for _, expression in selectors(mapping(manifest.body, "spec"), "spec"))
