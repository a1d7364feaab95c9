"""The maps of devices as rounds of an unrolled fold: which keys there are, in which order, and who has them.

Devices with other columns have other keys, and the order of their domains may differ. Imports NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baro.cel.compilation import Path
from baro.cel.device import ColumnRef
from baro.cel.reading import MapKind
from baro.cel.vectors import NotLifted, Rows, Space

_MOST_DOMAINS = 12  # orders of domains are numbers in base of their count
_KINDS: dict[str, MapKind] = {"attributes": "attribute", "capacity": "capacity"}


class Item(NamedTuple):
    """One round: the key, the place behind it, and which rows have it."""

    key: str
    value: Path
    present: NDArray[np.bool_]


def is_map(path: Path | None) -> bool:
    """Whether it is attributes or capacity of a device, or a domain of those."""
    return path is not None and not path.optional and len(path.keys) in (1, 2) and path.keys[0] in _KINDS


def items(space: Space, path: Path, places: Rows) -> Iterator[tuple[Rows, list[Item]]]:
    """What the map at ``path`` has, in order; places whose maps have different orders apart."""
    kind = _KINDS[path.keys[0]]
    if len(path.keys) == 2:
        columns = space.columns(kind, path.keys[1])
        yield (
            places,
            [
                Item(column.name, Path((*path.keys, column.name), False), space.present(column))
                for column in columns
            ],
        )
        return
    domains = space.domains(kind)
    held = [space.columns(kind, domain) for domain in domains]
    found = [
        Item(domain, Path((*path.keys, domain), False), _any(space, columns))
        for domain, columns in zip(domains, held, strict=True)
    ]
    for chosen, order in _orders(space, kind, held, places):
        yield chosen, [found[number] for number in order]


def _any(space: Space, columns: Sequence[ColumnRef]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.logical_or.reduce([space.present(column) for column in columns])
    return found


def _orders(
    space: Space, kind: MapKind, held: Sequence[Sequence[ColumnRef]], places: Rows
) -> Iterator[tuple[Rows, list[int]]]:
    """Places by the order of their domains: that of the first value of each domain."""
    if len(held) < 2:
        yield places, list(range(len(held)))
        return
    if len(held) > _MOST_DOMAINS:
        raise NotLifted
    position = {column: number for number, column in enumerate(space.table.columns(kind))}
    first = np.full((len(held), len(places)), len(position), dtype=np.int64)
    for number, columns in enumerate(held):
        for column in reversed(columns):
            first[number, space.present(column)[places]] = position[column]
    order = np.argsort(first, axis=0, kind="stable")
    powers = len(held) ** np.arange(len(held), dtype=np.int64)
    numbers, firsts, group = np.unique(powers @ order, return_index=True, return_inverse=True)
    for number in range(len(numbers)):
        yield places[group == number], order[:, firsts[number]].tolist()
