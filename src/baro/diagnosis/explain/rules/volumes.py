"""PersistentVolumeClaims of a pod: VolumeRestrictions, VolumeBinding and VolumeZone.

First what stops the pod as such (a claim that is not there, is lost or deleted, or waits for its volume
outside the scheduler), then node by node: where the bound volumes can be reached, whether a volume can be
found or made there for the others. Free space (CSIStorageCapacity), limits of attached volumes and volumes
written into the pod itself are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Cause, Step
from baro.diagnosis.explain.rules.labels import selects
from baro.diagnosis.explain.rules.storage import Storage
from baro.diagnosis.explain.rules.wire import Volume, VolumeClaim, Wish
from baro.inventory.node_selection import NodeSelectorError, matches
from baro.model import pods
from baro.model.kinds.core import Node, Pod

if TYPE_CHECKING:
    from baro.diagnosis.explain.world import World

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_ZONE = "node(s) had no available volume zone"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
    " another pod"
)
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
_BOUND = "pv.kubernetes.io/bind-completed"
_SELECTED = "volume.kubernetes.io/selected-node"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_BETA = "failure-domain.beta.kubernetes.io/"
_ZONES = (f"{_BETA}zone", f"{_BETA}region", "topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class Volumes:
    """The claims of one pod. ``notes`` say what could not be looked at."""

    plugin = "VolumeBinding"

    def __init__(self, world: World, pod: Pod, wish: Wish) -> None:
        self._world = world
        self._pod = pod
        self._store = world.storage if wish.volumes else Storage({}, {}, {}, ())
        self._namespace = world.key(pod)[0]
        self._names = wish.volumes
        self._claims = {
            name: claim
            for name, _ in wish.volumes
            if (claim := self._store.claims.get((self._namespace, name))) is not None
        }
        self._words = list(self._stops())
        self._blind = bool(self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the pod's volumes is not known."""
        lacking = [
            name
            for name, _ in self._names
            if name not in self._claims and not self._store.knows("persistentvolumeclaims")
        ]
        needed = ["persistentvolumeclaims"] if lacking else []
        if any(claim.spec.volume_name for claim in self._claims.values()):
            needed.append("persistentvolumes")
        if any(not claim.spec.volume_name for claim in self._claims.values()):
            needed += ["persistentvolumes", "storageclasses"]
        return tuple(
            f"{text}; the pod's volumes are not looked at"
            for text in self._store.unknown
            if any(text.startswith(f"{resource} ") for resource in needed)
        )

    @property
    def known(self) -> bool:
        """Whether everything is there that the answer depends on."""
        return not self._blind

    # --- the pod as such ------------------------------------------------------------------------------------

    def stops(self) -> Iterator[tuple[Cause, str]]:
        """(cause, kube-scheduler's word) of what stops the pod whatever the node is; the first one counts."""
        for message, word, evidence in self._words:
            yield (
                Cause(
                    code="pending-volume",
                    message=message,
                    evidence=evidence,
                    next=f"kubectl -n {self._namespace} get pvc",
                ),
                word,
            )

    def _stops(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        for ephemeral in (False, True):
            for name, made in self._names:
                if (
                    made is ephemeral
                    and name not in self._claims
                    and self._store.knows("persistentvolumeclaims")
                ):
                    yield self._absent(name, ephemeral=made)
        yield from self._unusable()
        waiting = [name for name, claim in self._claims.items() if self._immediate(claim)]
        if waiting:
            yield (
                f"PersistentVolumeClaim {self._namespace}/{waiting[0]} is not bound, and its class binds"
                " without waiting for a pod",
                UNBOUND,
                tuple(self._why_unbound(self._claims[name]) for name in waiting[:4]),
            )
        for claim in self._claims.values():
            volume = claim.spec.volume_name
            if volume and volume not in self._store.volumes and self._store.knows("persistentvolumes"):
                text = f'persistentvolume "{volume}" not found'
                yield f"the volume {volume} of claim {claim.metadata.name} does not exist", text, ()

    def _absent(self, name: str, *, ephemeral: bool) -> tuple[str, str, tuple[str, ...]]:
        where = f"PersistentVolumeClaim {self._namespace}/{name}"
        if ephemeral:
            word = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f"{where} of the pod's ephemeral volume has not been made", word, ()
        here = sorted(other for namespace, other in self._store.claims if namespace == self._namespace)
        evidence = f"claims in namespace {self._namespace}: {', '.join(here[:8]) or 'none'}"
        return f"{where} does not exist", f'persistentvolumeclaim "{name}" not found', (evidence,)

    def _unusable(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        for name, ephemeral in self._names:
            claim = self._claims.get(name)
            if claim is None:
                continue
            where = f"PersistentVolumeClaim {self._namespace}/{name}"
            if claim.status.phase == "Lost":
                volume = claim.spec.volume_name
                word = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
                yield f"{where} has lost its volume {volume}", word, ()
            elif claim.metadata.deletion_timestamp:
                word = f'persistentvolumeclaim "{name}" is being deleted'
                yield f"{where} is being deleted", word, ()
            elif ephemeral and not self._owned(claim):
                pod = f"{self._namespace}/{self._pod.metadata.name}"
                word = f"PVC {self._namespace}/{name} was not created for pod {pod} (pod is not owner)"
                yield f"{where} was not made for this pod", word, ()

    def _owned(self, claim: VolumeClaim) -> bool:
        return any(
            owner.controller and (not owner.uid or owner.uid == self._pod.metadata.uid)
            for owner in claim.metadata.owner_references
        )

    def _immediate(self, claim: VolumeClaim) -> bool:
        """Whether a controller, not the scheduler, has to bind the claim first."""
        if _bound(claim):
            return False
        if claim.spec.volume_name:
            return True
        name = _class_of(claim)
        item = self._store.classes.get(name)
        if item is None:
            return not name or self._store.knows("storageclasses")
        return item.volume_binding_mode != "WaitForFirstConsumer"

    def _why_unbound(self, claim: VolumeClaim) -> str:
        name = _class_of(claim)
        what = f"claim {claim.metadata.name}"
        if claim.spec.volume_name:
            return f"{what} names volume {claim.spec.volume_name} and is not bound to it yet"
        if not name:
            return f"{what} has no storage class: a volume without a class must be there for it"
        if name not in self._store.classes:
            return f"{what}: storage class {name} does not exist"
        by = self._store.classes[name].provisioner or "nobody"
        return f"{what}: storage class {name} binds at once, by {by}"

    # --- node by node ---------------------------------------------------------------------------------------

    def rejection(self, node: Node) -> Rejection | None:
        """Why the volumes keep the pod off the node. Nothing where they are not known."""
        if not self._claims or self._blind or self._words:
            return None
        return self._taken(node) or self._unreachable(node) or self._other_zone(node)

    def _taken(self, node: Node) -> Rejection | None:
        """A claim for one pod only, which a pod on some node has."""
        for name, ephemeral in self._names:
            claim = self._claims.get(name)
            if ephemeral or claim is None or "ReadWriteOncePod" not in claim.spec.access_modes:
                continue
            user = self._world.users_of_volume.get((self._namespace, name))
            if user is not None:
                who = f"pod {'/'.join(user)}"
                reason = f"claim {name} is for one pod only (ReadWriteOncePod), and {who} has it"
                return _rejected(
                    "VolumeRestrictions", reason, name, (IN_USE,), f"if {who} gave back claim {name}"
                )
        return None

    def _unreachable(self, node: Node) -> Rejection | None:
        labels = node.metadata.labels
        bound = [claim for claim in self._claims.values() if _bound(claim)]
        open_ = [claim for claim in self._claims.values() if not _bound(claim)]
        away = next((claim for claim in bound if not self._reaches(claim, labels)), None)
        reasons, words = [], []
        if away is not None:
            reasons.append(
                f"volume {away.spec.volume_name} of claim {away.metadata.name} is not reachable from it"
            )
            words.append(NODE_CONFLICT)
        stuck = self._unbindable(open_, node)
        if stuck is not None:
            claim, why = stuck
            reasons.append(f"no volume for claim {claim.metadata.name}: {why}")
            words.append(BIND_CONFLICT)
        if not words:
            return None
        names = [claim.metadata.name for claim in (away, stuck[0] if stuck else None) if claim is not None]
        lift = f"if claim {names[0]} had a volume there"
        evidence = () if away is None else tuple(self._where(away))
        return _rejected(self.plugin, "; ".join(reasons), ",".join(names), tuple(words), lift, evidence)

    def _reaches(self, claim: VolumeClaim, labels: Mapping[str, str]) -> bool:
        volume = self._store.volumes.get(claim.spec.volume_name)
        return volume is None or _affine(volume, labels)

    def _where(self, claim: VolumeClaim) -> Iterator[str]:
        volume = self._store.volumes.get(claim.spec.volume_name)
        required = volume.spec.node_affinity.required if volume is not None else None
        for term in required.node_selector_terms if required is not None else ():
            needs = [
                f"{item.key} {item.operator} [{', '.join(item.values)}]" for item in term.match_expressions
            ]
            yield f"volume {claim.spec.volume_name} is at {' and '.join(needs)}"

    def _unbindable(self, claims: Iterable[VolumeClaim], node: Node) -> tuple[VolumeClaim, str] | None:
        """The first claim for which no volume can be found or made at the node; the smallest claims choose
        first, each the smallest volume that does."""
        chosen: set[str] = set()
        to_make: list[VolumeClaim] = []
        to_match: list[VolumeClaim] = []
        for claim in claims:
            selected = claim.metadata.annotations.get(_SELECTED)
            if selected is not None and selected != node.metadata.name:
                return claim, f"it is being made for node {selected}"
            (to_match if selected is None else to_make).append(claim)
        for claim in sorted(to_match, key=_size):
            volume = self._matching(claim, node.metadata.labels, chosen)
            if volume is None:
                to_make.append(claim)
            else:
                chosen.add(volume.metadata.name)
        for claim in to_make:
            why = self._unprovided(claim, node.metadata.labels)
            if why:
                return claim, why
        return None

    def _matching(self, claim: VolumeClaim, labels: Mapping[str, str], chosen: set[str]) -> Volume | None:
        name, found = _class_of(claim), list[Volume]()
        for volume in self._store.volumes.values():
            mine = _is_for(volume, claim)
            if (
                volume.metadata.name in chosen
                or _class_of(volume) != name
                or (volume.spec.claim_ref is not None and not mine)
                or _amount(volume.spec.capacity) < _size(claim)
                or volume.spec.volume_mode != claim.spec.volume_mode
                or volume.spec.volume_attributes_class_name != claim.spec.volume_attributes_class_name
                or volume.metadata.deletion_timestamp
            ):
                continue
            if mine:
                return volume if _affine(volume, labels) else None
            if (
                volume.status.phase == "Available"
                and (claim.spec.selector is None or selects(claim.spec.selector, volume.metadata.labels))
                and _affine(volume, labels)
                and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            ):
                found.append(volume)
        return min(found, key=lambda item: _amount(item.spec.capacity), default=None)

    def _unprovided(self, claim: VolumeClaim, labels: Mapping[str, str]) -> str:
        """Why no volume is made for the claim at a node with these labels; empty when one is."""
        name = _class_of(claim)
        item = self._store.classes.get(name)
        if item is None:
            return f"storage class {name or '(none)'} does not exist"
        if item.provisioner in ("", _NO_PROVISIONER):
            return f"class {name} makes none, and none that is free fits here"
        terms = item.allowed_topologies
        if terms and not any(
            term.match_label_expressions
            and all(labels.get(one.key) in one.values for one in term.match_label_expressions)
            for term in terms
        ):
            return f"class {name} makes none in its topology (allowedTopologies)"
        return ""

    def _other_zone(self, node: Node) -> Rejection | None:
        """Zone labels of bound volumes against those of a node that has any."""
        labels = node.metadata.labels
        if not any(key in labels for key in _ZONES):
            return None
        for claim in self._claims.values():
            volume = self._store.volumes.get(claim.spec.volume_name)
            for key in _ZONES if volume is not None else ():
                value = volume.metadata.labels.get(key, "") if volume is not None else ""
                zones = {zone.strip() for zone in value.split("__")}
                here = labels.get(key, labels.get(key.replace(_BETA, "topology.kubernetes.io/")))
                if value and "" not in zones and here not in zones:
                    name = claim.metadata.name
                    reason = f"volume {claim.spec.volume_name} of claim {name} is in {key}={value}"
                    lift = f"if claim {name} had a volume there"
                    return _rejected("VolumeZone", reason, name, (NO_ZONE,), lift)
        return None


def _rejected(
    plugin: str, reason: str, key: str, words: Sequence[str], lift: str, evidence: tuple[str, ...] = ()
) -> Rejection:
    return Rejection(
        step=Step.VOLUMES,
        plugin=plugin,
        reason=reason,
        key=key,
        scheduler=tuple(words),
        lift=lift,
        evidence=evidence,
    )


def _bound(claim: VolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and _BOUND in claim.metadata.annotations


def _class_of(item: VolumeClaim | Volume) -> str:
    return item.metadata.annotations.get(_BETA_CLASS, item.spec.storage_class_name or "")


def _size(claim: VolumeClaim) -> int:
    return _amount(claim.spec.resources.requests)


def _amount(amounts: Mapping[str, str | int | float]) -> int:
    return pods.scaled(amounts.get("storage")) or 0


def _affine(volume: Volume, labels: Mapping[str, str]) -> bool:
    required = volume.spec.node_affinity.required
    try:
        return required is None or matches(required, "", labels)
    except NodeSelectorError:
        return False


def _is_for(volume: Volume, claim: VolumeClaim) -> bool:
    """``IsVolumeBoundToClaim``: by name, and by UID where the volume says one."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and ref.name == claim.metadata.name
        and (ref.namespace or "default") == (claim.metadata.namespace or "default")
        and (not ref.uid or ref.uid == claim.metadata.uid)
    )
