"""A selector over many devices at once, where most of them differ: part by part instead of device by device.

The tree is cut where ``&&``, ``||``, ``?:``, ``cel.bind`` and folds over maps of the device join parts. Each
part runs once per distinct tuple of what it reads alone (``vectors``), and what the parts give is joined for
all rows with NumPy (``chains``). A fold over a map of the device is unrolled: its body is compiled once per
key, with the value behind the key as a plain column. So the body of a walk over the attributes of devices
that all differ runs once per distinct (key, value), not once per device and key.

Every part is the exact scalar code, and joining keeps the scalar code's choice of errors. Where that is not
certain (work near the limit, parts that upstream would stop or panic on) ``outcomes`` gives ``None``. Imports
NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from baro.cel import ast
from baro.cel.ast import Node, children, walk
from baro.cel.chains import Chain, Collection, Count, Merged
from baro.cel.code import Failure, PlanError
from baro.cel.compilation import Fixed, Path
from baro.cel.computation import Computation, deep_stack
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import collected, counted, quantified, weight
from baro.cel.macros import is_binding
from baro.cel.map_equality import same_maps
from baro.cel.native import selected
from baro.cel.table import DeviceTable
from baro.cel.unrolling import Collected, ListSource, MapSource, Source, is_map
from baro.cel.vectors import (
    HARD,
    NO,
    SOFT,
    YES,
    NotLifted,
    Part,
    Rows,
    Scope,
    Space,
    Vector,
    kinds_of,
)

_LOGIC = frozenset({"_&&_", "_||_"})
_CUT = _LOGIC | {"_?_:_", "@in", "size"}
_EQUALITY = frozenset({"_==_", "_!=_"})
_INDEX = frozenset({"_[_]", "_[?_]"})
_MOST_KEYS = 32  # values of a computed key that are looked at one by one


def outcomes(
    program: Computation, table: DeviceTable, rows: NDArray[np.int64]
) -> list[bool | CelRuntimeError] | None:
    """What a selector gives for each of these rows, ``None`` if only the scalar program can tell."""
    if program.counting or not any(_is_cut(node) for node, _ in walk(program.tree)):
        return None
    with deep_stack():
        try:
            space = Space(table, rows)
            vector = _Lifting(space).lift(program.tree, {}, np.arange(len(rows)))
        except (NotLifted, PlanError):
            return None
    found = [_outcome(value) for value in vector.values]
    return [found[code] for code in vector.codes.tolist()]


def _outcome(value: object) -> bool | CelRuntimeError:
    if type(value) is Failure:
        return value.error
    try:
        return selected(value)
    except CelRuntimeError as error:
        return error


class _Lifting:
    def __init__(self, space: Space) -> None:
        self._space = space
        self._heavy: dict[int, bool] = {}

    def lift(self, node: Node, scope: Scope, places: Rows) -> Vector:
        """What a node gives at these places."""
        if not len(places):
            return Vector(np.zeros(self._space.size, dtype=np.int32), (False,))
        for key in self._computed_keys(node, scope):
            return self._by_key(key, node, scope, places)
        found: Vector | None = None
        if isinstance(node, ast.Comprehension):
            found = (self._binding if is_binding(node) else self._fold)(node, scope, places)
        elif isinstance(node, ast.Call) and node.target is None:
            if node.function in _LOGIC and self._differ(node.args, scope):
                found = self._logic(node, scope, places)
            elif node.function == "_?_:_" and self._differ(node.args, scope):
                found = self._conditional(node, scope, places)
            elif node.function in _EQUALITY:
                found = same_maps(self._space, node, scope, places)
            elif node.function == "@in":
                found = self._contains(node, scope, places)
        if isinstance(node, ast.Call) and node.function == "size":
            found = self._length(node, scope, places)
        return self._part(node, scope, places) if found is None else found

    # --- computed keys -------------------------------------------------------------------------------

    def _computed_keys(self, node: Node, scope: Scope) -> Iterator[Node]:
        """Keys on the way to a value of the device that are not known yet, such as that of
        ``device.attributes[device.driver]``; those that depend on variables of loops inside are left out."""
        if isinstance(node, ast.Comprehension):
            parts: Iterable[Node] = (node.range, node.init)
        else:
            parts = children(node)
            if isinstance(node, ast.Call) and node.function in _INDEX and _is_place(node.args[0], scope):
                key = node.args[1]
                variable = scope.get(key.name) if isinstance(key, ast.Ident) else None
                if not (isinstance(key, ast.Literal) or isinstance(variable, Fixed) or id(key) in scope):
                    yield key
        for part in parts:
            yield from self._computed_keys(part, scope)

    def _by_key(self, key: Node, node: Node, scope: Scope, places: Rows) -> Vector:
        """The node for each value of a key apart: there the key is as good as written."""
        found = self.lift(key, scope, places)
        codes = found.codes[places]
        used = np.unique(codes).tolist()
        result = Merged(self._space.size)
        rest = np.ones(len(places), dtype=np.bool_)
        unknown: Path | Fixed | Vector = found
        for code in used if len(used) <= _MOST_KEYS else []:
            value = found.values[code]
            if type(value) is str:
                here = codes == code
                rest &= ~here
                chosen = places[here]
                result.take(self.lift(node, {**scope, id(key): Fixed(value)}, chosen), chosen)
        left = places[rest]
        result.take(self.lift(node, {**scope, id(key): unknown}, left), left)
        return result.vector()

    # --- what stays whole ----------------------------------------------------------------------------

    def _part(self, node: Node, scope: Scope, places: Rows) -> Vector:
        """A part that is run as it is, with what is worth lifting inside of it computed before."""
        given = {id(inner): self.lift(inner, scope, places) for inner in self._inside(node)}
        return self._space.run(node, scope, given, places)

    def _inside(self, node: Node) -> Iterator[Node]:
        """The topmost nodes below that are cut and have a fold or an equality of maps in them; none inside
        of loops, whose variables change."""
        for child in [node.range, node.init] if isinstance(node, ast.Comprehension) else children(node):
            if not self._is_heavy(child):
                continue
            if _is_cut(child):
                yield child
            else:
                yield from self._inside(child)

    def _is_heavy(self, node: Node) -> bool:
        found = self._heavy.get(id(node))
        if found is None:
            found = self._heavy[id(node)] = any(map(_walks, [part for part, _ in walk(node)]))
        return found

    def _differ(self, nodes: Sequence[Node], scope: Scope) -> bool:
        """Whether operands read different columns: else they may as well run together."""
        if any(map(self._is_heavy, nodes)):
            return True
        read = []
        for node in nodes:
            part = Part(node, scope, {})
            part.compile(node)
            read.append((frozenset(part.columns), part.whole, tuple(id(vector) for _, vector in part.inputs)))
        return len(set(read)) > 1

    # --- logic ---------------------------------------------------------------------------------------

    def _logic(self, node: ast.Call, scope: Scope, places: Rows) -> Vector:
        chain = Chain(self._space.size, node.function == "_||_")
        for term in node.args:
            left = places[chain.open[places]]
            chain.term(self.lift(term, scope, left), left)
        chain.finish(places)
        return chain.vector()

    def _conditional(self, node: ast.Call, scope: Scope, places: Rows) -> Vector:
        condition = self.lift(node.args[0], scope, places)
        kinds = kinds_of(condition.values)[condition.codes[places]]
        result = Merged(self._space.size)
        for kind, branch in ((YES, node.args[1]), (NO, node.args[2])):
            chosen = places[kinds == kind]
            result.take(self.lift(branch, scope, chosen), chosen)
        result.fail(condition, places[kinds >= SOFT])
        return result.vector()

    def _binding(self, node: ast.Comprehension, scope: Scope, places: Rows) -> Vector:
        path = Part(node.init, scope, {}).path(node.init)
        if path is not None and path.keys and not path.optional:
            return self.lift(node.result, {**scope, node.accu: path}, places)
        value = self.lift(node.init, scope, places)
        hard = kinds_of(value.values)[value.codes[places]] == HARD
        result = Merged(self._space.size)
        result.fail(value, places[hard])
        sound = places[~hard]
        result.take(self.lift(node.result, {**scope, node.accu: value}, sound), sound)
        return result.vector()

    # --- folds ---------------------------------------------------------------------------------------

    def _fold(self, node: ast.Comprehension, scope: Scope, places: Rows) -> Vector | None:
        """A fold over a map of the device or over what another fold has collected, unrolled; ``None`` for any
        other."""
        quantifier, one, appended = quantified(node), counted(node), collected(node)
        if quantifier is None and one is None and appended is None:
            return None
        source = self._source(node, scope, places)
        if source is None:
            return None
        charge = weight(node.step)
        if quantifier is not None:
            chain = Chain(self._space.size, quantifier[0])
            for inner, left in source.rounds(chain.open, charge + weight(node.condition)):
                chain.term(self.lift(quantifier[1], inner, left), left)
            chain.finish(source.places)
            return source.complete(chain)
        if one is not None:
            count = Count(self._space.size)
            for inner, left in source.rounds(count.open, charge):
                count.element(self.lift(one, inner, left), left)
            count.finish(source.places)
            return source.complete(count)
        found = self._collection(node, source)
        found.finish(source.places)
        return source.complete(found)

    def _collection(self, node: ast.Comprehension, source: Source) -> Collection:
        """The lists that a fold makes, not yet made."""
        appended = collected(node)
        assert appended is not None  # noqa: S101 the callers ask for folds that collect
        when, element = appended
        found = Collection(self._space.size)
        for inner, left in source.rounds(found.open, weight(node.step)):
            kept = left if when is None else found.keep(self.lift(when, inner, left), left)
            sound = found.sound(kept)
            found.element(self.lift(element, inner, sound), sound)
        return found

    def _list(self, node: Node, scope: Scope, places: Rows) -> Collected | None:
        """What a fold collects, where ``node`` is one, with the places where that fails."""
        if not isinstance(node, ast.Comprehension) or is_binding(node) or collected(node) is None:
            return None
        source = self._source(node, scope, places)
        if source is None:
            return None
        found = self._collection(node, source)
        sound = found.end(source.places)
        failed = np.setdiff1d(places, sound, assume_unique=True)
        return Collected(found, sound, source.complete(found), failed)

    def _source(self, node: ast.Comprehension, scope: Scope, places: Rows) -> Source | None:
        path = Part(node.range, scope, {}).path(node.range)
        if path is not None:
            return MapSource(self._space, node, scope, path, places) if is_map(path) else None
        found = self._list(node.range, scope, places) if node.var2 is None else None
        return None if found is None else ListSource(self._space, node, scope, found)

    # --- uses of lists -------------------------------------------------------------------------------

    def _contains(self, node: ast.Call, scope: Scope, places: Rows) -> Vector | None:
        """``x in`` what a fold collects."""
        found = self._list(node.args[1], scope, places)
        if found is None:
            return None
        wanted = self.lift(node.args[0], scope, places)
        result = Merged(self._space.size)
        result.take(found.answer, found.failed)
        fails = np.fromiter((type(value) is Failure for value in wanted.values), np.bool_, len(wanted.values))
        result.codes[found.places] = found.collection.contains(wanted, found.places)
        failed = places[fails[wanted.codes[places]]]
        result.take(wanted, failed)  # the element is evaluated first
        return result.vector()

    def _length(self, node: ast.Call, scope: Scope, places: Rows) -> Vector | None:
        """``size`` of what a fold collects."""
        found = self._list(node.args[0] if node.target is None else node.target, scope, places)
        if found is None:
            return None
        result = Merged(self._space.size)
        result.take(found.answer, found.failed)
        sizes = found.collection.sizes(found.places)
        counts = np.zeros(self._space.size, dtype=np.int32)
        counts[found.places] = sizes
        result.take(Vector(counts, range(int(sizes.max(initial=0)) + 1)), found.places)
        return result.vector()


def _is_place(node: Node, scope: Scope) -> bool:
    """Whether a node is the device, a variable that names a place in it, or fields and keys after one."""
    while isinstance(node, ast.Select) or (isinstance(node, ast.Call) and node.function in _INDEX):
        node = node.operand if isinstance(node, ast.Select) else node.args[0]
    if not isinstance(node, ast.Ident):
        return False
    found = scope.get(node.name)
    return isinstance(found, Path) or (found is None and node.name.removeprefix(".") == "device")


def _is_cut(node: Node) -> bool:
    """Whether ``lift`` may take such a node apart."""
    if isinstance(node, ast.Call):
        computed = node.function in _INDEX and not isinstance(node.args[1], ast.Literal)
        return computed or node.function in _CUT or _walks(node)
    return isinstance(node, ast.Comprehension)


def _walks(node: Node) -> bool:
    """A loop, or an equality of maps."""
    if isinstance(node, ast.Call) and node.function in _EQUALITY:
        return any(part.type is not None and part.type.kind == "map" for part in node.args)
    return isinstance(node, ast.Comprehension) and not is_binding(node)
