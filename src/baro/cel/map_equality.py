"""``==`` and ``!=`` between a map of the device and a constant map, or two maps of the device, for many rows.

Sizes are compared first, then key by key the values, each pair once (``values.equal_or_unclear``, as in the
scalar code: inside of maps a refused comparison does not count as different). Imports NumPy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baro.cel import ast
from baro.cel.code import Frame, PlanError
from baro.cel.compilation import Path
from baro.cel.device import ColumnRef, DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import WORK_LIMIT
from baro.cel.reading import MapKind
from baro.cel.tuples import distinct
from baro.cel.unrolling import is_map
from baro.cel.values import Map, equal_or_unclear
from baro.cel.vectors import Part, Rows, Scope, Space, Vector

_KINDS: dict[str, MapKind] = {"attributes": "attribute", "capacity": "capacity"}
_NOTHING = Map.of_native({})


def same_maps(space: Space, node: ast.Call, scope: Scope, places: Rows) -> Vector | None:
    """The comparison at these places; ``None`` if it is not one of maps that can be told apart by columns."""
    sides = [_side(space, part, scope) for part in node.args]
    left, right = sides
    if left is None or right is None or not (isinstance(left, Path) or isinstance(right, Path)):
        return None
    if isinstance(left, Path) and isinstance(right, Path) and not _comparable(left.keys, right.keys):
        return None
    same = np.ones(space.size, dtype=np.bool_)
    _Comparison(space, same).compare(left, right, places)
    codes = (same if node.function == "_==_" else ~same).astype(np.int32)
    return Vector(codes, (False, True))


def _comparable(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """The same place, or two domains."""
    return left == right or len(left) == len(right) == 2


Side = Path | Map


def _side(space: Space, node: ast.Node, scope: Scope) -> Side | None:
    """A map of the device by its place, or a constant one."""
    part = Part(node, scope, {})
    path = part.path(node)
    if path is not None:
        return path if is_map(path) else None
    if node.type is None or node.type.kind != "map":
        return None
    try:
        run = part.compile(node).run
        if part.columns or part.whole or part.inputs:
            return None
        frame: Frame = [WORK_LIMIT, *[None] * part.slots]
        value = run(DeviceView(driver=""), frame)
    except (PlanError, CelRuntimeError):
        return None
    space.spend(WORK_LIMIT - frame[0])
    return value if type(value) is Map else None


class _Comparison:
    """Sets ``same`` to false where maps differ."""

    def __init__(self, space: Space, same: NDArray[np.bool_]) -> None:
        self._space = space
        self._same = same

    def compare(self, left: Side, right: Side, places: Rows) -> None:
        if isinstance(left, Path) and isinstance(right, Path) and left.keys == right.keys:
            return
        self._differ(places[self._size(left, places) != self._size(right, places)])
        if isinstance(left, Map):
            for key, value in left.items():
                self._constant_entry(key, value, right, self._left(places))
        elif len(left.keys) == 1:
            for domain in self._space.domains(_KINDS[left.keys[0]]):
                self._domain_entry(left, domain, right, self._left(places))
        else:
            for column in self._columns(left):
                rows = self._left(places)
                rows = rows[self._space.present(column)[rows]]
                if isinstance(right, Map):
                    found, other = right.find(column.name)
                    self._differ(rows if not found else rows[~self._matches(column, other, rows, left=True)])
                else:
                    self._value_entry(column, right, rows)

    def _left(self, places: Rows) -> Rows:
        return places[self._same[places]]

    def _differ(self, rows: Rows) -> None:
        self._same[rows] = False

    def _columns(self, path: Path) -> list[ColumnRef]:
        return self._space.columns(_KINDS[path.keys[0]], path.keys[1])

    def _has_domain(self, path: Path, domain: str, rows: Rows) -> NDArray[np.bool_]:
        found = np.zeros(len(rows), dtype=np.bool_)
        for column in self._space.columns(_KINDS[path.keys[0]], domain):
            found |= self._space.present(column)[rows]
        return found

    def _size(self, side: Side, places: Rows) -> NDArray[np.int64] | int:
        if isinstance(side, Map):
            return len(side)
        size = np.zeros(len(places), dtype=np.int64)
        if len(side.keys) == 1:
            for domain in self._space.domains(_KINDS[side.keys[0]]):
                size += self._has_domain(side, domain, places)
        else:
            for column in self._columns(side):
                size += self._space.present(column)[places]
        return size

    # --- one key -------------------------------------------------------------------------------------

    def _constant_entry(self, key: object, value: object, right: Side, rows: Rows) -> None:
        """An entry of a constant map on the left, a map of the device on the right."""
        assert isinstance(right, Path)  # noqa: S101 two constant maps are not compared here
        if len(right.keys) == 2:
            column = next((one for one in self._columns(right) if one.name == key), None)
            if column is None:
                self._differ(rows)
                return
            present = self._space.present(column)[rows]
            self._differ(rows[~present])
            rows = rows[present]
            self._differ(rows[~self._matches(column, value, rows, left=False)])
            return
        has = np.zeros(len(rows), dtype=np.bool_)
        if type(key) is str:
            has = self._has_domain(right, key, rows)
        if type(value) is not Map:
            has[:] = False  # no map equals it, whatever is in there
        if not equal_or_unclear(value, _NOTHING):  # a domain that is not there is an empty map
            self._differ(rows[~has])
        if type(value) is Map and type(key) is str:
            self.compare(value, Path((*right.keys, key), False), rows[has])

    def _domain_entry(self, left: Path, domain: str, right: Side, rows: Rows) -> None:
        """A domain of the device on the left, a constant map on the right."""
        assert isinstance(right, Map)  # noqa: S101 else both sides are the same place
        rows = rows[self._has_domain(left, domain, rows)]
        found, other = right.find(domain)
        if found and type(other) is Map:
            self.compare(Path((*left.keys, domain), False), other, rows)
        elif not found or not equal_or_unclear(_NOTHING, other):
            self._differ(rows)

    def _value_entry(self, column: ColumnRef, right: Path, rows: Rows) -> None:
        """A value of one map of the device against that of another."""
        other = next((one for one in self._columns(right) if one.name == column.name), None)
        if other is None:
            self._differ(rows)
            return
        present = self._space.present(other)[rows]
        self._differ(rows[~present])
        rows = rows[present]
        pair = [self._codes(column)[rows], self._codes(other)[rows]]
        group, firsts, _ = distinct(pair, len(rows))
        words = self._space.words(column), self._space.words(other)
        same = [
            equal_or_unclear(words[0][one], words[1][two])
            for one, two in zip(pair[0][firsts].tolist(), pair[1][firsts].tolist(), strict=True)
        ]
        self._differ(rows[~np.array(same, dtype=np.bool_)[group]])

    def _matches(self, column: ColumnRef, value: object, rows: Rows, *, left: bool) -> NDArray[np.bool_]:
        """Whether the value of each row equals a constant; ``left``: the row's value stands on the left."""
        codes = self._codes(column)[rows]
        words = self._space.words(column)
        used, group = np.unique(codes, return_inverse=True)
        same = [
            equal_or_unclear(words[code], value) if left else equal_or_unclear(value, words[code])
            for code in used.tolist()
        ]
        return np.array(same, dtype=np.bool_)[group]

    def _codes(self, column: ColumnRef) -> NDArray[np.int32]:
        codes = self._space.codes(column)
        assert codes is not None  # noqa: S101 columns that no device has are not asked for
        return codes
