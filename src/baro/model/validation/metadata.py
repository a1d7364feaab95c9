"""Rules for ``metadata`` that all kinds share, and for node selectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.names import Found, byte_size, dns_subdomain, label_key, label_value

_ANNOTATIONS_LIMIT: Final = 256 * 1024


def check_metadata(
    problems: Problems, metadata: Mapping[str, Any], name_rule: Callable[[str], Found]
) -> None:
    """``metadata`` of a new object. A name that the server will generate is not looked at."""
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if prefix:
        # The server appends letters, so a trailing dash of the prefix is fine.
        masked = prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        problems.invalid("metadata.generateName", prefix, *name_rule(masked))
    if name:
        problems.invalid("metadata.name", name, *name_rule(name))
    elif not prefix:
        problems.required("metadata.name", "name or generateName is required")
    check_labels(problems, metadata.get("labels", {}), "metadata.labels")
    check_annotations(problems, metadata.get("annotations", {}), "metadata.annotations")
    for index, owner in enumerate(metadata.get("ownerReferences", ())):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                problems.required(f"metadata.ownerReferences[{index}].{field}", "must not be empty")
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        problems.invalid(f"metadata.finalizers[{index}]", finalizer, *label_key(finalizer))


def check_labels(problems: Problems, labels: Mapping[str, str], path: str) -> None:
    for key, value in labels.items():
        problems.invalid(path, key, *label_key(key))
        problems.invalid(path, value, *label_value(value))


def check_annotations(problems: Problems, annotations: Mapping[str, str], path: str) -> None:
    for key in annotations:
        problems.invalid(path, key, *label_key(key.lower()))
    if sum(byte_size(key) + byte_size(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        problems.too_long(path, _ANNOTATIONS_LIMIT)


def check_template_metadata(problems: Problems, metadata: Mapping[str, Any], path: str) -> None:
    """``metadata`` of a template: labels and annotations only."""
    check_annotations(problems, metadata.get("annotations", {}), f"{path}.annotations")
    check_labels(problems, metadata.get("labels", {}), f"{path}.labels")
    for field, value in metadata.items():
        if field not in ("labels", "annotations") and value:
            problems.forbidden(f"{path}.{field}", "cannot be set")


# --- node selectors --------------------------------------------------------------------------------------


def check_node_selector(problems: Problems, selector: Mapping[str, Any], path: str) -> None:
    """Terms with label expressions, and field expressions on ``metadata.name``."""
    terms = selector.get("nodeSelectorTerms", ())
    place = f"{path}.nodeSelectorTerms"
    if not terms:
        problems.required(place, "must have at least one node selector term")
    for index, term in enumerate(terms):
        for at, requirement in enumerate(term.get("matchExpressions", ())):
            _check_expression(problems, requirement, f"{place}[{index}].matchExpressions[{at}]")
        for at, requirement in enumerate(term.get("matchFields", ())):
            _check_field(problems, requirement, f"{place}[{index}].matchFields[{at}]")


def _check_expression(problems: Problems, requirement: Mapping[str, Any], path: str) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            problems.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.forbidden(f"{path}.values", text)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            problems.required(
                f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
    else:
        problems.invalid(f"{path}.operator", operator, "not a valid selector operator")
    problems.invalid(f"{path}.key", requirement.get("key", ""), *label_key(requirement.get("key", "")))
    for index, value in enumerate(values):
        problems.invalid(f"{path}.values[{index}]", value, *label_value(value))


def _check_field(problems: Problems, requirement: Mapping[str, Any], path: str) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator not in ("In", "NotIn"):
        problems.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        problems.required(f"{path}.values", text)
    key = requirement.get("key", "")
    if key != "metadata.name":
        problems.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        problems.invalid(f"{path}.values[{index}]", value, *dns_subdomain(value))
