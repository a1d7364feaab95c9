"""Rules for ``metadata`` that all kinds share, and for node selectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from baro.model.gotext import go_quote
from baro.model.schema import object_type
from baro.model.validation.causes import Problems
from baro.model.validation.goview import versioned
from baro.model.validation.names import (
    Found,
    byte_size,
    dns_subdomain,
    label_key,
    label_value,
    path_segment,
)

_ANNOTATIONS_LIMIT: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def check_metadata(
    problems: Problems,
    metadata: Mapping[str, Any],
    name_rule: Callable[[str], Found],
    *,
    any_finalizer: bool = False,
) -> None:
    """``metadata`` of a new object. A name that the server will generate is not looked at.

    ``any_finalizer``: without a domain, any name will do.
    """
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if prefix:
        problems.invalid("metadata.generateName", prefix, *name_rule(masked_prefix(prefix)))
    if name:
        problems.invalid("metadata.name", name, *name_rule(name))
    elif not prefix:
        problems.required("metadata.name", "name or generateName is required")
    check_common(problems, metadata, any_finalizer=any_finalizer)


def masked_prefix(prefix: str) -> str:
    """``prefix`` as the server judges it: letters follow, so a dash at the end is fine.

    The server takes the letter before the dash away as well, whatever it is.
    """
    return prefix[:-2] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix


def check_common(problems: Problems, metadata: Mapping[str, Any], *, any_finalizer: bool = False) -> None:
    """All of ``metadata`` but the name."""
    if (generation := metadata.get("generation", 0)) < 0:
        problems.invalid("metadata.generation", generation, "must be greater than or equal to 0")
    check_labels(problems, metadata.get("labels", {}), "metadata.labels")
    check_annotations(problems, metadata.get("annotations", {}), "metadata.annotations")
    check_owners(problems, metadata.get("ownerReferences", ()))
    check_finalizers(problems, metadata.get("finalizers", ()), any_finalizer=any_finalizer)


def check_metadata_update(
    problems: Problems, new: Mapping[str, Any], old: Mapping[str, Any], *, any_finalizer: bool = False
) -> None:
    """``metadata`` of an object that replaces another: what it may hold, and no new finalizers at the end.

    Name, namespace, UID and resource version are compared before validation, by whoever holds the old object.
    """
    prefix = new.get("generateName", "")
    problems.invalid("metadata.generateName", prefix, *path_segment(prefix))
    check_common(problems, new, any_finalizer=any_finalizer)
    if not old.get("deletionTimestamp"):
        return
    before = old.get("finalizers", ())
    added = sorted({name for name in new.get("finalizers", ()) if name not in before})
    if added:
        listed = ", ".join(go_quote(name) for name in added)
        text = "no new finalizers can be added if the object is being deleted, found new finalizers "
        problems.forbidden("metadata.finalizers", f"{text}[]string{{{listed}}}")


def check_owners(problems: Problems, owners: Sequence[Mapping[str, Any]]) -> None:
    """Complete references, and at most one controller among them."""
    path = "metadata.ownerReferences"
    controllers: list[str] = []
    for index, owner in enumerate(owners):
        _check_owner(problems, owner, f"{path}[{index}]" if problems.rules.newest else path)
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
            if len(controllers) > 1:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controllers[0]} and {controllers[-1]}"
                )
                listed = [versioned(item, "meta/v1", "OwnerReference") for item in owners]
                problems.invalid(path, listed, text)


def _check_owner(problems: Problems, owner: Mapping[str, Any], path: str) -> None:
    """One reference; servers before 1.37 do not say which, and call what is missing invalid."""
    newest, api_version = problems.rules.newest, owner.get("apiVersion", "")
    if not api_version and newest:
        problems.required(f"{path}.apiVersion", "must not be empty")
    elif api_version.count("/") > 1 or api_version.endswith("/") or not api_version:
        text = "must be <group>/<version> or <version>" if newest else "version must not be empty"
        problems.invalid(f"{path}.apiVersion", api_version, text)
    for field in ("kind", "name", "uid"):
        if owner.get(field):
            continue
        if newest:
            problems.required(f"{path}.{field}", "must not be empty")
        else:
            problems.invalid(f"{path}.{field}", "", "must not be empty")
    if api_version in ("v1", "/v1") and owner.get("kind") == "Event":
        shown = versioned(owner, "meta/v1", "OwnerReference")
        problems.invalid(path, shown, "/v1, Kind=Event is disallowed from being an owner")


def check_finalizers(problems: Problems, finalizers: Sequence[str], *, any_finalizer: bool = False) -> None:
    """Qualified names with a domain, or one of the three that Kubernetes itself uses."""
    path = "metadata.finalizers"
    for finalizer in finalizers:
        problems.invalid(path, finalizer, *label_key(finalizer))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        problems.invalid(path, list(finalizers), text)
    for index, finalizer in enumerate(() if any_finalizer else finalizers):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            problems.invalid(f"{path}[{index}]", finalizer, text)


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
    for field in object_type("meta/v1", "ObjectMeta").fields:
        value = metadata.get(field)
        if value is None:
            continue
        pointer = field == "deletionGracePeriodSeconds"  # 0 is not "not set" there
        if field not in ("labels", "annotations") and (value or value in ([], {}) or pointer):
            shown = "uID" if field == "uid" else field  # the Go name with its first letter lowered
            problems.forbidden(f"{path}.{shown}", "cannot be set")


# --- node selectors --------------------------------------------------------------------------------------


def check_node_selector(problems: Problems, selector: Mapping[str, Any], path: str) -> None:
    """Terms with label expressions, and field expressions on ``metadata.name``."""
    terms = selector.get("nodeSelectorTerms", ())
    place = f"{path}.nodeSelectorTerms"
    if not terms:
        problems.required(place, "must have at least one node selector term")
        return
    for index, term in enumerate(terms):
        check_node_term(problems, term, f"{place}[{index}]")


def check_node_term(problems: Problems, term: Mapping[str, Any], path: str, *, values: bool = True) -> None:
    """One term; ``values``: whether label values must be ones."""
    for at, requirement in enumerate(term.get("matchExpressions", ())):
        _check_expression(problems, requirement, f"{path}.matchExpressions[{at}]", values=values)
    for at, requirement in enumerate(term.get("matchFields", ())):
        _check_field(problems, requirement, f"{path}.matchFields[{at}]")


def _check_expression(problems: Problems, requirement: Mapping[str, Any], path: str, *, values: bool) -> None:
    operator, given = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not given:
            problems.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if given:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.forbidden(f"{path}.values", text)
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            problems.required(
                f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
    else:
        problems.invalid(f"{path}.operator", operator, "not a valid selector operator")
    problems.invalid(f"{path}.key", requirement.get("key", ""), *label_key(requirement.get("key", "")))
    for index, value in enumerate(given if values else ()):
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
