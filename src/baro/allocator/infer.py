"""A machine graph from published device attributes, for nodes without a ``NodeTopology``.

Attributes say less than a matrix: who shares an NVLink domain, a PCIe switch, a root complex, a NUMA node.
Link counts and rates follow from the product; all of it is *inferred*. What is not published stays unknown:
a pair about which nothing is told has no link at all, and then no GB/s are printed for sets that need it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

import msgspec

from baro.inventory.columns import Column, DeviceTable, TypedValue
from baro.model.names import DRIVER, NVIDIA_DRIVER, STANDARD_DOMAIN
from baro.topology import catalog
from baro.topology.machine import Confidence, Gpu, Link, Machine, Pair

_DOMAINS = (DRIVER, NVIDIA_DRIVER)
"""Where an attribute is looked for first; any other driver's domain comes after, in order of name."""
_NVLINK_IDS = ("nvlinkDomain", "nvlink8", "nvlink4", "nvlink2")
_TOLD = (*_NVLINK_IDS, "productName", "model", "nvlinkPeers", "pcieSwitch", "pcieRoot", "numaNode")
"""Everything that ``Facts`` are made of."""
_DIRECT_PEERS = 3
"""More NVLink peers than this are only reached through switches: no product has more bridges."""


class Facts(msgspec.Struct, frozen=True):
    """What the attributes of one GPU tell. Group ids are numbered per node, so nodes of one shape agree."""

    product: str | None = None
    island: int | None = None
    pair: int | None = None
    """Group of the strongest aligned pair (``nvlink2``)."""
    peers: int | None = None
    switch: int | None = None
    root: int | None = None
    numa: int | None = None


class AttributeFinder:
    """Columns of a table by attribute id, whichever domain publishes them."""

    def __init__(self, table: DeviceTable) -> None:
        self._by_id: dict[str, list[Column]] = {}
        ranked = sorted(table.attributes.items(), key=lambda item: (_rank(item[0][0]), item[0]))
        for (_, identifier), column in ranked:
            self._by_id.setdefault(identifier, []).append(column)

    def value(self, identifier: str, row: int) -> TypedValue | None:
        """The first value found, in order of domains; ``None`` when the device has none."""
        for column in self._by_id.get(identifier, ()):
            found = column.value(row)
            if found is not None:
                return found
        return None

    def values(self, identifier: str, rows: Sequence[int]) -> list[TypedValue | None]:
        """``value`` of many rows."""
        columns = self._by_id.get(identifier, ())
        if len(columns) > 1:
            return [self.value(identifier, row) for row in rows]
        return [columns[0].value(row) for row in rows] if columns else [None] * len(rows)

    def text(self, identifier: str, row: int) -> str | None:
        return _text(self.value(identifier, row))

    def number(self, identifier: str, row: int) -> int | None:
        return _number(self.value(identifier, row))


def _text(found: TypedValue | None) -> str | None:
    return found[1] if found is not None and isinstance(found[1], str) else None


def _number(found: TypedValue | None) -> int | None:
    if found is not None and found[0] == "ints" and isinstance(found[1], tuple) and found[1]:
        found = ("int", found[1][0])
    return found[1] if found is not None and found[0] == "int" and isinstance(found[1], int) else None


_FINDERS: WeakKeyDictionary[DeviceTable, tuple[int, AttributeFinder]] = WeakKeyDictionary()


def finder_of(table: DeviceTable) -> AttributeFinder:
    """The finder of a table; made anew when attributes have come that no device had before."""
    count = len(table.attributes)
    known = _FINDERS.get(table)
    if known is None or known[0] != count:
        known = _FINDERS[table] = (count, AttributeFinder(table))
    return known[1]


def is_gpu(finder: AttributeFinder, driver: str, row: int) -> bool:
    """Whether a device is a whole GPU: it says so, has facts only GPUs have, or its driver is one of GPUs."""
    kind = finder.text("type", row)
    if kind is not None:
        return kind == "gpu"
    if any(finder.value(name, row) is not None for name in (*_NVLINK_IDS, "productName")):
        return True
    return driver.split(".", maxsplit=1)[0] == "gpu"


def facts(finder: AttributeFinder, rows: Sequence[int]) -> tuple[Facts, ...]:
    """What is told of the GPUs in these rows."""
    numbering: dict[tuple[str, object], int] = {}

    def group(name: str, value: object) -> int | None:
        return None if value is None else numbering.setdefault((name, value), len(numbering))

    told = {name: finder.values(name, rows) for name in _TOLD}
    found: list[Facts] = []
    for at in range(len(rows)):
        island = next(((name, told[name][at]) for name in _NVLINK_IDS if told[name][at] is not None), None)
        found.append(
            Facts(
                product=_text(told["productName"][at]) or _text(told["model"][at]),
                island=group("island", island),
                pair=group("pair", told["nvlink2"][at]),
                peers=_number(told["nvlinkPeers"][at]),
                switch=group("switch", _text(told["pcieSwitch"][at])),
                root=group("root", _text(told["pcieRoot"][at])),
                numa=_number(told["numaNode"][at]),
            )
        )
    return tuple(found)


class Inferred(msgspec.Struct, frozen=True):
    """The graph that facts imply. Of ``guessed`` pairs the number of links is not known: no GB/s for them."""

    machine: Machine
    guessed: frozenset[Pair]


@lru_cache(maxsize=1024)
def machine_from(told: tuple[Facts, ...]) -> Inferred:
    """The graph that these facts imply; GPU indexes are positions."""
    members = Counter(fact.island for fact in told if fact.island is not None)
    links: dict[Pair, Link] = {}
    guessed: set[Pair] = set()
    switched: bool | None = None
    for a, first in enumerate(told):
        for b in range(a + 1, len(told)):
            second = told[b]
            if first.island is not None and first.island == second.island:
                peers = first.peers if first.peers else members[first.island] - 1
                close = first.pair is not None and first.pair == second.pair
                link, through = _nvlink(first.product, peers, close)
                switched = switched or through
                if link.gbps is None:
                    guessed.add((a, b))
            else:
                maybe = _pcie(first, second)
                if maybe is None:
                    continue
                link = maybe
            links[a, b] = link
    gpus = tuple(
        Gpu(
            index=index,
            product_name=fact.product,
            pcie_switch=None if fact.switch is None else f"switch-{fact.switch}",
            pcie_root=None if fact.root is None else f"root-{fact.root}",
            numa=None if fact.numa is None else (fact.numa,),
        )
        for index, fact in enumerate(told)
    )
    machine = Machine(gpus=gpus, links=links, switched=switched, source="device attributes")
    return Inferred(machine, frozenset(guessed))


def _nvlink(product_name: str | None, peers: int, close: bool) -> tuple[Link, bool]:
    """One pair of an island and whether it goes through switches. No GB/s: the number of links is a guess."""
    guess = Link(kind="NV2", nvlinks=2) if close else Link(kind="NV1", nvlinks=1)
    product = catalog.find(product_name) if product_name else None
    if product is None or not product.nvlinks or product.nvlink_gbps is None:
        return guess, False
    old = product.nvlink_version is not None and product.nvlink_version < 3
    through = product.model.startswith("GB") or (
        peers > _DIRECT_PEERS and (not old or "SXM3" in product.name)
    )
    if old and not through:
        # The cube mesh of a DGX-1 has pairs with one and with two links; attributes do not tell which.
        return guess, False
    links = product.nvlinks if through else max(product.nvlinks // max(peers, 1), 1)
    gbps = links * product.nvlink_gbps
    return Link(kind=f"NV{links}", nvlinks=links, gbps=gbps, confidence=Confidence.INFERRED), through


def _pcie(first: Facts, second: Facts) -> Link | None:
    if first.switch is not None and first.switch == second.switch:
        return Link(kind="PIX")
    if first.root is not None and first.root == second.root:
        return Link(kind="PHB")
    if first.numa is None or second.numa is None:
        return None
    return Link(kind="NODE" if first.numa == second.numa else "SYS")


def _rank(domain: str) -> int:
    if domain in _DOMAINS:
        return _DOMAINS.index(domain)
    return len(_DOMAINS) + (domain != STANDARD_DOMAIN)
