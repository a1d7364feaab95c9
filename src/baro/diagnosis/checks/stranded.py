"""Check *stranded capacity*: GPUs that are free and yet of no use for what is asked for.

Free GPUs that form no well-linked set of a size that pods ask for, and free MIG memory that no profile
fits. Where one pod's move would free such a set, the move is named; it is found by asking for the best sets
with that pod's GPUs added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgspec

from baro.allocator.problem import bits
from baro.diagnosis.checks.board import Board, NodeView
from baro.diagnosis.checks.problem import Lost, Problem, count, named, problem
from baro.diagnosis.checks.resources import gpu_id
from baro.diagnosis.checks.split import SetOfPod, sets
from baro.inventory import NodePool
from baro.model.errors import BaroError
from baro.model.kinds.resource import ResourceClaim
from baro.model.quantity import Quantity
from baro.topology.text import set_text

NAME = "stranded"
_MOST_MOVES = 3


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of whole GPUs in a cluster: free ones, and free nodes' worth by size of set."""

    free: int
    total: int
    sets: Mapping[int, int]
    """Size → disjoint well-linked sets of that size still free."""


def check(board: Board) -> Iterator[Problem]:
    """Nodes with stranded GPUs, then pools with MIG holes."""
    asked = sizes_asked(board)
    by_node: dict[str, list[SetOfPod]] = {}
    for held in sets(board):
        by_node.setdefault(held.view.name, []).append(held)
    for node in board.published_gpus:
        view = board.view(node)
        if view is not None and view.free and board.usable(node):
            yield from _stranded(view, asked, by_node.get(node, []))
    yield from _mig_holes(board)


def sizes_asked(board: Board) -> Counter[int]:
    """How many pods ask for how many whole GPUs, pending and running alike; sizes above 1."""
    found: Counter[int] = Counter()
    for view in board.pods:
        if view.done:
            continue
        claims = [claim for key in view.claims if (claim := board.claims.get(key)) is not None]
        # A pod may be counted and served by a claim at once: the claim that stands for the count is no more.
        wanted = max(view.gpus, sum(_gpus_of(board, claim) for claim in claims))
        if wanted > 1:
            found[wanted] += 1
    waiting = (claim for claim in board.snapshot.claims if claim.status.allocation is None)
    for claim in waiting:
        if (claim.metadata.namespace, claim.metadata.name) not in board.users:
            wanted = _gpus_of(board, claim)
            if wanted > 1:
                found[wanted] += 1
    return found


def _gpus_of(board: Board, claim: ResourceClaim) -> int:
    """Whole GPUs of a claim: those it holds, else those it asks for (of drivers that publish GPUs)."""
    allocation = claim.status.allocation
    if allocation is not None:
        return sum(
            (result.driver, result.pool) in board.gpu_pools and not result.admin_access
            for result in allocation.devices.results
        )
    wanted = 0
    for request in claim.spec.devices.requests:
        exact = request.exactly
        if (
            exact is not None
            and exact.allocation_mode in ("", "ExactCount")
            and "gpu" in exact.device_class_name
        ):
            wanted += exact.count or 1
    return wanted


def whole_gpus(board: Board, lost: Collection[str] = ()) -> Whole:
    """What is left, for the head of the report; GPUs in ``lost`` are of no use though nobody holds them."""
    sizes = sorted(sizes_asked(board)) or [2, 4, 8]
    free, total, found = 0, 0, dict.fromkeys(sizes, 0)
    for node in board.published_gpus:
        view = board.view(node)
        if view is None:
            continue
        total += view.published.bit_count()
        if not board.usable(node):
            continue
        left = view.free
        for at in bits(view.free) if lost else ():
            if gpu_id(node, view.keys[at]) in lost:
                left &= ~(1 << at)
        free += left.bit_count()
        for size in sizes:
            found[size] += _placeable(view, left, size)
    return Whole(free=free, total=total, sets=found)


def _placeable(view: NodeView, free: int, size: int) -> int:
    """Disjoint sets of that size in the machine's best band that the free GPUs still hold."""
    if size > view.graph.shape.size or free.bit_count() < size:
        return 0
    shape = view.graph.shape
    if shape.uniform:
        return free.bit_count() // size
    if size in shape.sizes():
        return shape.placeable(free)[shape.sizes().index(size)]
    found = 0
    for group in shape.good(size):  # of odd sizes one after another: enough to tell none from some
        if not group & ~free:
            free &= ~group
            found += 1
    return found


def _stranded(view: NodeView, asked: Counter[int], held: list[SetOfPod]) -> Iterator[Problem]:
    """Enough free GPUs for a size that is asked for, but no well-linked set of it."""
    if view.graph.shape.uniform:
        return
    short = [
        size
        for size in sorted(asked)
        if view.free.bit_count() >= size
        and size <= view.graph.shape.size
        and not _placeable(view, view.free, size)
    ]
    if not short:
        return
    # GPUs that no smaller size in use could take either are stranded; the others are only badly placed.
    smaller = max((size for size in asked if size < short[0]), default=1)
    kept = _placeable(view, view.free, smaller) * smaller if smaller > 1 else 0
    stranded = view.free.bit_count() - kept
    moves = list(_moves(view, held, short[0]))
    keys = [view.keys[at] for at in bits(view.free)][: max(stranded, 0)]
    yield problem(
        NAME,
        "stranded-gpus",
        f"node {view.name}: {view.free.bit_count()} GPUs are free and form no well-linked set of "
        f"{' or '.join(map(str, short))}, which {_askers(sum(asked[size] for size in short))}"
        + (f"; {moves[0]}" if moves else ""),
        subject=f"Node {view.name}",
        node=view.name,
        evidence=(
            f"free: {_text(view, view.free)}",
            f"well-linked sets of {short[0]} on this machine: "
            f"{named([_text(view, mask) for mask in view.graph.shape.good(short[0])], 4)}",
            *moves,
        ),
        next=(
            f"baro place -A --node {view.name}",
            f"kubectl get pods -A --field-selector spec.nodeName={view.name}",
        ),
        lost=Lost(
            gpus=frozenset(gpu_id(view.name, key) for key in keys),
            basis=f"free GPUs that neither form a set of {short[0]} nor of a smaller size that is asked for",
        ),
        facts={
            "free": [view.graph.shape.indices[at] for at in bits(view.free)],
            "sizes": short,
            "moves": moves,
        },
    )


def _askers(number: int) -> str:
    return "1 pod asks for" if number == 1 else f"{number:,} pods ask for"


def _text(view: NodeView, mask: int) -> str:
    return set_text(view.graph.shape.indices[at] for at in bits(mask))


def _moves(view: NodeView, held: list[SetOfPod], size: int) -> Iterator[str]:
    """Pods whose move away would free a well-linked set, those with fewest GPUs first."""
    found = 0
    for item in sorted(held, key=lambda item: (item.size, item.pod.name)):
        if item.size < size and _placeable(view, view.free | item.mask, size):
            gpus = _text(view, item.mask)
            yield f"moving pod {item.pod.name} (GPU {gpus}) elsewhere frees a set of {size}"
            found += 1
            if found == _MOST_MOVES:
                return


# --- MIG --------------------------------------------------------------------------------------------------


def _mig_holes(board: Board) -> Iterator[Problem]:
    """Counter sets with memory slices left into which no partition fits any more."""
    for node in board.inventory.node_names():
        for pool in board.pools(node).pools:
            if any(record.counter_sets for record in pool.counter_slices):
                yield from _holes(board, node, pool)


def _holes(board: Board, node: str, pool: NodePool) -> Iterator[Problem]:
    left = _counters_left(board, pool)
    if left is None:
        return
    totals = {
        item.name: {name: _value(counter.value) for name, counter in item.counters.items()}
        for record in pool.counter_slices
        for item in record.counter_sets
    }
    table = board.inventory.table
    fits: set[str] = set()
    for row in pool.rows:
        for part in table.rare(row).consumes_counters:
            have = left.get(part.counter_set, {})
            if all(have.get(name, 0) >= _value(used.value) for name, used in part.counters.items()):
                fits.add(part.counter_set)
    for name, counters in left.items():
        slices = {key: value for key, value in counters.items() if key.startswith("memory-slice-")}
        free = sorted(int(key.rsplit("-", 1)[1]) for key, value in slices.items() if value > 0)
        used = sum(totals[name].get(key, 0) > value for key, value in slices.items())
        if not free or not used or name in fits:
            continue
        share = len(free) / len(slices)
        yield problem(
            NAME,
            "mig-hole",
            f"node {node}: {count(len(free), 'memory slice')} of {name} are free "
            f"({', '.join(map(str, free))}) and no "
            "profile fits them",
            subject=f"Node {node}",
            node=node,
            evidence=(f"pool {pool.id}, counter set {name}: {used} of {len(slices)} memory slices used",),
            next=(f"kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml",),
            lost=Lost(
                gpus=frozenset({f"{node}/{pool.driver}/{name}"}),
                share=share,
                basis=f"{len(free)} of {len(slices)} memory slices",
            ),
            facts={"free_slices": free, "counter_set": name},
        )


def _counters_left(board: Board, pool: NodePool) -> dict[str, dict[str, int]] | None:
    """Counter set → counter → what is left; None where a device in use is not published."""
    left = {
        item.name: {name: _value(counter.value) for name, counter in item.counters.items()}
        for record in pool.counter_slices
        for item in record.counter_sets
    }
    table = board.inventory.table
    names = dict(zip(table.device_names(pool.rows), pool.rows, strict=True))
    for key in board.held_of_pool(pool.driver, pool.name):
        row = names.get(key.device)
        if row is None:
            return None
        for part in table.rare(row).consumes_counters:
            for name, used in part.counters.items():
                if name in left.get(part.counter_set, {}):
                    left[part.counter_set][name] -= _value(used.value)
    return left


def _value(raw: str | int | float) -> int:
    try:
        return Quantity.parse(raw).scaled
    except BaroError:
        return 0
