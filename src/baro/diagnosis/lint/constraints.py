"""Constraints between the devices of a claim: attributes that nobody publishes, or that never agree."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint.manifest import CLAIM_KINDS, Manifest, Request, items, mapping, text
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run
from baro.diagnosis.lint.selectors import publishes
from baro.model.edits import Edit, Insert, Remove, SetValue
from baro.model.names import (
    DRIVER,
    NVIDIA_DRIVER,
    PCI_BUS_ID,
    STANDARD_DOMAIN,
    TOPOLOGY_ANNOTATION,
)

_UNIQUE = frozenset({f"{NVIDIA_DRIVER}/uuid", f"{DRIVER}/uuid", f"{DRIVER}/minor"})
_UNIQUE_OF_GPUS = frozenset({PCI_BUS_ID})
"""MIG devices of one GPU share its bus address."""
_KEYS = ("matchAttribute", "distinctAttribute")


@rule(*CLAIM_KINDS)
def constraints(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Each constraint, by the devices that its requests can get."""
    if not manifest.dra:
        return
    requests = list(manifest.requests())
    base = manifest.devices_path
    for index, constraint in items(manifest.devices, "constraints"):
        for key in _KEYS:
            attribute = text(constraint, key)
            if "/" in attribute and attribute not in _derived(requests):
                path = f"{base}.constraints[{index}]"
                meant = [one for one in requests if _covers(constraint, one)]
                yield from _constraint(manifest, run, f"{path}.{key}", attribute, meant)


def _derived(requests: list[Request]) -> frozenset[str]:
    """Attributes that requests compute for themselves."""
    return frozenset(
        text(entry, "name") for request in requests for _, entry in items(request.body, "derivedAttributes")
    )


def _covers(constraint: Any, request: Request) -> bool:
    names = constraint.get("requests")
    if not isinstance(names, list) or not names:
        return True
    return request.name in names or request.name.partition("/")[0] in names


def _constraint(
    manifest: Manifest, run: Run, path: str, attribute: str, requests: list[Request]
) -> Iterator[Note]:
    scopes = {request.name: scope for request in requests if (scope := run.yardstick(request)) is not None}
    domain = attribute.rpartition("/")[0]
    where = manifest.where(path)
    known = run.catalogue.knows_domain(domain) or domain == STANDARD_DOMAIN
    lacking = [
        (name, scope)
        for name, scope in scopes.items()
        if _lacks(scope, attribute) and (known or all(one.measured for one in scope.drivers.values()))
    ]
    if not scopes and _unknown_everywhere(run.catalogue, attribute):
        lacking = [("", run.catalogue)]
    if lacking:
        scope = lacking[0][1]
        if all(one.facts.certain for one in scope.drivers.values() if _speaks(one.facts.domains, domain)):
            yield _never_met(manifest, run, path, attribute, scope)
        else:
            yield from _perhaps(scope, attribute, where)
        return
    yield from _types(scopes, attribute, where)
    yield from _too_many(path, attribute, requests, scopes, where)


def _speaks(domains: frozenset[str], domain: str) -> bool:
    return domain in domains or domain == STANDARD_DOMAIN


def _lacks(scope: Catalogue, attribute: str) -> bool:
    """Whether the drivers of these devices are known and none publishes the attribute."""
    if not scope.drivers or attribute in scope.attribute_names():
        return False
    return any(one.facts.attributes for one in scope.drivers.values())


def _unknown_everywhere(catalogue: Catalogue, attribute: str) -> bool:
    domain = attribute.rpartition("/")[0]
    known = catalogue.knows_domain(domain) or domain == STANDARD_DOMAIN
    return known and attribute not in catalogue.attribute_names()


def _never_met(manifest: Manifest, run: Run, path: str, attribute: str, scope: Catalogue) -> Note:
    title = scope.title_of(attribute.rpartition("/")[0])
    message = (
        f"{title} {publishes(title)} no attribute {attribute}:"
        " the constraint is never met, not even by one device"
    )
    edits, hint, new = _instead(manifest, path, attribute, scope)
    where = manifest.where(path)
    text_ = f"{message}; {hint}" if hint else message
    return note("unknown-constraint-attribute", text_, where, *edits, replacement=new)


def _instead(
    manifest: Manifest, path: str, attribute: str, scope: Catalogue
) -> tuple[tuple[Edit, ...], str, str | None]:
    """What the constraint was meant to say: another attribute or, for one island, the annotation that baro's
    planner reads."""
    domain, _, name = attribute.rpartition("/")
    published = scope.attribute_names()
    steps = manifest.steps(path)
    standard = f"{STANDARD_DOMAIN}/{name}"
    if standard in published:
        return (SetValue(steps, standard),), f"{name} stands in the domain {STANDARD_DOMAIN}", standard
    near = difflib.get_close_matches(attribute, sorted(published), n=1, cutoff=0.85)
    if near:
        return (SetValue(steps, near[0]),), f"the nearest is {near[0]}", near[0]
    if re.search("nvlink|island|clique", name, re.IGNORECASE) and path.endswith("matchAttribute"):
        return (Remove(steps[:-1]), *_annotation(manifest)), "", None
    alike = difflib.get_close_matches(name, [full.rpartition("/")[2] for full in published], n=1, cutoff=0.8)
    if alike:
        found = next(full for full in sorted(published) if full.rpartition("/")[2] == alike[0])
        return (), f"it publishes {found}, which is another key", None
    own = sorted(full.rpartition("/")[2] for full in published if full.rpartition("/")[0] == domain)
    return (), f"it publishes {', '.join(own)}" if own else "", None


def _annotation(manifest: Manifest) -> tuple[Edit, ...]:
    """``baro.dev/topology: required`` on the claim; on a template, on the claims that are made from it."""
    base = ("spec",) if manifest.kind == "ResourceClaimTemplate" else ()
    if TOPOLOGY_ANNOTATION in mapping(manifest.body, *base, "metadata", "annotations"):
        return ()
    return (Insert((*base, "metadata", "annotations", TOPOLOGY_ANNOTATION), "required", first=True),)


def _perhaps(scope: Catalogue, attribute: str, where: Any) -> Iterator[Note]:
    near = difflib.get_close_matches(attribute, sorted(scope.attribute_names()), n=1, cutoff=0.8)
    if near:
        title = scope.title_of(attribute.rpartition("/")[0])
        message = f"{attribute} is not among what {title} is known to publish; the nearest is {near[0]}"
        yield note("attribute-not-seen", message, where)


def _too_many(
    path: str, attribute: str, requests: list[Request], scopes: dict[str, Catalogue], where: Any
) -> Iterator[Note]:
    """Several devices that are to have one value of what each has for itself, or different values of what all
    have in common."""
    least = _least(requests)
    if least < 2 or len(scopes) < len(requests):
        return
    name = attribute.rpartition("/")[2]
    values: set[str] = set()
    kinds: set[str] = set()
    for scope in scopes.values():
        for device in scope.devices:
            kinds |= {str(own["type"]) for own in device.attributes.values() if "type" in own}
            domain = attribute.rpartition("/")[0]
            values.add(str(device.attributes.get(domain, {}).get(name)))
    if path.endswith("matchAttribute") and (
        attribute in _UNIQUE or (attribute in _UNIQUE_OF_GPUS and kinds == {"gpu"})
    ):
        message = (
            f"every device has a {attribute} of its own, and the constraint wants one value for {least}"
            " devices: it is never met"
        )
        yield note("constraint-never-met", message, where)
    elif path.endswith("distinctAttribute") and name == "type" and len(values) == 1:
        message = (
            f"all these devices have {attribute} {values.pop()!r}, and the constraint wants {least} different"
            " values: it is never met"
        )
        yield note("constraint-never-met", message, where)


def _least(requests: list[Request]) -> int:
    """How many devices the requests ask for at least; alternatives count once, with the smallest."""
    found: dict[str, int] = {}
    for request in requests:
        number = request.body.get("count", 1)
        number = number if isinstance(number, int) and text(request.body, "allocationMode") != "All" else 1
        name = request.name.partition("/")[0]
        found[name] = min(found.get(name, number), number)
    return sum(found.values())


def _types(scopes: dict[str, Catalogue], attribute: str, where: Any) -> Iterator[Note]:
    """One constraint over devices whose types of the attribute can never be equal."""
    kinds: dict[str, frozenset[str]] = {}
    for scope in scopes.values():
        for driver, one in scope.drivers.items():
            published = one.facts.attributes.get(attribute)
            if published is not None:
                kinds[driver] = frozenset(kind.rstrip("s") for kind in published.types)
    if len(scopes) > 1 and len(kinds) > 1 and not frozenset.intersection(*kinds.values()):
        listed = " and ".join(
            f"{'/'.join(sorted(types))} of {driver}" for driver, types in sorted(kinds.items())
        )
        message = f"{attribute} is {listed}: values of different types are never equal"
        yield note("constraint-type-mismatch", message, where)
