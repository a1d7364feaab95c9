"""Which rules judge which write: kind → check, for creation and for updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from baro.model.convert import convert
from baro.model.validation.causes import Problems
from baro.model.validation.claim_spec import CheckCel, check_claim_spec
from baro.model.validation.claim_status import check_claim_status
from baro.model.validation.conditions import check_conditions
from baro.model.validation.config import check_config_map, check_secret
from baro.model.validation.core import (
    check_binding_object,
    check_event,
    check_lease,
    check_node,
    check_node_status,
    check_node_update,
)
from baro.model.validation.goview import internal, same, versioned
from baro.model.validation.metadata import check_metadata, check_metadata_update
from baro.model.validation.names import dns_label, dns_subdomain
from baro.model.validation.pod import check_pod
from baro.model.validation.pod_update import check_pod_status, check_pod_update
from baro.model.validation.resource_claim import (
    check_claim_template,
    check_device_class,
    check_resource_claim,
    check_taint_rule,
    check_template_update,
)
from baro.model.validation.resource_slice import check_resource_slice

MAX_RULE_CONDITIONS: Final = 8

_DRA: Final = "resource.k8s.io"
Body = Mapping[str, Any]


class Request(NamedTuple):
    """One write to judge: both bodies prepared, in the v1 shape; ``old`` is empty for a creation."""

    problems: Problems
    body: Body
    old: Body
    cel: CheckCel | None
    namespace_labels: Mapping[str, str] | None

    @property
    def metadata(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.body.get("metadata", {})
        return found


_Check = Callable[[Request], None]


def _metadata_update(request: Request) -> None:
    check_metadata_update(request.problems, request.metadata, request.old.get("metadata", {}))


def _named_as_subdomain(request: Request) -> None:
    check_metadata(request.problems, request.metadata, dns_subdomain)


def _named_as_label(request: Request) -> None:
    check_metadata(request.problems, request.metadata, dns_label)


# --- resource.k8s.io -------------------------------------------------------------------------------------


def _claim(request: Request) -> None:
    check_resource_claim(request.problems, request.body, request.cel, request.namespace_labels)


def _claim_update(request: Request) -> None:
    _metadata_update(request)
    check_metadata(request.problems, request.metadata, dns_subdomain)
    if not request.problems.rules.since("1.35"):  # which looked at the spec as well, though it cannot change
        check_claim_spec(request.problems, request.body.get("spec", {}), "spec", request.cel)
    spec, before = request.body.get("spec", {}), request.old.get("spec", {})
    if same(spec, before, "ResourceClaimSpec"):
        return
    rules = request.problems.rules
    if rules.declarative and not _looks_the_same(spec, before, rules.version):
        request.problems.declared.invalid("spec", None, "field is immutable")
    else:
        shown = internal(spec, f"{_DRA}/v1", "ResourceClaimSpec", rules.kube_version)
        request.problems.invalid("spec", shown, "field is immutable")


def _looks_the_same(spec: Body, before: Body, version: str) -> bool:
    """Whether ``version`` writes both alike: v1beta1 cannot tell a request without fields from none."""
    if version != "v1beta1":
        return False
    whole = {"apiVersion": f"{_DRA}/v1", "kind": "ResourceClaim"}
    shown = (convert({**whole, "spec": each}, f"{_DRA}/{version}")["spec"] for each in (spec, before))
    one, other = (versioned(each, f"{_DRA}/{version}", "ResourceClaimSpec") for each in shown)
    return one == other


def _claim_status(request: Request) -> None:
    _metadata_update(request)
    check_claim_status(request.problems, request.body, request.old, request.namespace_labels)


def _template(request: Request) -> None:
    check_claim_template(request.problems, request.body, request.cel, request.namespace_labels)


def _template_update(request: Request) -> None:
    _metadata_update(request)
    check_template_update(request.problems, request.body, request.old, request.cel)


def _slice(request: Request) -> None:
    check_resource_slice(request.problems, request.body)


def _slice_update(request: Request) -> None:
    _metadata_update(request)
    check_resource_slice(request.problems, request.body, request.old)


def _class(request: Request) -> None:
    check_device_class(request.problems, request.body, request.cel)


def _class_update(request: Request) -> None:
    _metadata_update(request)
    check_device_class(request.problems, request.body, request.cel, request.old)


def _taint_rule(request: Request) -> None:
    check_taint_rule(request.problems, request.body)


def _taint_rule_update(request: Request) -> None:
    _metadata_update(request)
    check_taint_rule(request.problems, request.body, request.old)


def _taint_rule_status(request: Request) -> None:
    _metadata_update(request)
    conditions = request.body.get("status", {}).get("conditions", ())
    check_conditions(request.problems, conditions, "status.conditions")
    request.problems.too_many("status.conditions", len(conditions), MAX_RULE_CONDITIONS)


# --- other groups ----------------------------------------------------------------------------------------


def _pod(request: Request) -> None:
    check_pod(request.problems, request.body)


def _pod_update(request: Request) -> None:
    check_pod_update(request.problems, request.body, request.old)


def _pod_status(request: Request) -> None:
    check_pod_status(request.problems, request.body, request.old)


def _config_map(request: Request) -> None:
    check_config_map(request.problems, request.body)


def _config_map_update(request: Request) -> None:
    check_config_map(request.problems, request.body, request.old)


def _secret(request: Request) -> None:
    check_secret(request.problems, request.body)


def _secret_update(request: Request) -> None:
    check_secret(request.problems, request.body, request.old)


def _node(request: Request) -> None:
    check_node(request.problems, request.body)


def _node_update(request: Request) -> None:
    check_node_update(request.problems, request.body, request.old)


def _node_status(request: Request) -> None:
    check_node_status(request.problems, request.body, request.old)


def _lease(request: Request) -> None:
    check_lease(request.problems, request.body)


def _lease_update(request: Request) -> None:
    check_lease(request.problems, request.body, request.old)


def _binding(request: Request) -> None:
    check_binding_object(request.problems, request.body)


def _event(request: Request) -> None:
    check_event(request.problems, request.body)


def _event_update(request: Request) -> None:
    check_event(request.problems, request.body, request.old)


def _named_update(request: Request) -> None:
    _metadata_update(request)
    _named_as_subdomain(request)


CREATE: Final[Mapping[tuple[str, str], _Check]] = {
    (_DRA, "ResourceSlice"): _slice,
    (_DRA, "ResourceClaim"): _claim,
    (_DRA, "ResourceClaimTemplate"): _template,
    (_DRA, "DeviceClass"): _class,
    (_DRA, "DeviceTaintRule"): _taint_rule,
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "Binding"): _binding,
    ("", "Event"): _event,
    ("", "Namespace"): _named_as_label,
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
    ("", "ServiceAccount"): _named_as_subdomain,
    ("coordination.k8s.io", "Lease"): _lease,
    ("baro.dev", "NodeTopology"): _named_as_subdomain,
}
"""(group, kind) → the rules for a new object."""
UPDATE: Final[Mapping[tuple[str, str, str], _Check]] = {
    (_DRA, "ResourceSlice", ""): _slice_update,
    (_DRA, "ResourceClaim", ""): _claim_update,
    (_DRA, "ResourceClaim", "status"): _claim_status,
    (_DRA, "ResourceClaimTemplate", ""): _template_update,
    (_DRA, "DeviceClass", ""): _class_update,
    (_DRA, "DeviceTaintRule", ""): _taint_rule_update,
    (_DRA, "DeviceTaintRule", "status"): _taint_rule_status,
    ("", "Pod", ""): _pod_update,
    ("", "Pod", "status"): _pod_status,
    ("", "Node", ""): _node_update,
    ("", "Node", "status"): _node_status,
    ("", "Namespace", ""): _metadata_update,
    ("", "Namespace", "status"): _metadata_update,
    ("", "Namespace", "finalize"): _metadata_update,
    ("", "Event", ""): _event_update,
    ("", "ConfigMap", ""): _config_map_update,
    ("", "Secret", ""): _secret_update,
    ("", "ServiceAccount", ""): _named_update,
    ("coordination.k8s.io", "Lease", ""): _lease_update,
    ("baro.dev", "NodeTopology", ""): _metadata_update,
}
"""(group, kind, subresource) → the rules for an object that replaces another."""
