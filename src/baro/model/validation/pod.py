"""Rules for the parts of a pod that baro writes or depends on: containers, claims, gates, tolerations.

Volumes, probes, security contexts and the like are not validated here; what may change in a pod is in
``pod_update``. Source: ``pkg/apis/core/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.metadata import check_labels, check_metadata, check_node_selector, check_node_term
from baro.model.validation.names import dns_label, dns_subdomain, label_key, label_value

NODE_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_DEADLINE: Final = 2**31 - 1
"""Seconds."""
MAX_WEIGHT: Final = 100

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def check_pod(problems: Problems, body: Mapping[str, Any]) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    spec = body.get("spec", {})
    check_spec(problems, spec)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        problems.forbidden("spec.nodeName", text)


def check_spec(problems: Problems, spec: Mapping[str, Any]) -> None:
    """What every pod's spec must satisfy, new or changed."""
    names: set[str] = set()
    listed = spec.get("resourceClaims", ())
    for index, claim in enumerate(listed):
        _check_pod_claim(problems, claim, f"spec.resourceClaims[{index}]", names)
    # Containers may use any name that is listed, right or wrong.
    _check_containers(problems, spec, {claim["name"] for claim in listed if claim.get("name")})
    check_labels(problems, spec.get("nodeSelector", {}), "spec.nodeSelector")
    _check_node_affinity(problems, spec.get("affinity", {}).get("nodeAffinity", {}))
    _check_gates(problems, spec.get("schedulingGates", ()), "spec.schedulingGates")
    if node := spec.get("nodeName", ""):
        problems.invalid("spec.nodeName", node, *dns_subdomain(node))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_DEADLINE:
        text = f"must be between 1 and {MAX_DEADLINE}, inclusive"
        problems.invalid("spec.activeDeadlineSeconds", deadline, text)
    for index, toleration in enumerate(spec.get("tolerations", ())):
        _check_toleration(problems, toleration, f"spec.tolerations[{index}]")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            image = container.get("image", "")
            if image != image.strip():
                text = "must not have leading or trailing whitespace"
                problems.invalid(f"spec.{field}[{index}].image", image, text)


def _check_containers(problems: Problems, spec: Mapping[str, Any], claims: set[str]) -> None:
    if not spec.get("containers"):
        problems.required("spec.containers")
    taken: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            path, name = f"spec.{field}[{index}]", container.get("name", "")
            if not name:
                problems.required(f"{path}.name")
            else:
                problems.invalid(f"{path}.name", name, *dns_label(name))
            if not container.get("image"):
                problems.required(f"{path}.image")
            used = container.get("resources", {}).get("claims", ())
            _check_container_claims(problems, used, f"{path}.resources.claims", claims)
            if name in taken:
                problems.duplicate(f"{path}.name", name)
            elif name or field == "containers":  # of init containers, those without a name are not compared
                taken.add(name)


def _check_node_affinity(problems: Problems, affinity: Mapping[str, Any]) -> None:
    path = "spec.affinity.nodeAffinity"
    if (required := affinity.get(_REQUIRED)) is not None:
        check_node_selector(problems, required, f"{path}.{_REQUIRED}")
    for index, term in enumerate(affinity.get(_PREFERRED, ())):
        place, weight = f"{path}.{_PREFERRED}[{index}]", term.get("weight", 0)
        if not 0 < weight <= MAX_WEIGHT:
            problems.invalid(f"{place}.weight", weight, f"must be in the range 1-{MAX_WEIGHT}")
        # A wish may name label values that no node can have.
        check_node_term(problems, term.get("preference", {}), f"{place}.preference", values=False)


def _check_gates(problems: Problems, gates: Sequence[Mapping[str, Any]], path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        problems.invalid(f"{path}[{index}]", name, *label_key(name))
        if name in seen:
            problems.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _check_toleration(problems: Problems, toleration: Mapping[str, Any], path: str) -> None:
    key, value, effect = (toleration.get(field, "") for field in ("key", "value", "effect"))
    operator = toleration.get("operator", "")
    if key:
        problems.invalid(f"{path}.key", key, *label_key(key))
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        problems.invalid(f"{path}.operator", operator, text)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        problems.invalid(f"{path}.effect", effect, text)
    if operator in ("Equal", ""):
        if wrong := label_value(value):
            problems.invalid(f"{path}.operator", value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            problems.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        compares = operator in ("Lt", "Gt") and problems.rules.since("1.35")  # known, though off
        known = ("Equal", "Exists", "Lt", "Gt") if compares else ("Equal", "Exists")
        problems.unsupported(f"{path}.operator", operator, known)
    if effect and effect not in NODE_EFFECTS:
        problems.unsupported(f"{path}.effect", effect, NODE_EFFECTS)


# --- claims ----------------------------------------------------------------------------------------------


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
    shown = {"Name": name, "ResourceClaimName": direct, "ResourceClaimTemplateName": template}
    if direct is not None and template is not None:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        problems.invalid(path, shown, text)
    if direct is None and template is None:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        problems.invalid(path, shown, text)
    for field, value in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
        if value is not None:
            problems.invalid(f"{path}.{field}", value, *dns_subdomain(value))


def _check_container_claims(
    problems: Problems, claims: Sequence[Mapping[str, Any]], path: str, names: set[str]
) -> None:
    """What a container uses: names from ``spec.resourceClaims``, nothing twice."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            problems.required(place)
            continue
        if name in seen:  # all of it is used already
            problems.duplicate(place, name)
        else:
            if request:
                problems.invalid(f"{place}.request", request, *dns_label(request))
            key = f"{name}/{request}" if request else name
            if key in seen:
                problems.duplicate(place, key)
            elif not request and any("/" in one and one.partition("/")[0] == name for one in seen):
                problems.duplicate(place, name)
            seen.add(key)
        if name not in names:
            listed = f": {', '.join(sorted(names))}" if names else " which is empty"
            problems.not_found(place, name, f"must be one of the names in pod.spec.resourceClaims{listed}")
