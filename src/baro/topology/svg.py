"""One machine as a self-contained SVG picture: GPUs in a row, NVLink above, PCIe, NICs and NUMA below.

NVLinks are arcs (or lines into a bar for NVSwitch), coloured by grade. Islands and PCIe groups are lanes: a
line over the row with a dot at each member, so that interleaved and overlapping sets stay readable. No
scripts and no outside fonts or files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle

import msgspec

from baro.topology.bandwidth import Predictor
from baro.topology.islands import Group, islands, pcie_groups
from baro.topology.links import NEAR, RANK, format_ranges
from baro.topology.machine import Gpu, Machine
from baro.topology.svg_canvas import INK as _INK
from baro.topology.svg_canvas import Canvas, Paint
from baro.topology.text import describe, product_line, set_text

_STEP, _BOX, _BOX_HEIGHT = 92.0, 74.0, 44.0
_LEFT, _LANE = 150.0, 20.0
_GRADES = ("#0b6e4f", "#2a9d8f", "#7cb518", "#b5a72a")
_ISLANDS = ("#cfe8dd", "#fde2c8", "#dcd6f7", "#f9d5e5", "#d4e7fa", "#f5efc2", "#e2e2e2", "#d9f0c7")
_PALE, _PCIE, _ALERT, _CHOSEN = "#8795a1", "#5b7083", "#c0392b", "#d9480f"


class State(msgspec.Struct, frozen=True):
    """What a GPU does at the moment: its fill colour (``#rrggbb``) and the words of the legend."""

    colour: str
    title: str


def render(machine: Machine, *, chosen: Sequence[int] = (), states: Mapping[int, State] | None = None) -> str:
    """The picture as XML text. ``chosen`` GPUs get a bold outline and their GB/s a line of text.

    With ``states`` (by GPU index) the boxes show what each GPU does instead of its island, with a legend.
    """
    predictor = Predictor(machine)
    return _Picture(predictor, tuple(sorted(set(chosen))), states or {}).draw()


class _Picture:
    """One drawing in the making: places of the GPUs, shapes so far, and how far down they reach."""

    def __init__(self, predictor: Predictor, chosen: Group, states: Mapping[int, State]) -> None:
        self.predictor = predictor
        self.states = states
        self.machine = predictor.machine
        self.chosen = chosen
        self.canvas = Canvas()
        first: dict[tuple[int, ...], int] = {}
        for gpu in self.machine.gpus:
            first.setdefault(self._node(gpu), gpu.index)
        ordered = sorted(self.machine.gpus, key=lambda gpu: (first[self._node(gpu)], gpu.index))
        self.x = {gpu.index: _LEFT + _STEP * (i + 0.5) for i, gpu in enumerate(ordered)}
        self.width = max(_LEFT + _STEP * len(ordered) + 24.0, 560.0)
        self.found = islands(self.machine)

    def draw(self) -> str:
        y = self._title()
        y = self._nvlink(y)
        y = self._lanes("island", [(f"island {i}", g) for i, g in enumerate(self.found.best)], y + 8)
        y = self._gpus(y + 6)
        y = self._legend(y)
        for level in pcie_groups(self.machine):
            y = self._lanes(level.kind, [(f"{level.kind} group", group) for group in level.groups], y + 8)
        y = self._nics(y + 10)
        y = self._numa(y + 10)
        y = self._notes(y + 22)
        return self.canvas.document(self.width, y + 14, product_line(self.machine))

    def _title(self) -> float:
        self.canvas.text(16, 28, product_line(self.machine), size=17, weight="bold")
        if self.machine.source:
            self.canvas.text(16, 46, self.machine.source, fill=_PALE)
        return 58.0

    def _nvlink(self, y: float) -> float:
        if not self.found.grades:
            told = "NVLink: unknown" if self.machine.nvlink_unknown else "NVLink: none"
            self.canvas.text(16, y + 14, told, fill=_PALE)
            return y + 22
        colours = {grade.nvlinks: _GRADES[min(i, 3)] for i, grade in enumerate(self.found.grades)}
        for i, (links, colour) in enumerate(colours.items()):
            self.canvas.line(16, y + 10 + 18 * i, 40, y + 10 + 18 * i, colour, 4)
            self.canvas.text(46, y + 14 + 18 * i, self._grade_text(links))
        legend = y + 18 * len(colours)
        drawn = self._switch(y, colours) if self.machine.switched else self._arcs(y, colours)
        return max(legend, drawn)

    def _grade_text(self, links: int) -> str:
        gbps = {link.gbps for link in self.machine.links.values() if link.nvlinks == links}
        known = [value for value in gbps if value is not None]
        return f"NV{links}" + (f" · {min(known):g} GB/s" if known else "")

    def _switch(self, y: float, colours: Mapping[int, str]) -> float:
        """A bar for the NVSwitches and one line for the links of each GPU."""
        bar, base = y + 18, y + 92
        left, right = min(self.x.values()) - _BOX / 2, max(self.x.values()) + _BOX / 2
        self.canvas.rect(left, bar, right - left, 24, Paint("#e6efe9", _GRADES[0]))
        self.canvas.text((left + right) / 2, bar + 16, "NVSwitch", anchor="middle", weight="bold")
        for index, x in self.x.items():
            links = max(
                (link.nvlinks for pair, link in self.machine.links.items() if index in pair), default=0
            )
            if links:
                self.canvas.line(x, bar + 24, x, base, colours[links], 5)
                self.canvas.text(x + 6, bar + 52, f"NV{links}")
            else:
                self.canvas.text(x, bar + 52, "no NVLink", anchor="middle", fill=_ALERT)
        return base

    def _arcs(self, y: float, colours: Mapping[int, str]) -> float:
        """An arc for each linked pair, as high as the pair is apart."""
        apart = {
            pair: abs(self.x[pair[0]] - self.x[pair[1]]) / _STEP
            for pair, link in self.machine.links.items()
            if link.nvlinks
        }
        tallest = 26 + 22 * max(apart.values())
        base = y + 10 + tallest * 0.75
        for (a, b), steps in sorted(apart.items(), key=lambda item: (-item[1], item[0])):
            links = self.machine.links[a, b].nvlinks
            x1, x2 = self.x[a], self.x[b]
            top = base - (26 + 22 * steps)
            label = f"GPU{a}–GPU{b}: {self._grade_text(links)}"
            self.canvas.arc((x1, x2), base, top, colours[links], label)
        return base

    def _lanes(self, kind: str, groups: Iterable[tuple[str, Group]], y: float) -> float:
        """One lane for each group; groups that do not overlap in the row share a lane."""
        lanes: list[list[tuple[str, Group]]] = []
        for name, group in groups:
            for lane in lanes:
                if all(self._separate(group, other) for _, other in lane):
                    lane.append((name, group))
                    break
            else:
                lanes.append([(name, group)])
        for lane in lanes:
            middle = y + _LANE / 2
            self.canvas.text(16, middle + 4, f"{kind}s" if kind == "island" else f"{kind} groups", fill=_PALE)
            for name, group in lane:
                number = self.found.best.index(group) if kind == "island" else None
                colour = _PCIE if number is None else _INK
                places = [self.x[gpu] for gpu in group]
                self.canvas.line(min(places), middle, max(places), middle, colour, 2)
                for x in places:
                    fill = "#ffffff" if number is None else _ISLANDS[number % len(_ISLANDS)]
                    self.canvas.dot(x, middle, Paint(fill, colour), f"{name}: {set_text(group)}")
            y += _LANE
        return y

    def _separate(self, a: Group, b: Group) -> bool:
        first, second = [self.x[gpu] for gpu in a], [self.x[gpu] for gpu in b]
        return max(first) < min(second) or max(second) < min(first)

    def _gpus(self, y: float) -> float:
        faulty = {
            gpu for warn in self.machine.warnings if warn.code.startswith("nvlink-") for gpu in warn.gpus
        }
        for gpu in self.machine.gpus:
            x = self.x[gpu.index] - _BOX / 2
            island = next((i for i, group in enumerate(self.found.best) if gpu.index in group), None)
            fill = "#f4f5f6" if island is None else _ISLANDS[island % len(_ISLANDS)]
            if gpu.index in self.states:
                fill = self.states[gpu.index].colour
            bold = gpu.index in self.chosen
            stroke = _CHOSEN if bold else _ALERT if gpu.index in faulty else _INK
            self.canvas.rect(
                x, y, _BOX, _BOX_HEIGHT, Paint(fill, stroke, 4 if bold else 1.4, gpu.index in faulty)
            )
            self.canvas.text(x + _BOX / 2, y + 19, f"GPU{gpu.index}", anchor="middle", weight="bold", size=13)
            below = (gpu.pci_bus_id or gpu.model or "").removeprefix("0000:")
            self.canvas.text(x + _BOX / 2, y + 35, below[:11], anchor="middle", size=10, fill=_PCIE)
        return y + _BOX_HEIGHT

    def _legend(self, y: float) -> float:
        """The states that occur, each once, below the GPUs."""
        x = _LEFT
        for state in dict.fromkeys(
            self.states[gpu.index] for gpu in self.machine.gpus if gpu.index in self.states
        ):
            self.canvas.rect(x, y + 8, 14, 14, Paint(state.colour, _INK))
            self.canvas.text(x + 20, y + 19, state.title)
            x += 34 + 7 * len(state.title)
        return y + 24 if self.states else y

    def _nics(self, y: float) -> float:
        """NICs under their nearest GPUs, with lines where they share a switch."""
        if not self.machine.nics:
            return y
        placed: list[tuple[float, str, str, list[int]]] = []
        spare = cycle(self.x.values())
        for nic in self.machine.nics:
            near = {gpu: kind for (gpu, name), kind in self.machine.nic_links.items() if name == nic.name}
            best = min(near.values(), key=RANK.__getitem__, default="SYS")
            hidden = self.machine.numa_hidden or best not in NEAR
            gpus = [] if hidden else sorted(gpu for gpu, kind in near.items() if kind == best)
            x = sum(self.x[gpu] for gpu in gpus) / len(gpus) if gpus else next(spare)
            placed.append((x, nic.device or nic.name, "" if hidden else best, gpus))
        rows: list[float] = []
        self.canvas.text(16, y + 34, "NICs", fill=_PALE)
        for x, _, kind, gpus in placed:
            for gpu in gpus if kind in ("PIX", "PXB") else ():
                self.canvas.line(self.x[gpu], y - 8, x, y + 20, _PCIE, 1.2)
        for x, name, kind, _ in sorted(placed, key=lambda item: (item[0], item[1])):
            row = next((i for i, end in enumerate(rows) if end + 8 <= x - _BOX / 2), len(rows))
            rows[row : row + 1] = [x + _BOX / 2]
            top = y + 18 + 34 * row
            self.canvas.rect(x - _BOX / 2, top, _BOX, 26, Paint("#ffffff", _PCIE))
            self.canvas.text(x, top + 11, name[:12], anchor="middle", size=10)
            self.canvas.text(
                x,
                top + 22,
                kind or ("place unknown" if self.machine.numa_hidden else "not near"),
                anchor="middle",
                size=9,
                fill=_PALE,
            )
        return y + 18 + 34 * len(rows)

    def _node(self, gpu: Gpu) -> tuple[int, ...]:
        return () if self.machine.numa_hidden or gpu.numa is None else gpu.numa

    def _numa(self, y: float) -> float:
        """A bar under the GPUs of each NUMA node."""
        nodes: dict[tuple[int, ...], list[Gpu]] = {}
        for gpu in self.machine.gpus:
            nodes.setdefault(self._node(gpu), []).append(gpu)
        self.canvas.text(16, y + 16, "NUMA nodes", fill=_PALE)
        for node, gpus in nodes.items():
            left = min(self.x[gpu.index] for gpu in gpus) - _BOX / 2
            right = max(self.x[gpu.index] for gpu in gpus) + _BOX / 2
            self.canvas.rect(left, y, right - left, 24, Paint("#eef1f4" if node else "#ffffff", _PALE))
            name = f"NUMA {format_ranges(node)}" if node else "NUMA unknown"
            cpus = gpus[0].cpus if node else None
            if cpus and len(gpus) > 2:
                name += f" · CPUs {format_ranges(cpus)[:40]}"
            self.canvas.text((left + right) / 2, y + 16, name[:60], anchor="middle", size=11)
        return y + 24

    def _notes(self, y: float) -> float:
        lines = [
            (f"best of {size}: {set_text(best.gpus)}  {describe(best)}", _INK)
            for size in (2, 4, 8, 16)
            for best in self.predictor.best_sets(self.x, size)
        ]
        if self.chosen:
            found = self.predictor.predict(self.chosen)
            lines.append((f"this set: {set_text(found.gpus)}  {describe(found)}", _CHOSEN))
        lines += [(warning.message, _ALERT) for warning in self.machine.warnings]
        for text, fill in lines:
            self.canvas.text(16, y, text, fill=fill)
            y += 18
        return y
