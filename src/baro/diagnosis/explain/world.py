"""The evidence, indexed for questions about single pods: who holds what, what runs where, which names exist.

Built once for any number of questions. Everything is read from the evidence; what it lacks is in ``lacks``
and leads to "unknown", never to a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property
from typing import TypeVar, cast

import msgspec

from baro.allocator import DEFAULT_1_37, Features, SelectorEngine, cel_engine
from baro.diagnosis.evidence import Evidence
from baro.diagnosis.explain.rules.room import with_whole
from baro.diagnosis.explain.rules.storage import Storage, storage
from baro.diagnosis.explain.rules.wire import NO_WISH, Term, Wishes, wishes
from baro.inventory import Inventory, Snapshot
from baro.model import pods
from baro.model.errors import BaroError
from baro.model.kinds.core import Event, Pod
from baro.model.kinds.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from baro.placement.gang.objects import Groups

T = TypeVar("T")
Key = tuple[str, str]
"""(namespace, name); files without a namespace mean ``default``, as kubectl does."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask. ``work`` bounds the what-if questions of one explanation: allocations tried; ``told`` says
    where the features are known from."""

    features: Features = DEFAULT_1_37
    told: str = ""
    node: str | None = None
    work: int = 20_000
    engine: Callable[[Inventory], SelectorEngine] = cel_engine


def key_of(item: Pod | ResourceClaim | ResourceClaimTemplate) -> Key:
    """Namespace and name."""
    return item.metadata.namespace or "default", item.metadata.name


class World:
    """Indexes over one ``Evidence``."""

    def __init__(self, evidence: Evidence, options: Options | None = None) -> None:
        self.evidence = evidence
        self.options = options or Options()
        snapshot = evidence.snapshot
        if not self.options.features.taint_rules:
            snapshot = msgspec.structs.replace(snapshot, taint_rules=())
        self.snapshot: Snapshot = snapshot
        self.pods: dict[Key, Pod] = {key_of(pod): pod for pod in snapshot.pods}
        self.claims: dict[Key, ResourceClaim] = {key_of(claim): claim for claim in snapshot.claims}
        self.templates = {key_of(template): template for template in evidence.templates}
        self._found: dict[tuple[object, ...], object] = {}

    def once(self, about: tuple[object, ...], find: Callable[[], T]) -> T:
        """What ``find`` gives, asked once for the same ``about``, whose first item says what it is."""
        if about not in self._found:
            self._found[about] = find()
        return cast("T", self._found[about])

    @cached_property
    def groups(self) -> Groups:
        """PodGroups and Workloads in the evidence; those with fields of a wrong type are left out."""
        found = Groups()
        for document in self.evidence.documents:
            if document.kind in ("PodGroup", "Workload"):
                with suppress(BaroError):
                    found.add(document.body)
        return found

    @staticmethod
    def key(pod: Pod) -> Key:
        """Namespace and name of a pod."""
        return key_of(pod)

    # --- what filters beside devices look at --------------------------------------------------------------

    @cached_property
    def wishes(self) -> Wishes:
        """Host ports, affinity, spread, volumes and requests of the pod as a whole, by pod."""
        return wishes(self.evidence)

    @cached_property
    def anti_affine(self) -> tuple[tuple[Pod, tuple[Term, ...]], ...]:
        """Bound pods that do not want certain others near, with their terms."""
        return tuple(
            (pod, wish.anti_affinity)
            for key, wish in self.wishes.of.items()
            if wish.anti_affinity
            and (pod := self.pods.get(key)) is not None
            and pod.spec.node_name
            and not pods.done(pod)
        )

    @cached_property
    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the namespaces in the evidence."""
        return {item.metadata.name: item.metadata.labels for item in self.evidence.namespaces}

    @cached_property
    def storage(self) -> Storage:
        """PersistentVolumeClaims, PersistentVolumes, StorageClasses."""
        return storage(self.evidence)

    @cached_property
    def users_of_volume(self) -> Mapping[Key, Key]:
        """PVC → a pod that runs with it. Pods of nodes that are not in the evidence do not count."""
        found: dict[Key, Key] = {}
        for name in self.inventory.nodes:
            for pod in self.bound.get(name, ()):
                key = key_of(pod)
                for claim, _ in self.wishes.of.get(key, NO_WISH).volumes:
                    found.setdefault((key[0], claim), key)
        return found

    # --- devices and nodes --------------------------------------------------------------------------------

    @cached_property
    def inventory(self) -> Inventory:
        """The devices of the whole cluster. Not changed by any question."""
        return Inventory(self.snapshot)

    @cached_property
    def engine(self) -> SelectorEngine:
        return self.options.engine(self.inventory)

    @cached_property
    def slices_of_pool(self) -> Mapping[tuple[str, str], tuple[ResourceSlice, ...]]:
        """Slice objects per (driver, pool), in the order read."""
        found: dict[tuple[str, str], list[ResourceSlice]] = {}
        for item in self.snapshot.slices:
            found.setdefault((item.spec.driver, item.spec.pool.name), []).append(item)
        return {key: tuple(items) for key, items in found.items()}

    @cached_property
    def slices_of_node(self) -> Mapping[str, tuple[ResourceSlice, ...]]:
        """Slices by the node that they name."""
        found: dict[str, list[ResourceSlice]] = {}
        for item in self.snapshot.slices:
            if item.spec.node_name:
                found.setdefault(item.spec.node_name, []).append(item)
        return {key: tuple(items) for key, items in found.items()}

    @cached_property
    def floating_slices(self) -> tuple[ResourceSlice, ...]:
        """Slices that name no node: devices on the network."""
        return tuple(item for item in self.snapshot.slices if not item.spec.node_name)

    @cached_property
    def holders_of_pool(self) -> Mapping[tuple[str, str], tuple[ResourceClaim, ...]]:
        """Allocated claims per (driver, pool) that they hold devices of."""
        found: dict[tuple[str, str], list[ResourceClaim]] = {}
        for claim in self.snapshot.claims:
            allocation = claim.status.allocation
            held = {(r.driver, r.pool) for r in allocation.devices.results} if allocation else ()
            for pool in held:
                found.setdefault(pool, []).append(claim)
        return {key: tuple(items) for key, items in found.items()}

    @cached_property
    def used(self) -> Mapping[str, Mapping[str, int]]:
        """Node → what the pods bound to it ask, as kube-scheduler counts: ended pods do not."""
        found: dict[str, dict[str, int]] = {}
        for pod in self.snapshot.pods:
            if pod.spec.node_name and not pods.done(pod):
                pods.add(found.setdefault(pod.spec.node_name, {}), self.asked(pod))
        return found

    @cached_property
    def bound(self) -> Mapping[str, tuple[Pod, ...]]:
        """Node → pods bound to it that have not ended."""
        found: dict[str, list[Pod]] = {}
        for pod in self.snapshot.pods:
            if pod.spec.node_name and not pods.done(pod):
                found.setdefault(pod.spec.node_name, []).append(pod)
        return {name: tuple(items) for name, items in found.items()}

    def asked(self, pod: Pod) -> Mapping[str, int]:
        """What a pod asks of its node; remembered, since most pods of a cluster are alike."""
        whole = self.wishes.of.get(key_of(pod), NO_WISH).requests
        shape = (pod.spec.containers, pod.spec.init_containers, pod.spec.overhead, whole)
        key = msgspec.json.encode(shape)
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = with_whole(pods.requests(pod), whole, pod.spec.overhead)
        return found

    @cached_property
    def _asked(self) -> dict[bytes, dict[str, int]]:
        return {}

    # --- who belongs to whom ------------------------------------------------------------------------------

    @cached_property
    def _owned(self) -> Mapping[tuple[str, str], tuple[ResourceClaim, ...]]:
        """(namespace, owner's name) → claims whose controller is a pod of that name."""
        found: dict[tuple[str, str], list[ResourceClaim]] = {}
        for claim in self.snapshot.claims:
            for owner in claim.metadata.owner_references:
                if owner.controller and owner.kind in ("Pod", ""):
                    found.setdefault((key_of(claim)[0], owner.name), []).append(claim)
        return {key: tuple(items) for key, items in found.items()}

    def owned(self, pod: Pod) -> tuple[ResourceClaim, ...]:
        """Claims made for this very pod."""
        return tuple(claim for claim in self._owned.get(key_of(pod), ()) if pods.owned_by(claim, pod))

    @cached_property
    def users(self) -> Mapping[Key, tuple[Pod, ...]]:
        """Claim → pods that refer to it and have not ended."""
        found: dict[Key, list[Pod]] = {}
        for pod in self.snapshot.pods:
            if pods.done(pod):
                continue
            for ref in pods.claim_refs(pod, self.owned(pod) if pod.spec.resource_claims else ()):
                if ref.name is not None:
                    found.setdefault((key_of(pod)[0], ref.name), []).append(pod)
        return {key: tuple(items) for key, items in found.items()}

    def holder(self, claim: str) -> str:
        """A holder by what people know: the pod that its claim is reserved for, else the claim."""
        namespace, _, name = claim.rpartition("/")
        found = self.claims.get((namespace or "default", name))
        consumers = [ref.name for ref in found.status.reserved_for] if found else []
        if not consumers:
            return f"claim {claim}, no pod" if found else f"claim {claim}"
        more = f" and {len(consumers) - 1} more" if len(consumers) > 1 else ""
        return f"pod {namespace or 'default'}/{consumers[0]}{more}"

    def events_of(self, pod: Pod) -> tuple[Event, ...]:
        """Events about a pod, oldest first."""
        return self._events.get(key_of(pod), ())

    @cached_property
    def _events(self) -> Mapping[Key, tuple[Event, ...]]:
        found: dict[Key, list[Event]] = {}
        for event in self.evidence.events:
            about = event.involved_object
            if about.kind == "Pod":
                found.setdefault((about.namespace or "default", about.name), []).append(event)
        return {key: tuple(sorted(items, key=moment)) for key, items in found.items()}

    # --- extended resources -------------------------------------------------------------------------------

    @cached_property
    def class_of_resource(self) -> Mapping[str, DeviceClass]:
        """Extended resource name → the class that serves it: explicit names, the newest class first and then
        by name; and the implicit name of every class (KEP-5004)."""
        found: dict[str, DeviceClass] = {}
        for item in sorted(self.snapshot.classes, key=_age_and_name):
            name = item.spec.extended_resource_name
            if name:
                before = found.get(name)
                same_age = before is not None and (
                    before.metadata.creation_timestamp == item.metadata.creation_timestamp
                )
                if not same_age:
                    found[name] = item
        for item in self.snapshot.classes:
            found[f"{pods.IMPLICIT_DOMAIN}/{item.metadata.name}"] = item
        return found

    def extended_claim(self, pod: Pod) -> ResourceClaim | None:
        """The claim that kube-scheduler made for the pod's extended resources, if it has."""
        for claim in self.owned(pod):
            if claim.metadata.annotations.get(pods.EXTENDED_CLAIM_ANNOTATION) == "true":
                return claim
        return None


def _age_and_name(item: DeviceClass) -> tuple[str, str]:
    return item.metadata.creation_timestamp or "", item.metadata.name


def moment(event: Event) -> str:
    """When an event happened last, RFC 3339; empty when it does not say."""
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""


def near(name: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Names that are probably meant, the nearest first."""
    return tuple(get_close_matches(name, sorted(set(known)), n=most, cutoff=0.6))
