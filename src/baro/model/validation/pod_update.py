"""Rules for pods that replace pods: what of a spec may change, and what a new status may say.

Of the status, container states, addresses and volumes are not judged. Source: ``ValidatePodUpdate`` and
``ValidatePodStatusUpdate`` in ``pkg/apis/core/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.goview import internal, without_empty
from baro.model.validation.metadata import check_metadata, check_metadata_update
from baro.model.validation.names import dns_subdomain, label_key
from baro.model.validation.pod import check_spec

Body = Mapping[str, Any]

_UPDATABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_TERMS: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

_NO_RESOURCES: Final[tuple[str, Mapping[str, Any]]] = ("resources", {})
"""A struct that is no pointer: as good as absent."""
_NO_TERMS: Final[tuple[Body, ...]] = ()
"""Where none are given, which the server tells from an empty list."""


# --- spec ------------------------------------------------------------------------------------------------


def check_pod_update(problems: Problems, new: Body, old: Body) -> None:
    """The few changes that a pod's spec may go through; gates only go, tolerations only come.

    The server adds a difference of Go structs to the last message, which is left out here.
    """
    check_metadata_update(problems, new.get("metadata", {}), old.get("metadata", {}))
    check_metadata(problems, new.get("metadata", {}), dns_subdomain)
    spec, before = new.get("spec", {}), old.get("spec", {})
    check_spec(problems, spec)
    for field in ("containers", "initContainers"):
        if len(spec.get(field, ())) != len(before.get(field, ())):
            problems.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    if not _check_deadline(problems, spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        return
    if not all(_is_kept(toleration, spec) for toleration in before.get("tolerations", ())):
        text = "existing toleration can not be modified except its tolerationSeconds"
        problems.forbidden("spec.tolerations", text)
    gates = [gate.get("name", "") for gate in before.get("schedulingGates", ())]
    last = {gate.get("name", ""): index for index, gate in enumerate(spec.get("schedulingGates", ()))}
    for name, index in last.items():  # a gate that stands there twice is named once
        if name not in gates:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            problems.forbidden(f"spec.schedulingGates[{index}].name", text)
    if gates:
        _check_narrowing(problems, spec, before)
    if _fixed(spec, before, gated=bool(gates)) != _fixed(before, before, gated=bool(gates)):
        listed = ",".join(_UPDATABLE)
        problems.forbidden("spec", f"pod updates may not change fields other than {listed}")


def _check_deadline(problems: Problems, deadline: int | None, before: int | None) -> bool:
    """Whether the check of the pod goes on: a wrong deadline ends it, a missing one does not."""
    path = "spec.activeDeadlineSeconds"
    if deadline is None:
        if before is not None:
            problems.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= deadline <= 2**31 - 1:
        problems.invalid(path, deadline, "must be between 0 and 2147483647, inclusive")
        return False
    if before is not None and before < deadline:
        problems.invalid(path, deadline, "must be less than or equal to previous value")
        return False
    return True


def _is_kept(toleration: Body, spec: Body) -> bool:
    """Whether ``spec`` still has the toleration; its seconds may change."""

    def plain(item: Body) -> dict[str, Any]:
        return {key: value for key, value in item.items() if key != "tolerationSeconds" and value != ""}

    return any(plain(item) == plain(toleration) for item in spec.get("tolerations", ()))


def _check_narrowing(problems: Problems, spec: Body, before: Body) -> None:
    """While a pod is gated, node selector and required node affinity may only say more than before."""
    selector = spec.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in before.get("nodeSelector", {}).items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        shown = spec.get("nodeSelector")
        problems.invalid("spec.nodeSelector", shown and dict(sorted(shown.items())), text)
    earlier, terms = _terms(before), _terms(spec)
    if not earlier or list(terms) == list(earlier):
        return
    server = problems.rules.kube_version
    if len(terms) != len(earlier):
        given = terms is not _NO_TERMS
        shown = [internal(term, "v1", "NodeSelectorTerm", server) for term in terms] if given else None
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        problems.invalid(_TERMS, shown, text)
        return
    for index, (term, was) in enumerate(zip(terms, earlier, strict=True)):
        if not _only_adds(term, was):
            shown_term = internal(term, "v1", "NodeSelectorTerm", server)
            text = "only additions are allowed (no mutations or deletions)"
            problems.invalid(f"{_TERMS}[{index}]", shown_term, text)


def _terms(spec: Body) -> Sequence[Body]:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    found: Sequence[Body] = affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", _NO_TERMS)
    return found


def _only_adds(term: Body, before: Body) -> bool:
    """Whether a selector term starts with all requirements of ``before``; one that was empty stays so."""
    parts = ("matchExpressions", "matchFields")
    if not any(before.get(part) for part in parts):
        return not any(term.get(part) for part in parts)
    return all(
        list(term.get(part, ()))[: len(before.get(part, ()))] == list(before.get(part, ())) for part in parts
    )


def _fixed(spec: Body, before: Body, *, gated: bool) -> dict[str, Any]:
    """What of a pod's spec must stay as it is."""
    free = {"activeDeadlineSeconds", "schedulingGates", "tolerations"}
    if gated:
        free |= {"nodeSelector", "affinity"}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") in (
        1,
        before.get("terminationGracePeriodSeconds"),
    ):
        free.add("terminationGracePeriodSeconds")
    plain = without_empty(spec, "v1", "PodSpec")
    fixed = {name: value for name, value in plain.items() if name not in free}
    if gated:  # of an affinity only the nodes' part is open
        fixed["affinity"] = {k: v for k, v in spec.get("affinity", {}).items() if k != "nodeAffinity" and v}
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {
                key: value
                for key, value in container.items()
                if key != "image" and (key, value) != _NO_RESOURCES
            }
            for container in plain.get(field, ())
        ]
    return fixed


# --- status ----------------------------------------------------------------------------------------------


def check_pod_status(problems: Problems, new: Body, old: Body) -> None:
    """Conditions, quality of service, and the claims that were made for the pod."""
    check_metadata_update(problems, new.get("metadata", {}), old.get("metadata", {}))
    status, before = new.get("status", {}), old.get("status", {})
    for index, condition in enumerate(status.get("conditions", ())):
        if (generation := condition.get("observedGeneration", 0)) < 0:
            path = f"status.conditions[{index}].observedGeneration"
            problems.invalid(path, generation, "must be a non-negative integer")
        if (kind := condition.get("type", "")) not in _SYSTEM_CONDITIONS:
            problems.invalid(f"status.conditions[{index}].Type", kind, *label_key(kind))
    _check_nominated(problems, status, before, bound=bool(old.get("spec", {}).get("nodeName")))
    quality = status.get("qosClass", "")
    if quality != before.get("qosClass", ""):
        problems.invalid("status.qosClass", quality, "field is immutable")
    claims = [claim.get("name") for claim in new.get("spec", {}).get("resourceClaims", ())]
    _check_claim_statuses(problems, status.get("resourceClaimStatuses", ()), claims)


def _check_nominated(problems: Problems, status: Body, before: Body, *, bound: bool) -> None:
    path, name = "status.nominatedNodeName", status.get("nominatedNodeName", "")
    if not name or name == before.get("nominatedNodeName", ""):
        return
    problems.invalid(path, name, *dns_subdomain(name))
    if bound:
        problems.forbidden(path, "may not be set on pods that are already bound to a node")


def _check_claim_statuses(problems: Problems, statuses: Sequence[Body], claims: Sequence[Any]) -> None:
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{index}]", status.get("name", "")
        if name not in claims:
            text = "must match the name of an entry in `spec.resourceClaims`"
            problems.invalid(f"{path}.name", name, text)
        if name in seen:
            problems.duplicate(f"{path}.name", name)
        seen.add(name)
        made = status.get("resourceClaimName")
        if made is not None:
            field = "resourceClaimName" if problems.rules.since("1.36") else "name"
            problems.invalid(f"{path}.{field}", made, *dns_subdomain(made))
