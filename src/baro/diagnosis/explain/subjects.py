"""Which pod or claim is meant by a name on the command line.

``pod/x``, ``claim/x``, ``ns/x``, ``pod/ns/x`` and plain ``x`` (a pod first, then a claim). A name that is not
there is an ``InputError`` with the nearest names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from baro.diagnosis.explain.rules.wire import NO_WISH
from baro.diagnosis.explain.world import Key, World, key_of, near
from baro.model import pods
from baro.model.errors import InputError
from baro.model.kinds.core import Pod
from baro.placement.gang.objects import key_of_gang

Kind = Literal["pod", "claim"]
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
}
_WORKLOADS = ("deployment", "deploy", "statefulset", "sts", "daemonset", "ds", "job", "replicaset", "rs")


class Subject(msgspec.Struct, frozen=True):
    """A pod or a claim that is in the evidence."""

    kind: Kind
    key: Key


def named(world: World, name: str) -> Subject:
    """The subject of one argument. Raises ``InputError``."""
    kind, namespace, plain = _taken_apart(world, name)
    kinds: Sequence[Kind] = (kind,) if kind else ("pod", "claim")
    for one in kinds:
        found = _find(world, one, namespace, plain)
        if found is not None:
            return Subject(one, found)
    raise _not_there(world, kinds, namespace, plain)


def _taken_apart(world: World, name: str) -> tuple[Kind | None, str | None, str]:
    parts = name.split("/")
    kind: Kind | None = None
    if len(parts) > 1 and parts[0].casefold() in _KINDS:
        kind = _KINDS[parts[0].casefold()]
        parts = parts[1:]
    elif len(parts) > 1 and parts[0].casefold() in _WORKLOADS:
        pods_of = [f"pod/{pod.metadata.name}" for pod in world.snapshot.pods if _made_by(pod, parts[-1])]
        raise InputError(
            f"{name}: pods and claims are explained, not what makes them",
            next_step=f"name one of its pods: {', '.join(pods_of[:4])}"
            if pods_of
            else "name one of its pods",
        )
    if len(parts) > 2 or not all(parts):
        raise InputError(f"{name!r} is no name", next_step="pod/NAME, claim/NAME, NAMESPACE/NAME or NAME")
    if len(parts) == 2:
        return kind, parts[0], parts[1]
    return kind, world.evidence.namespace or None, parts[0]


def _made_by(pod: Pod, owner: str) -> bool:
    return any(ref.name.startswith(owner) for ref in pod.metadata.owner_references)


def _find(world: World, kind: Kind, namespace: str | None, name: str) -> Key | None:
    """Without a namespace any will do, ``default`` before the others."""
    known = world.pods if kind == "pod" else world.claims
    if namespace is not None:
        return (namespace, name) if (namespace, name) in known else None
    found = sorted((key for key in known if key[1] == name), key=lambda key: (key[0] != "default", key))
    if len(found) > 1 and found[0][0] != "default":
        listed = ", ".join("/".join(key) for key in found)
        raise InputError(f"{name} is in more than one namespace", next_step=f"name one of: {listed}")
    return found[0] if found else None


def _not_there(world: World, kinds: Sequence[Kind], namespace: str | None, name: str) -> InputError:
    known = {
        f"{kind}/{'/'.join(key) if namespace is None else key[1]}": key
        for kind in kinds
        for key in (world.pods if kind == "pod" else world.claims)
    }
    elsewhere = [text for text, key in known.items() if key[1] == name]
    by_name: dict[str, str] = {}
    for text, key in known.items():
        by_name.setdefault(key[1], text)
    close = elsewhere or [by_name[item] for item in near(name, by_name)]
    lacking = world.evidence.lacks(*("pods" if kind == "pod" else "resourceclaims" for kind in kinds))
    what = " or ".join(kinds)
    where = f" in namespace {namespace}" if namespace else ""
    step = f"nearest: {', '.join(close)}" if close else "baro explain -A lists all pending pods"
    if lacking:
        step = f"{lacking[0].source} could not be read: {lacking[0].why}"
    if world.evidence.unreadable:
        step += (
            f"; {len(world.evidence.unreadable)} objects could not be read: {world.evidence.unreadable[0]}"
        )
    origin = f" in {world.evidence.origin}" if world.evidence.origin else ""
    return InputError(f"there is no {what} {name}{where}{origin}", next_step=step)


def pending(world: World) -> tuple[Subject, ...]:
    """All pods that wait for a node, in order of name; in the evidence's namespace if it has one."""
    namespace = world.evidence.namespace
    return tuple(
        Subject("pod", key_of(pod))
        for pod in sorted(world.snapshot.pods, key=key_of)
        if not pod.spec.node_name and not pods.done(pod) and (not namespace or key_of(pod)[0] == namespace)
    )


def alike(world: World, subjects: Sequence[Subject]) -> list[tuple[Subject, tuple[Subject, ...]]]:
    """Pods that ask for the same in every respect, once each, with the others like it: replicas of one
    workload are explained together."""
    found: dict[object, list[Subject]] = {}
    for subject in subjects:
        key: object = subject if subject.kind == "claim" else _shape(world, world.pods[subject.key])
        found.setdefault(key, []).append(subject)
    return [(first, tuple(others)) for first, *others in found.values()]


def _shape(world: World, pod: Pod) -> bytes:
    """Everything of a pod that its explanation depends on, without the names of its claims."""
    namespace = key_of(pod)[0]
    claims: list[object] = []
    for ref in pods.claim_refs(pod, world.owned(pod)):
        claim = world.claims.get((namespace, ref.name or ""))
        if claim is None:
            claims.append((ref.name if ref.template is None else None, ref.template, ref.needed))
        elif claim.status.allocation is not None or claim.metadata.deletion_timestamp:
            claims.append((claim.metadata.name, claim.metadata.uid))
        else:
            own = pods.owned_by(claim, pod) or not claim.metadata.owner_references
            claims.append((claim.spec, sorted(claim.metadata.annotations.items()), own))
    bare = msgspec.structs.replace(pod.spec, resource_claims=())
    annotations = [(k, v) for k, v in sorted(pod.metadata.annotations.items()) if k.startswith("baro.dev/")]
    wish = world.wishes.of.get(key_of(pod), NO_WISH)
    between_pods = wish.affinity or wish.anti_affinity or wish.spread or world.anti_affine
    told = (
        namespace,
        bare,
        wish,
        sorted(pod.metadata.labels.items()) if between_pods else (),
        key_of_gang(pod),
        claims,
        annotations,
        bool(pod.status.phase),
        bool(pod.metadata.deletion_timestamp),
    )
    return msgspec.json.encode(told, order="sorted")
