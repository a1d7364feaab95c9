"""Whole-object validation: what the API server refuses about values, in its words and with its paths.

One module per kind, on bodies (JSON objects) that already decode (see ``baro.model.decode.strict_errors``).
A first cut: creation only, default feature gates of Kubernetes 1.37, no rule that needs other objects, and of
a pod only its claims. Compilation of CEL is the caller's (``cel``). Paths and shapes are those of v1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from baro.model.convert import to_v1
from baro.model.decode.kinds import without_nulls
from baro.model.decode.strict import strict_errors
from baro.model.errors import InputError
from baro.model.schema import find_kind
from baro.model.validation.causes import Cause, Problems, Reason
from baro.model.validation.metadata import check_metadata
from baro.model.validation.names import dns_label, dns_subdomain
from baro.model.validation.pod import check_pod
from baro.model.validation.resource_claim import (
    CheckCel,
    check_claim_template,
    check_device_class,
    check_resource_claim,
    check_taint_rule,
)
from baro.model.validation.resource_slice import check_resource_slice

__all__ = ["Cause", "CheckCel", "Problems", "Reason", "validate_create"]

_Check = Callable[[Problems, Mapping[str, Any], CheckCel | None], None]


def validate_create(body: Mapping[str, Any], *, cel: CheckCel | None = None) -> tuple[Cause, ...]:
    """Why a server would refuse to create ``body``; empty when it would not, as far as this room knows.

    ``cel`` is asked about every selector; without it expressions are only measured. A body that does not
    decode, or of a kind without rules here, has no causes.
    """
    check = _CHECKS.get((str(body.get("apiVersion", "")).rpartition("/")[0], str(body.get("kind"))))
    if check is None or any(error.trouble in ("type", "value") for error in strict_errors(body)):
        return ()
    try:
        converted = to_v1(body)
    except InputError:
        return ()
    kind = find_kind(str(converted.get("apiVersion")), str(converted.get("kind")))
    if kind is None:
        return ()
    problems = Problems()
    check(problems, without_nulls(converted, kind.type), cel)
    return problems.causes


def _check_name_is_subdomain(problems: Problems, body: Mapping[str, Any], cel: CheckCel | None) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)


def _check_name_is_label(problems: Problems, body: Mapping[str, Any], cel: CheckCel | None) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_label)


_CHECKS: Final[Mapping[tuple[str, str], _Check]] = {
    ("resource.k8s.io", "ResourceSlice"): lambda problems, body, cel: check_resource_slice(problems, body),
    ("resource.k8s.io", "ResourceClaim"): check_resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): check_claim_template,
    ("resource.k8s.io", "DeviceClass"): check_device_class,
    ("resource.k8s.io", "DeviceTaintRule"): lambda problems, body, cel: check_taint_rule(problems, body),
    ("", "Pod"): lambda problems, body, cel: check_pod(problems, body),
    ("", "Node"): _check_name_is_subdomain,
    ("", "Namespace"): _check_name_is_label,
    ("", "ConfigMap"): _check_name_is_subdomain,
    ("", "Secret"): _check_name_is_subdomain,
    ("", "ServiceAccount"): _check_name_is_subdomain,
    ("coordination.k8s.io", "Lease"): _check_name_is_subdomain,
    ("baro.dev", "NodeTopology"): _check_name_is_subdomain,
}
