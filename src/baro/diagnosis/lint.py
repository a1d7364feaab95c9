"""Findings about claim, template and class manifests, all of them in one run, with the mended text.

The API server stops at the first thing it cannot decode and says nothing about what is silently wrong.
Here every document is looked at whole: decoding in the server's words, API version, CEL, constraints,
and whether any device would ever match. No server is asked.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.selectors import SelectorReport, inspect
from baro.model.convert import to_v1
from baro.model.decode import strict_errors
from baro.model.errors import Where
from baro.model.findings import Finding, finding
from baro.model.load import Loaded
from baro.model.names import TOPOLOGY_ANNOTATION

GROUP: Final = "resource.k8s.io"
CLAIM_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate")
GONE: Final = {"v1beta1": ("1.35", "1.38"), "v1beta2": ("1.36", "1.39")}
"""Version → (deprecated since, not served from)."""


class LintResult(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of one document, and the document as it should be (``None`` when nothing is to mend)."""

    findings: tuple[Finding, ...] = ()
    mended: dict[str, Any] | None = None


def lint(document: Loaded, catalogue: Catalogue, *, kube_version: str = "1.37") -> LintResult:
    """All findings of one document. Kinds other than DRA's give decoding findings only."""
    findings = [*_decoding(document, kube_version), *_api_version(document)]
    group, _, version = str(document.body.get("apiVersion", "")).rpartition("/")
    if group != GROUP or version not in ("v1", *GONE):
        return LintResult(findings=tuple(findings))
    mended = copy.deepcopy(to_v1(document.body))
    flat = version == "v1beta1"
    for path, holder in _selectors(mended):
        where = _where(document, path, flat=flat)
        report = inspect(str(holder.get("expression", "")), catalogue)
        findings += _selector_findings(report, where)
        if report.mended is not None:
            holder["expression"] = report.mended
    if mended.get("kind") in CLAIM_KINDS:
        findings += _constraints(document, mended, catalogue, flat=flat)
    changed = version != "v1" or mended != document.body
    return LintResult(findings=tuple(findings), mended=mended if changed else None)


def _where(document: Loaded, path: str, *, flat: bool) -> Where:
    """The place of a v1 field path in the file, which may be written in the flat v1beta1 shape."""
    return document.where_of(path.replace(".exactly", "") if flat else path)


def _decoding(document: Loaded, kube_version: str) -> Iterator[Finding]:
    for error in strict_errors(document.body, kube_version=kube_version):
        yield finding("manifest-decoding", error.message, _where(document, error.path, flat=False))


def _api_version(document: Loaded) -> Iterator[Finding]:
    group, _, version = str(document.body.get("apiVersion", "")).rpartition("/")
    if group == GROUP and version in GONE:
        since, gone = GONE[version]
        move = "; in v1 the fields of a request stand below `exactly`" if version == "v1beta1" else ""
        message = f"{GROUP}/{version} is deprecated since Kubernetes {since} and gone in {gone}{move}"
        yield finding("deprecated-api-version", message, _where(document, "apiVersion", flat=False))


def _selector_findings(report: SelectorReport, where: Where) -> Iterator[Finding]:
    for code, message in report.problems:
        yield finding(code, message, where, replacement=report.mended)


# --- walking v1 bodies -----------------------------------------------------------------------------------


def _claim_spec(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Path and body of ``devices`` in a claim or a template; empty when it has none."""
    spec, path = body.get("spec"), "spec"
    if body.get("kind") == "ResourceClaimTemplate" and isinstance(spec, dict):
        spec, path = spec.get("spec"), "spec.spec"
    devices = spec.get("devices") if isinstance(spec, dict) else None
    return f"{path}.devices", devices if isinstance(devices, dict) else {}


def _dicts(parent: Any, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    items = parent.get(key) if isinstance(parent, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield index, item


def _selectors(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(field path of the expression, the ``cel`` object that holds it) of every selector."""
    if body.get("kind") == "DeviceClass":
        yield from _cel("spec", body.get("spec"))
        return
    if body.get("kind") not in CLAIM_KINDS:
        return
    base, devices = _claim_spec(body)
    for index, request in _dicts(devices, "requests"):
        path = f"{base}.requests[{index}]"
        yield from _cel(f"{path}.exactly", request.get("exactly"))
        for sub_index, sub_request in _dicts(request, "firstAvailable"):
            yield from _cel(f"{path}.firstAvailable[{sub_index}]", sub_request)


def _cel(path: str, holder: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, selector in _dicts(holder, "selectors"):
        cel = selector.get("cel")
        if isinstance(cel, dict):
            yield f"{path}.selectors[{index}].cel.expression", cel


# --- constraints -----------------------------------------------------------------------------------------


def _constraints(
    document: Loaded, mended: dict[str, Any], catalogue: Catalogue, *, flat: bool
) -> Iterable[Finding]:
    """Constraints on attributes that nobody publishes; such a constraint is taken out of the mended text.

    What it was meant to say, "all on one island", is then said by the annotation that baro's planner reads.
    """
    base, devices = _claim_spec(mended)
    published = catalogue.attribute_names()
    findings: list[Finding] = []
    kept: list[Any] = []
    for index, constraint in _dicts(devices, "constraints"):
        key = next((name for name in ("matchAttribute", "distinctAttribute") if name in constraint), None)
        attribute = str(constraint.get(key, "")) if key else ""
        domain = attribute.rpartition("/")[0]
        if key is None or attribute in published or not catalogue.knows_domain(domain):
            kept.append(constraint)
            continue
        message = (
            f"{catalogue.title} publishes no attribute {attribute}: the constraint is never met,"
            " not even by one device"
        )
        where = _where(document, f"{base}.constraints[{index}].{key}", flat=flat)
        findings.append(finding("unknown-constraint-attribute", message, where))
        if re.search("nvlink|island|clique", attribute, re.IGNORECASE):
            _annotate(mended, TOPOLOGY_ANNOTATION, "required")
    if findings:
        if kept:
            devices["constraints"] = kept
        else:
            devices.pop("constraints", None)
    return findings


def _annotate(body: dict[str, Any], key: str, value: str) -> None:
    """Set an annotation on the claim; on a template, on the claims that will be made from it."""
    holder = body["spec"] if body.get("kind") == "ResourceClaimTemplate" else body
    metadata = holder.setdefault("metadata", {})
    metadata.setdefault("annotations", {})[key] = value
