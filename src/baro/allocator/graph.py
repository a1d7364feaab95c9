"""The GPUs of one node as a graph over the device numbers of the search.

Sets of GPUs are bit masks. What is worked out (predictions, islands, how many groups can still be placed)
is kept per shape, so nodes of one shape share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import msgspec

from baro.allocator.best_effort import points
from baro.allocator.features import DEFAULT_1_37
from baro.allocator.frame import NodeFrame, bits, frame_of
from baro.allocator.infer import Facts, facts, finder_of, is_gpu, machine_from
from baro.allocator.problem import NodeProblem
from baro.inventory import DeviceKey, Inventory
from baro.model.errors import BaroError
from baro.model.kinds.baro import NodeTopology
from baro.model.names import API_VERSION
from baro.topology.bandwidth import Prediction, Predictor
from baro.topology.document import from_document
from baro.topology.islands import islands
from baro.topology.machine import Machine, Pair

if TYPE_CHECKING:
    from baro.allocator.every_set import EverySet

BAND = 0.93
"""Sets within 7 % of the best of their band count as equally fast: noise does not decide."""
MOST_GPUS = 16
"""Sets are compared on nodes with up to this many GPUs; beyond it the search's own order stands."""
_SIZES = (16, 8, 4, 2)
_MICRO = 1_000_000
_ONE_BY_ONE = 10
"""On up to this many GPUs each set is looked at by itself; above, all sets at once by ``every_set``."""


class Shape:
    """Everything about a machine that does not depend on which node it is. Masks are over GPU positions."""

    def __init__(self, machine: Machine, guessed: frozenset[Pair] = frozenset()) -> None:
        self._guessed = guessed
        self.predictor = Predictor(machine)
        self.machine = self.predictor.machine
        self.indices = tuple(gpu.index for gpu in self.machine.gpus)
        self.size = len(self.indices)
        found = islands(self.machine)
        position = {index: at for at, index in enumerate(self.indices)}
        linked = {frozenset(group) for grade in found.grades for group in grade.islands}
        self.islands = tuple(sorted(_mask(position[i] for i in group) for group in linked))
        """All sets that are pairwise linked by NVLink, of every grade."""
        self.best_islands = tuple(_mask(position[i] for i in group) for group in found.best)
        self._sizes = tuple(size for size in _SIZES if size <= self.size)
        self._closeness: dict[int, float] = {}
        self._micro: dict[int, int] = {}
        self._predictions: dict[int, Prediction] = {}
        self._good: dict[int, tuple[int, ...]] = {}
        self._packed: dict[tuple[int, int], int] = {}
        self._block_cache: dict[int, list[int] | None] = {}

        pairs = [self.predict(1 << a | 1 << b) for a, b in combinations(range(self.size), 2)]
        self._points: tuple[tuple[int, ...], ...] | None = None
        self._placeable: dict[int, tuple[int, ...]] = {}
        self.remembered: dict[tuple[object, ...], Any] = {}
        """Candidate sets, their order, scores; kept by ``sets``. ``weight`` says how many there are."""
        self.weight = 0
        self.uniform = len({(pair.score, pair.slowest_kind) for pair in pairs}) <= 1
        """No two pairs of GPUs differ, so which GPUs are taken makes no difference."""

    @property
    def points(self) -> tuple[tuple[int, ...], ...]:
        """What NVIDIA's best-effort policy gives for each pair of positions."""
        if self._points is None:
            self._points = points(self.machine)
        return self._points

    def predict(self, mask: int) -> Prediction:
        found = self._predictions.get(mask)
        if found is None:
            chosen = [self.indices[at] for at in bits(mask)]
            found = self._predictions[mask] = self.predictor.predict(chosen)
        return found

    def scores(self, masks: Sequence[int]) -> list[float]:
        """``predict(mask).score`` of many sets."""
        if self.size <= _ONE_BY_ONE:
            return [self.predict(mask).score for mask in masks]
        return _every_set(self).scores(masks)

    def gbps(self, mask: int) -> float | None:
        """Predicted GB/s of a set, to print; ``None`` when a link of it is only guessed at."""
        chosen = [self.indices[at] for at in bits(mask)]
        if self._guessed and any(pair in self._guessed for pair in combinations(chosen, 2)):
            return None
        return self.predict(mask).gbps

    def closeness(self, mask: int) -> float:
        """Sum of the pairs' GB/s (or ranks): tells sets of equal bandwidth apart."""
        found = self._closeness.get(mask)
        if found is None:
            pairs = combinations(tuple(bits(mask)), 2)
            found = self._closeness[mask] = sum(self._micros(1 << a | 1 << b) for a, b in pairs) / _MICRO
        return found

    def closenesses(self, masks: Sequence[int]) -> list[float]:
        """``closeness`` of many sets."""
        if self.size <= _ONE_BY_ONE:
            return [self.closeness(mask) for mask in masks]
        return _every_set(self).closenesses(masks)

    def _micros(self, pair: int) -> int:
        """Millionths of a GB/s: sums of whole numbers do not depend on the order."""
        found = self._micro.get(pair)
        if found is None:
            found = self._micro[pair] = round(self.predict(pair).score * _MICRO)
        return found

    def sizes(self) -> tuple[int, ...]:
        """The group sizes that count for what is left over."""
        return self._sizes

    def placeable(self, free: int) -> tuple[int, ...]:
        """Per size: how many disjoint well-connected groups of that size the free GPUs still hold."""
        found = self._placeable.get(free)
        if found is None:
            found = self._placeable[free] = tuple(self._pack(free, size) for size in self._sizes)
        return found

    def concentration(self, free: int) -> int:
        """Higher when free GPUs lie together in few islands."""
        return sum((island & free).bit_count() ** 2 for island in self.best_islands)

    def _pack(self, free: int, size: int) -> int:
        """How many disjoint good sets of that size lie within ``free``."""
        if free.bit_count() < size:
            return 0
        good = self.good(size)
        blocks = self._blocks(good, size)
        if blocks is not None:
            return sum((block & free).bit_count() // size for block in blocks)
        if self.size > _ONE_BY_ONE:
            return _every_set(self).most_disjoint(good, size, free)
        key = (free, size)
        found = self._packed.get(key)
        if found is None:
            found = self._packed[key] = self._count_packed(good, free, size)
        return found

    def _count_packed(self, good: Sequence[int], free: int, size: int) -> int:
        usable = [group for group in good if not group & ~free]
        if not usable:
            return 0
        low = next(bit for bit in (1 << at for at in bits(free)) if any(bit & group for group in usable))
        best = self._pack(free & ~low, size)
        for group in usable:
            if group & low:
                best = max(best, 1 + self._pack(free & ~group, size))
                if best >= free.bit_count() // size:
                    break
        return best

    def good(self, size: int) -> tuple[int, ...]:
        """The sets of that size in the best band of the whole machine."""
        found = self._good.get(size)
        if found is None:
            found = self._good[size] = self._find_good(size)
        return found

    def _find_good(self, size: int) -> tuple[int, ...]:
        masks = [_mask(chosen) for chosen in combinations(range(self.size), size)]
        scores = self.scores(masks)
        least = max(scores) * BAND
        return tuple(mask for mask, score in zip(masks, scores, strict=True) if score >= least)

    def _blocks(self, good: Sequence[int], size: int) -> list[int] | None:
        """Disjoint blocks of which any ``size`` GPUs are good; ``None`` when good sets overlap freely."""
        if size in self._block_cache:
            return self._block_cache[size]
        blocks: list[int] = []
        for group in good:
            merged = group
            rest = []
            for block in blocks:
                if block & merged:
                    merged |= block
                else:
                    rest.append(block)
            blocks = [*rest, merged]
        total = sum(comb(block.bit_count(), size) for block in blocks)
        self._block_cache[size] = result = blocks if total == len(good) else None
        return result


class NodeGraph:
    """A shape laid over the devices of one node."""

    def __init__(self, shape: Shape, devices: Sequence[int], confidence_source: str) -> None:
        self.shape = shape
        self.devices = tuple(devices)
        """Local device number per GPU position."""
        self.source = confidence_source
        self.mask = _mask(self.devices)
        self._same = self.devices == tuple(range(len(self.devices)))
        """GPUs have the same numbers as devices and as positions, as on most nodes."""
        self._at = {device: at for at, device in enumerate(self.devices) if device >= 0}

    def to_shape(self, mask: int) -> int:
        """A mask over devices as one over GPU positions; other devices are left out."""
        if self._same:
            return mask & self.mask
        found = 0
        for device in bits(mask & self.mask):
            found |= 1 << self._at[device]
        return found

    def to_devices(self, mask: int) -> int:
        """The inverse of ``to_shape``."""
        if self._same:
            return mask
        return _mask(self.devices[at] for at in bits(mask))


def graph_of(problem: NodeProblem) -> NodeGraph | None:
    """The graph of a node: from its ``NodeTopology``, else from attributes.

    ``None`` without GPUs, and with more than sixteen of them. Kept per node until more than its use changes.
    """
    return _graph_of(problem.frame)


def _graph_of(frame: NodeFrame) -> NodeGraph | None:
    if NodeGraph not in frame.derived:
        frame.derived[NodeGraph] = _find_graph(frame)
    found: NodeGraph | None = frame.derived[NodeGraph]
    return found


def _find_graph(frame: NodeFrame) -> NodeGraph | None:
    topology = frame.inventory.topologies.get(frame.node)
    if topology is not None:
        found = _from_document(frame, topology)
        if found is not None:
            return found
    finder = finder_of(frame.inventory.table)
    devices = [
        device
        for device, record in enumerate(frame.record_of)
        if (record.node_name or record.per_device)
        and frame.usable >> device & 1
        and is_gpu(finder, record.driver, frame.rows[device])
    ]
    if not 0 < len(devices) <= MOST_GPUS:
        return None
    told = facts(finder, [frame.rows[device] for device in devices])
    return NodeGraph(_shape_of_facts(told), devices, "device attributes")


def predict_set(inventory: Inventory, node: str, devices: Iterable[DeviceKey]) -> Prediction | None:
    """What a set of GPUs on a node is worth; ``None`` when fewer than two of them are GPUs of that node."""
    frame = frame_of(inventory, node, DEFAULT_1_37)
    graph = _graph_of(frame)
    wanted = set(devices)
    mask = _mask(number for number, key in enumerate(frame.keys) if key in wanted)
    chosen = 0 if graph is None else graph.to_shape(mask)
    if graph is None or chosen.bit_count() < 2:
        return None
    return msgspec.structs.replace(graph.shape.predict(chosen), gbps=graph.shape.gbps(chosen))


@lru_cache(maxsize=1024)
def _shape_of_facts(told: tuple[Facts, ...]) -> Shape:
    inferred = machine_from(told)
    return Shape(inferred.machine, inferred.guessed)


@lru_cache(maxsize=1024)
def _shape_of_document(document: bytes) -> Shape | None:
    """``None`` for more GPUs than sets are compared on. Raises ``InputError``."""
    machine = from_document({"apiVersion": API_VERSION, **msgspec.json.decode(document)})
    return Shape(machine) if 0 < len(machine.gpus) <= MOST_GPUS else None


class Document(msgspec.Struct, frozen=True):
    """A ``NodeTopology`` as the search uses it."""

    shape: Shape
    index_of: Mapping[str, int]
    """Key of a device, ``driver/pool/device``, → index of the GPU."""


_DOCUMENTS: dict[int, tuple[object, Document | None]] = {}
"""By identity of the object, which is kept alive here: encoding it for every decision would cost more."""
_MOST_DOCUMENTS = 50_000


def document_of(topology: NodeTopology) -> Document | None:
    """The published graph; ``None`` when it cannot be read or names no device.

    ``devices`` holds two things: facts of a GPU under its index (``MachineTopology``), and the index of a GPU
    under the key of a device.
    """
    known = _DOCUMENTS.get(id(topology))
    if known is None:
        if len(_DOCUMENTS) >= _MOST_DOCUMENTS:
            _DOCUMENTS.clear()
        known = _DOCUMENTS[id(topology)] = (topology, _read(topology.spec))
    return known[1]


def _read(spec: Mapping[str, Any]) -> Document | None:
    devices = dict(spec.get("devices") or {})
    index_of = {key: index for key, index in devices.items() if isinstance(index, int)}
    facts_only = {key: body for key, body in devices.items() if not isinstance(body, int)}
    body = {"kind": "MachineTopology", **spec, "devices": facts_only}
    try:
        shape = _shape_of_document(msgspec.json.encode(body, order="deterministic"))
    except BaroError:
        # A document that cannot be read must not stop allocation: attributes still tell something.
        return None
    return Document(shape, index_of) if index_of and shape is not None else None


def _from_document(frame: NodeFrame, topology: NodeTopology) -> NodeGraph | None:
    """The published graph, over those of its GPUs that slices publish; ``None`` when it maps none."""
    document = document_of(topology)
    if document is None:
        return None
    where = {
        document.index_of[str(key)]: device
        for device, key in enumerate(frame.keys)
        if str(key) in document.index_of
    }
    if not where:
        return None
    # A GPU that nobody publishes has no device; -1 never occurs in a mask.
    return NodeGraph(
        document.shape, [where.get(index, -1) for index in document.shape.indices], "NodeTopology"
    )


@lru_cache(maxsize=32)
def _every_set(shape: Shape) -> EverySet:
    """Some MiB each, made anew in a few hundredths of a second."""
    # NumPy costs import time that machines of eight GPUs need not pay.
    from baro.allocator.every_set import EverySet  # noqa: PLC0415

    return EverySet(shape.machine)


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        if number >= 0:
            mask |= 1 << number
    return mask
