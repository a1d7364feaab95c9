"""Rules for ResourceClaim, ResourceClaimTemplate, DeviceClass and DeviceTaintRule as a whole.

What a claim asks for is in ``claim_spec``, what its status may hold in ``claim_status``. Source:
``pkg/apis/resource/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.claim_spec import (
    MAX_REQUESTS,
    CheckCel,
    check_claim_spec,
    check_opaque,
    check_selectors,
)
from baro.model.validation.device import check_taint
from baro.model.validation.goview import internal, same, versioned
from baro.model.validation.metadata import check_metadata, check_template_metadata
from baro.model.validation.names import (
    check_driver,
    check_pool,
    dns_label,
    dns_subdomain,
    extended_resource,
)

ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"

_NO_ADMIN: Final = (
    f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
)
Labels = Mapping[str, str]
"""Labels of a namespace."""


def check_resource_claim(
    problems: Problems, body: Mapping[str, Any], cel: CheckCel | None, namespace: Labels | None = None
) -> None:
    """``namespace`` are the labels of the claim's namespace; without them admin access is not judged."""
    _check_admin(problems, body.get("spec", {}), "spec", namespace)
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    check_claim_spec(problems, body.get("spec", {}), "spec", cel)


def check_claim_template(
    problems: Problems, body: Mapping[str, Any], cel: CheckCel | None, namespace: Labels | None = None
) -> None:
    spec = body.get("spec", {})
    _check_admin(
        problems, spec.get("spec", {}), "spec", namespace
    )  # the server's path has one "spec" too few
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    check_template_metadata(problems, spec.get("metadata", {}), "spec.metadata")
    check_claim_spec(problems, spec.get("spec", {}), "spec.spec", cel)


def check_device_class(
    problems: Problems, body: Mapping[str, Any], cel: CheckCel | None, old: Mapping[str, Any] | None = None
) -> None:
    """``old`` is the class that this one replaces: unchanged selectors and configs are not judged again."""
    name = body.get("metadata", {}).get("name", "")
    by_hand = not problems.rules.since("1.35")
    check_metadata(problems, body.get("metadata", {}), dns_subdomain if by_hand else lambda _: ())
    if name and not by_hand:
        reported = problems.declared if old is None else problems
        reported.invalid("metadata.name", name, *dns_subdomain(name, "bytes"))
    spec, before = body.get("spec", {}), (old or {}).get("spec", {})
    kept, stored = (
        old is not None
        and not by_hand
        and same({part: spec.get(part, [])}, {part: before.get(part, [])}, "DeviceClassSpec")
        for part in ("selectors", "config")
    )
    found = problems.unchanged(when=kept)
    check_selectors(found, spec.get("selectors", ()), "spec.selectors", cel, stored=kept)
    problems.take(found)
    found, configs = problems.unchanged(when=stored), spec.get("config", ())
    if not found.declared.too_many("spec.config", len(configs), MAX_REQUESTS):
        for index, config in enumerate(configs):
            check_opaque(found, config, f"spec.config[{index}]", stored=stored)
    problems.take(found)
    resource = spec.get("extendedResourceName")
    if resource is None or not (wrong := extended_resource(resource)):
        return
    if problems.rules.declarative and (old is None or before.get("extendedResourceName") != resource):
        problems.declared.invalid("spec.extendedResourceName", resource, *wrong)
    else:
        problems.invalid("spec.extendedResourceName", resource, "must be a valid extended resource name")


def check_taint_rule(
    problems: Problems, body: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> None:
    if old is None:
        check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    spec = body.get("spec", {})
    selector = spec.get("deviceSelector", {})
    if "driver" in selector:
        check_driver(problems, "spec.deviceSelector.driver", selector["driver"])
    if "pool" in selector:
        check_pool(problems, "spec.deviceSelector.pool", selector["pool"])
    if "device" in selector:
        device = selector["device"]
        problems.invalid("spec.deviceSelector.device", device, *dns_label(device))
    before = None if old is None else old.get("spec", {}).get("taint", {})
    check_taint(problems, spec.get("taint", {}), "spec.taint", before)


def check_template_update(
    problems: Problems, new: Mapping[str, Any], old: Mapping[str, Any], cel: CheckCel | None
) -> None:
    """The spec of a template never changes; what is wrong with it is said all the same."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    kept = same(spec, before, "ResourceClaimTemplateSpec")
    found = problems.unchanged(when=kept)
    check_claim_template(found, new, cel)
    problems.take(found)
    if kept:
        return
    server = problems.rules.kube_version
    shown = {
        **versioned(spec.get("metadata", {}), "meta/v1", "ObjectMeta"),  # embedded, with its JSON names
        "Spec": internal(spec.get("spec", {}), "resource.k8s.io/v1", "ResourceClaimSpec", server),
    }
    problems.invalid("spec", shown, "field is immutable")


def _check_admin(problems: Problems, spec: Mapping[str, Any], path: str, namespace: Labels | None) -> None:
    if namespace is None or namespace.get(ADMIN_LABEL) == "true":
        return
    for index, request in enumerate(spec.get("devices", {}).get("requests", ())):
        if (request.get("exactly") or {}).get("adminAccess"):
            problems.forbidden(f"{path}.devices.requests[{index}].adminAccess", _NO_ADMIN)
            return


def check_admin_results(
    problems: Problems, results: Sequence[Mapping[str, Any]], namespace: Labels | None
) -> None:
    """Results with admin access need the label on the namespace as requests do."""
    if namespace is None or namespace.get(ADMIN_LABEL) == "true":
        return
    for index, result in enumerate(results):
        if result.get("adminAccess"):
            path = f"status.allocation.devices.results[{index}].adminAccess"
            problems.forbidden(path, _NO_ADMIN)
            return
