"""Claims compiled for the search: requests, alternatives, constraints, and upstream's refusals.

Independent of nodes, so one plan serves all of them. A refusal stands where upstream would meet it; it is
raised only when the search gets there, since an earlier request may fail first for reasons of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from baro.allocator.features import Features
from baro.inventory import claim_name
from baro.model.kinds.base import RawQuantity
from baro.model.kinds.resource import (
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from baro.model.names import SELECTOR_ANNOTATION, TOPOLOGY_ANNOTATION

MAX_RESULTS = 32
"""``AllocationResultsMaxSize``: devices in one claim."""


class Selector(msgspec.Struct, frozen=True):
    """One CEL expression and the words with which upstream's errors introduce it."""

    expression: str
    place: str


class Constraint(msgspec.Struct, frozen=True):
    """``attribute`` is as written. ``distinct`` false means all values equal."""

    attribute: str
    distinct: bool
    requests: tuple[str, ...]
    views: tuple[str | None, ...] = (None,)
    """How the requests that it covers find the value: what is published (``None``), or by an expression."""

    def covers(self, request: str, subrequest: str | None) -> bool:
        """Whether it applies: an empty list means all, ``request`` covers all its subrequests."""
        if not self.requests or request in self.requests:
            return True
        return subrequest is not None and f"{request}/{subrequest}" in self.requests


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """One way to satisfy a request. ``id`` numbers all alternatives of a plan."""

    id: int
    name: str
    """As results name it: ``request`` or ``request/subrequest``."""
    own_name: str
    """As errors name it."""
    index: int
    """Position among the subrequests, 0 for the most preferred; 0 for ``exactly``."""
    device_class: DeviceClass | None = None
    selectors: tuple[Selector, ...] = ()
    all_devices: bool = False
    count: int = 1
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Mapping[str, RawQuantity] = {}
    constraints: tuple[int, ...] = ()
    """Indexes of the claim's constraints that apply."""
    views: tuple[int, ...] = ()
    """Per entry of ``constraints`` the index of its view that the request has."""
    expressions: tuple[str, ...] = ()
    """Those of ``selectors``."""
    wants: tuple[tuple[str, RawQuantity], ...] = ()
    """``capacity``, sorted."""
    kind: tuple[object, ...] = ()
    """Alternatives of equal kind may take the same devices, whatever claim they are of."""
    refusal: str | None = None
    """Upstream's fatal error about this request."""


class Request(msgspec.Struct, frozen=True):
    """``refusal`` comes before those of the alternatives."""

    name: str
    alternatives: tuple[Alternative, ...]
    prioritized: bool = False
    refusal: str | None = None


class ClaimPlan(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """``namespace/name``."""
    claim: ResourceClaim
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    refusal: str | None = None
    """About the constraints; upstream meets it after all requests."""
    topology: str = ""
    """The annotation ``baro.dev/topology``: ``required``, ``preferred``, ``none`` or empty."""


class Plan(msgspec.Struct, frozen=True):
    claims: tuple[ClaimPlan, ...]

    def alternatives(self) -> Iterable[tuple[int, Request, Alternative]]:
        """(claim index, request, alternative), in order of ``Alternative.id``."""
        for index, claim in enumerate(self.claims):
            for request in claim.requests:
                for alternative in request.alternatives:
                    yield index, request, alternative


def compile_plan(
    claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass], features: Features
) -> Plan:
    """Compile claims. Never raises: what upstream refuses is kept as ``refusal`` where it belongs."""
    compiler = _Compiler(classes, features)
    return Plan(tuple(compiler.claim(claim) for claim in claims))


def class_selectors(device_class: DeviceClass) -> tuple[DeviceSelector, ...]:
    """The selectors that baro uses for a class.

    An exclusive class (its only selector is ``false``) stands for the expression in its annotation
    ``baro.dev/selector``: kube-scheduler can never allocate from it, baro can.
    """
    selectors = device_class.spec.selectors
    hidden = device_class.metadata.annotations.get(SELECTOR_ANNOTATION)
    if hidden is None or len(selectors) != 1:
        return selectors
    cel = selectors[0].cel
    if cel is None or cel.expression.strip() != "false":
        return selectors
    return (msgspec.structs.replace(selectors[0], cel=msgspec.structs.replace(cel, expression=hidden)),)


class _Compiler:
    """Compiles claim by claim; numbers the alternatives."""

    def __init__(self, classes: Mapping[str, DeviceClass], features: Features) -> None:
        self._classes = classes
        self._features = features
        self._next_id = 0

    def claim(self, claim: ResourceClaim) -> ClaimPlan:
        constraints, refusal = self._constraints(claim)
        views: list[list[str | None]] = [[] for _ in constraints]
        requests = tuple(
            self._request(claim, request, constraints, views) for request in claim.spec.devices.requests
        )
        return ClaimPlan(
            name=claim_name(claim),
            claim=claim,
            requests=requests,
            constraints=tuple(
                msgspec.structs.replace(item, views=tuple(seen)) if seen not in ([], [None]) else item
                for item, seen in zip(constraints, views, strict=True)
            ),
            refusal=refusal,
            topology=claim.metadata.annotations.get(TOPOLOGY_ANNOTATION, ""),
        )

    def _constraints(self, claim: ResourceClaim) -> tuple[tuple[Constraint, ...], str | None]:
        built: list[Constraint] = []
        for index, constraint in enumerate(claim.spec.devices.constraints):
            if constraint.match_attribute is not None:
                built.append(Constraint(constraint.match_attribute, False, constraint.requests))
            elif constraint.distinct_attribute is not None:
                built.append(Constraint(constraint.distinct_attribute, True, constraint.requests))
            else:
                return tuple(built), (
                    f"claim {claim_name(claim)}, constraint #{index}: "
                    "empty constraint (unsupported constraint type?)"
                )
        return tuple(built), None

    def _request(
        self,
        claim: ResourceClaim,
        request: DeviceRequest,
        constraints: tuple[Constraint, ...],
        views: list[list[str | None]],
    ) -> Request:
        who = f"claim {claim_name(claim)}, request {request.name}"
        if request.first_available:
            if not self._features.prioritized_list:
                refusal = f"{who}: has subrequests, but the DRAPrioritizedList feature is disabled"
                return Request(request.name, (), True, refusal)
            built = tuple(
                self._alternative(claim, request.name, sub, index, constraints, views)
                for index, sub in enumerate(request.first_available)
            )
            return Request(request.name, built, True, self._no_capacity(claim, request))
        if request.exactly is None:
            refusal = f"{who}: missing device class name (unsupported request type?)"
            return Request(request.name, (), False, refusal)
        only = self._alternative(claim, request.name, request.exactly, 0, constraints, views)
        return Request(request.name, (only,), False, self._no_capacity(claim, request))

    def _no_capacity(self, claim: ResourceClaim, request: DeviceRequest) -> str | None:
        """The refusal of capacity requests while the feature is off, met before all others of a request."""
        if self._features.consumable_capacity:
            return None
        tail = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly is not None and request.exactly.capacity is not None:
            return f"claim {claim_name(claim)}, request {request.name}: {tail}"
        for sub in request.first_available:
            if sub.capacity is not None:
                return f"claim {claim_name(claim)}, subrequest {sub.name}: {tail}"
        return None

    def _alternative(
        self,
        claim: ResourceClaim,
        request: str,
        wanted: ExactDeviceRequest | DeviceSubRequest,
        index: int,
        constraints: tuple[Constraint, ...],
        views: list[list[str | None]],
    ) -> Alternative:
        sub = wanted.name if isinstance(wanted, DeviceSubRequest) else None
        device_class = self._classes.get(wanted.device_class_name)
        identifier = self._next_id
        self._next_id += 1
        selectors = _selectors(claim, wanted, device_class)
        expressions = tuple([selector.expression for selector in selectors])
        capacity = wanted.capacity.requests if wanted.capacity is not None else {}
        wants = tuple(sorted(capacity.items())) if capacity else ()
        covering: tuple[int, ...] = ()
        seen: tuple[int, ...] = ()
        if constraints:
            covering = tuple([i for i, item in enumerate(constraints) if item.covers(request, sub)])
            derived = {item.name: item.expression for item in wanted.derived_attributes}
            seen = tuple([_view(views[i], derived.get(constraints[i].attribute)) for i in covering])
        return Alternative(
            id=identifier,
            name=request if sub is None else f"{request}/{sub}",
            own_name=request if sub is None else sub,
            index=index,
            device_class=device_class,
            selectors=selectors,
            all_devices=wanted.allocation_mode == "All",
            count=wanted.count or 1,
            admin=isinstance(wanted, ExactDeviceRequest) and bool(wanted.admin_access),
            tolerations=wanted.tolerations,
            capacity=capacity,
            constraints=covering,
            views=seen,
            expressions=expressions,
            wants=wants,
            kind=(expressions, wanted.tolerations, wants),
            refusal=_refusal(claim, request, wanted, device_class, self._features),
        )


def _view(known: list[str | None], expression: str | None) -> int:
    """The index of a way to find a value."""
    if expression not in known:
        known.append(expression)
    return known.index(expression)


def _selectors(
    claim: ResourceClaim, wanted: ExactDeviceRequest | DeviceSubRequest, device_class: DeviceClass | None
) -> tuple[Selector, ...]:
    found: list[Selector] = []
    if device_class is not None:
        for index, selector in enumerate(class_selectors(device_class)):
            expression = selector.cel.expression if selector.cel else ""
            found.append(Selector(expression, f"class {device_class.metadata.name}: selector #{index}"))
    for index, selector in enumerate(wanted.selectors):
        expression = selector.cel.expression if selector.cel else ""
        found.append(Selector(expression, f"claim {claim_name(claim)}: selector #{index}"))
    return tuple(found)


def _refusal(
    claim: ResourceClaim,
    request: str,
    wanted: ExactDeviceRequest | DeviceSubRequest,
    device_class: DeviceClass | None,
    features: Features,
) -> str | None:
    """The checks of ``validateDeviceRequest``, in its order and words."""
    sub = wanted.name if isinstance(wanted, DeviceSubRequest) else None
    who = f"claim {claim_name(claim)}, request {sub or request}"
    if wanted.derived_attributes and not features.derived_attributes:
        return f"{who}: cannot handle request with derived attributes, the feature is disabled"
    for index, selector in enumerate(wanted.selectors):
        if selector.cel is None:
            return f"{who}, selector #{index}: CEL expression empty (unsupported selector type?)"
    asks = isinstance(wanted, ExactDeviceRequest) and wanted.admin_access is not None
    if asks and not features.admin_access:
        return f"{who}: admin access is requested, but the feature is disabled"
    if not wanted.device_class_name:
        return f"{who}: missing device class name (unsupported request type?)"
    if device_class is None:
        return (
            f"{who}: could not retrieve device class {wanted.device_class_name}: "
            f'deviceclass.resource.k8s.io "{wanted.device_class_name}" not found'
        )
    if wanted.allocation_mode not in ("", "ExactCount", "All"):
        return f"{who}: unsupported count mode {wanted.allocation_mode}"
    return None
