"""Rules for the part of a pod that concerns claims. The rest of a pod is not validated here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baro.model.validation.causes import Problems
from baro.model.validation.metadata import check_metadata
from baro.model.validation.names import dns_label, dns_subdomain


def check_pod(problems: Problems, body: Mapping[str, Any]) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    spec = body.get("spec", {})
    names: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims", ())):
        _check_pod_claim(problems, claim, f"spec.resourceClaims[{index}]", names)
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field, ())):
            used = container.get("resources", {}).get("claims", ())
            _check_container_claims(problems, used, f"spec.{field}[{index}].resources.claims", names)


def _check_pod_claim(problems: Problems, claim: Mapping[str, Any], path: str, names: set[str]) -> None:
    """One entry of ``spec.resourceClaims``; adds its name to ``names``."""
    name = claim.get("name", "")
    if not name:
        problems.required(f"{path}.name")
    elif name in names:
        problems.duplicate(f"{path}.name", name)
    else:
        problems.invalid(f"{path}.name", name, *dns_label(name))
        names.add(name)
    direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
    internal = {"Name": name, "ResourceClaimName": direct, "ResourceClaimTemplateName": template}
    if direct is not None and template is not None:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        problems.invalid(path, internal, text)
    if direct is None and template is None:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        problems.invalid(path, internal, text)
    for field, value in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
        if value is not None:
            problems.invalid(f"{path}.{field}", value, *dns_subdomain(value))


def _check_container_claims(
    problems: Problems, claims: Sequence[Mapping[str, Any]], path: str, names: set[str]
) -> None:
    """What a container uses: names from ``spec.resourceClaims``, nothing twice."""
    seen: list[tuple[str, str]] = []
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            problems.required(place)
            continue
        if request:
            problems.invalid(f"{place}.request", request, *dns_label(request))
        overlaps = any(n == name and (not r or not request or r == request) for n, r in seen)
        if overlaps:
            problems.duplicate(place, f"{name}/{request}" if (name, request) in seen and request else name)
        seen.append((name, request))
        if name not in names:
            listed = f": {', '.join(sorted(names))}" if names else " which is empty"
            problems.not_found(place, name, f"must be one of the names in pod.spec.resourceClaims{listed}")
