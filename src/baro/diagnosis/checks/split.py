"""Check *split pods*: running pods whose GPUs are linked worse than the machine could link as many.

For every pod that holds several GPUs of one node (through claims, or through a device plugin where the
kubelet's pod-resources dump tells which): predicted GB/s of its set, of the best set it could have now, and
of the machine's best. A set that no other beats is not split, however slow the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from baro.allocator.graph import BAND, Shape
from baro.allocator.problem import bits
from baro.diagnosis.checks import tp_step
from baro.diagnosis.checks.board import Board, NodeView, PodView
from baro.diagnosis.checks.problem import Lost, Problem, problem
from baro.diagnosis.checks.resources import gpu_id
from baro.diagnosis.checks.stacks import plugin_sets
from baro.inventory import DeviceKey
from baro.topology.bandwidth import Prediction
from baro.topology.text import figure, set_text

NAME = "split"


class SetOfPod(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that one pod holds on one node, as a mask over the positions of the node's graph."""

    pod: PodView
    view: NodeView
    mask: int

    @property
    def size(self) -> int:
        return self.mask.bit_count()

    @property
    def keys(self) -> tuple[DeviceKey, ...]:
        return tuple(self.view.keys[at] for at in bits(self.mask))


def check(board: Board) -> Iterator[Problem]:
    """One problem for each split pod."""
    for held in sets(board):
        if held.size > 1:
            yield from _split(board, held)


def sets(board: Board) -> Iterator[SetOfPod]:
    """Pods with the published GPUs they hold, node by node."""
    told: set[str] = set()
    for pod in board.pods:
        if pod.done or not pod.pod.spec.node_name or not pod.claims:
            continue
        view = board.view(pod.pod.spec.node_name)
        if view is None:
            continue
        position = {key: at for at, key in enumerate(view.keys)}
        mask = 0
        for key in pod.claims:
            claim = board.claims.get(key)
            allocation = claim.status.allocation if claim is not None else None
            for result in allocation.devices.results if allocation else ():
                at = position.get(DeviceKey(result.driver, result.pool, result.device))
                if at is not None and not result.admin_access:
                    mask |= 1 << at
        if mask:
            told.add(pod.name)
            yield SetOfPod(pod=pod, view=view, mask=mask)
    for node, pod, keys in plugin_sets(board):
        view = board.view(node)
        if view is not None and pod.name not in told:
            mask = sum(1 << at for at, key in enumerate(view.keys) if key in keys)
            yield SetOfPod(pod=pod, view=view, mask=mask)


def _split(board: Board, held: SetOfPod) -> Iterator[Problem]:
    shape = held.view.graph.shape
    if shape.uniform:
        return
    now = shape.predict(held.mask)
    everywhere = best_within(held.view, held.view.published, held.size)
    if everywhere is None or now.score >= everywhere.score * BAND:
        return
    possible = best_within(held.view, held.mask | held.view.free, held.size)
    movable = possible is not None and now.score < possible.score * BAND
    yield _problem(board, held, now, possible if movable else None, everywhere)


def best_within(view: NodeView, allowed: int, size: int) -> Prediction | None:
    """The best set of a size among some positions; None when there are not enough."""
    return _best_of(view.graph.shape, allowed, size)


@lru_cache(maxsize=4096)
def _best_of(shape: Shape, allowed: int, size: int) -> Prediction | None:
    """Nodes of one shape share the answer."""
    found = shape.predictor.best_sets([shape.indices[at] for at in bits(allowed)], size)
    return found[0] if found else None


def _problem(
    board: Board, held: SetOfPod, now: Prediction, possible: Prediction | None, best: Prediction
) -> Problem:
    node = held.view.name
    shape = held.view.graph.shape
    now_gbps, best_gbps = shape.gbps(held.mask), _told(held.view, best)
    product = shape.machine.gpus[0].product_name if shape.machine.gpus else None
    slower = tp_step.slowdown(held.size, now_gbps, best_gbps, product) if now_gbps and best_gbps else None
    since = board.hours_since(_started(held.pod))
    shown = set_text(now.gpus)
    meta = held.pod.pod.metadata
    could = f"{_gbps(best_gbps)} possible"
    if possible is None:
        could += " on this machine, but not with what is free there now"
    message = (
        f"pod {held.pod.name} has GPUs {shown} of {node}: {_gbps(now_gbps)} over "
        f"{now.slowest_kind or 'unknown links'}, {could}"
        + (f"; a TP={held.size} step takes {slower:.1f}× as long" if slower else "")
    )
    evidence = [
        f"slowest hop {now.slowest_hop[0]}-{now.slowest_hop[1]}: {now.slowest_kind}"
        if now.slowest_hop
        else "",
        f"best set of {held.size} on {node}: {set_text(best.gpus)}",
        f"best set with what is free now: {set_text(possible.gpus)}" if possible else "",
        f"graph from {held.view.graph.source}; GB/s are {now.confidence.value}",
        tp_step.BASIS if slower else "the slow-down is unknown: a link's GB/s is not known",
    ]
    return problem(
        NAME,
        "gpu-set-split",
        message,
        subject=f"Pod {held.pod.name}",
        node=node,
        evidence=[line for line in evidence if line],
        next=(
            f"baro explain {meta.namespace}/{meta.name}",
            f"kubectl get resourceclaims -n {meta.namespace} -o yaml",
        ),
        lost=Lost(
            gpus=frozenset(gpu_id(node, key) for key in held.keys),
            share=None if slower is None else 1 - 1 / slower,
            hours=since,
            basis=f"{held.size} GPUs × (1 - 1/slow-down of a TP step)",
        ),
        facts={
            "gpus": list(now.gpus),
            "gbps": now_gbps,
            "possibleGbps": _told(held.view, possible) if possible else None,
            "bestGbps": best_gbps,
            "best": list(best.gpus),
            "slowdown": slower and round(slower, 2),
            "slowestKind": now.slowest_kind,
        },
    )


def _told(view: NodeView, prediction: Prediction) -> float | None:
    """GB/s to print: not where a link of the set is only guessed at."""
    position = {index: at for at, index in enumerate(view.graph.shape.indices)}
    return view.graph.shape.gbps(sum(1 << position[gpu] for gpu in prediction.gpus))


def _gbps(value: float | None) -> str:
    return "GB/s unknown" if value is None else f"{figure(value)} GB/s"


def _started(pod: PodView) -> str | None:
    for item in pod.pod.status.conditions:
        if item.type == "PodScheduled" and item.last_transition_time:
            return item.last_transition_time
    return pod.pod.metadata.creation_timestamp
