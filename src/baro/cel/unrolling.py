"""What an unrolled fold goes through, round by round: maps of the devices, and lists made by other folds.

Devices with other columns have other keys, and the order of their domains may differ. Imports NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baro.cel import ast
from baro.cel.chains import Collection, Merged
from baro.cel.compilation import Fixed, Path
from baro.cel.device import ColumnRef
from baro.cel.reading import MapKind
from baro.cel.vectors import NotLifted, Rows, Scope, Space, Vector

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


class Collected(NamedTuple):
    """What a fold has collected at ``places``; ``answer`` has the failure of the others."""

    collection: Collection
    places: Rows
    answer: Vector
    failed: Rows


class MapSource:
    """The rounds of a fold over a map of the device."""

    def __init__(self, space: Space, node: ast.Comprehension, scope: Scope, path: Path, places: Rows) -> None:
        self.places = places
        self._space = space
        self._node = node
        self._scope = scope
        self._path = path

    def rounds(self, open_: NDArray[np.bool_], charge: int) -> Iterator[tuple[Scope, Rows]]:
        """Per round the variables, and the places that come to it."""
        for chosen, found in items(self._space, self._path, self.places):
            for item in found:
                self._space.begin_round(charge)
                left = chosen[open_[chosen] & item.present[chosen]]
                if len(left):
                    yield self._variables(item), left

    def _variables(self, item: Item) -> Scope:
        names: dict[str | int, Path | Fixed | Vector] = {**self._scope, self._node.var: Fixed(item.key)}
        if self._node.var2 is not None:
            names[self._node.var2] = item.value
        return names

    def complete(self, result: Merged) -> Vector:
        return result.vector()


class ListSource:
    """The rounds of a fold over what another fold has collected; where that failed this fold fails too."""

    def __init__(self, space: Space, node: ast.Comprehension, scope: Scope, found: Collected) -> None:
        self.places = found.places
        self._space = space
        self._node = node
        self._scope = scope
        self._found = found

    def rounds(self, open_: NDArray[np.bool_], charge: int) -> Iterator[tuple[Scope, Rows]]:
        for has, element in self._found.collection.rounds():
            self._space.begin_round(charge)
            left = self.places[open_[self.places] & has[self.places]]
            if len(left):
                yield {**self._scope, self._node.var: element}, left

    def complete(self, result: Merged) -> Vector:
        result.take(self._found.answer, self._found.failed)
        return result.vector()


Source = MapSource | ListSource
