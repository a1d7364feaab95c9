"""Text of ``nvidia-smi topo`` → tables of cells. What the cells mean is in ``topo_m``.

Captured output comes through terminals, chats and issue trackers: colour codes, tabs turned into spaces,
Markdown bars, quote marks, prompts before and legends after, rows cut off. This module finds the matrices
in such text and assigns every cell to its column; it never decides what a strange cell means.
"""

from __future__ import annotations

import re

import msgspec

from baro.model.errors import InputError, TooLargeError, Where
from baro.topology.machine import MAX_GPUS

MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_COLUMNS = 256
MAX_MATRICES = 16
"""A report holds two (``-m`` and ``-p2p``); what follows many is not read."""

CPU, NUMA, GPU_NUMA = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
_TAIL = (CPU, NUMA, GPU_NUMA)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]|\[(?:\d{1,2}(?:;\d{1,2})*)?m(?=\S|\s|$)")
_COLUMN = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID|\S+")
_GPU = re.compile(r"GPU(\d{1,3})\Z")
_CELL = re.compile(r"(X|NV\d+|SYS|NODE|PHB|PXB|PIX|SOC|OK|CNS|GNS|TNS|NS|DR|U|N/A|\?)\Z")
_SAYS_WHY = re.compile(
    r"fail|error|no devices|not found|unable|couldn't|cannot|could not|denied|mismatch|insufficient",
    re.IGNORECASE,
)


class Row(msgspec.Struct, frozen=True):
    """One line of a matrix. ``cells`` are by column name; a column the line did not reach is missing."""

    label: str
    cells: dict[str, str]
    line: int


class Matrix(msgspec.Struct, frozen=True):
    """One matrix: its columns in order (GPUs, NICs), and its rows. ``line`` is that of the header."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    line: int

    @property
    def gpus(self) -> tuple[int, ...]:
        """Indices of the GPU columns and rows, ascending."""
        names = {*self.columns, *(row.label for row in self.rows)}
        return tuple(sorted(index for name in names if (index := gpu_index(name)) is not None))

    @property
    def nics(self) -> tuple[str, ...]:
        """Names of all other columns, in order."""
        return tuple(name for name in self.columns if gpu_index(name) is None)


def gpu_index(name: str) -> int | None:
    """``GPU12`` → 12; ``None`` for other names."""
    match = _GPU.match(name)
    return int(match.group(1)) if match else None


def clean(text: str | bytes, source: str) -> list[str]:
    """The lines without colour codes, comment lines, quote marks and bars; line numbers are kept.

    Raises ``InputError`` for text over the size limit and for binary data.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise TooLargeError(
            f"the text is larger than {MAX_TEXT_BYTES // 2**20} MiB", where=Where(file=source or None)
        )
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    if "\x00" in text:
        raise InputError(
            "this is binary data, not the output of `nvidia-smi topo -m`", where=Where(file=source or None)
        )
    text = _ANSI.sub("", text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    lines = [line.replace("|", "\t") if line.count("|") > 2 else line for line in text.split("\n")]
    lines = [re.sub(r"^\s*>\s?", "", line) for line in lines]
    return ["" if line.lstrip().startswith("#") else re.sub(r",[ ]+(?=\d)", ",", line) for line in lines]


def find_matrices(lines: list[str], source: str) -> tuple[Matrix, ...]:
    """All matrices in the text, in order. Raises ``InputError`` that quotes the text when there is none."""
    found: list[Matrix] = []
    number = 0
    while number < len(lines) and len(found) < MAX_MATRICES:
        columns = _header(lines[number])
        if columns is None:
            number += 1
            continue
        matrix = _read(lines, number, columns)
        if len(matrix.columns) > MAX_COLUMNS:
            raise InputError(
                f"the matrix has more than {MAX_COLUMNS} columns",
                where=Where(file=source or None, line=number + 1),
            )
        if len(matrix.gpus) > MAX_GPUS:
            raise InputError(
                f"the matrix has more than {MAX_GPUS} GPUs", where=Where(file=source or None, line=number + 1)
            )
        if matrix.rows:
            found.append(matrix)
            number = matrix.rows[-1].line
        else:
            number += 1
    if not found:
        raise _no_matrix(lines, source)
    return tuple(found)


def _no_matrix(lines: list[str], source: str) -> InputError:
    said = [line.strip() for line in lines if line.strip()]
    where = Where(file=source or None)
    step = "give the output of `nvidia-smi topo -m`"
    if not said:
        return InputError("the input is empty", where=where, next_step=step)
    quoted = next((line for line in said if _SAYS_WHY.search(line)), said[0])
    shown = "".join(char if char.isprintable() else "?" for char in quoted[:160])
    return InputError(f'there is no topology matrix; the text says "{shown}"', where=where, next_step=step)


def _header(line: str) -> list[tuple[str, int]] | None:
    """Column names with their offsets, when the line is a header: GPU names first and no cell."""
    if "GPU" not in line:
        return None
    columns = [(re.sub(r"\s+", " ", match.group()), match.start()) for match in _COLUMN.finditer(line)]
    if not columns or gpu_index(columns[0][0]) is None:
        return None
    names = [name for name, _ in columns]
    if any(_CELL.match(name) for name in names) or len(set(names)) != len(names):
        return None
    return columns


def _read(lines: list[str], header: int, columns: list[tuple[str, int]]) -> Matrix:
    """Rows below a header until something else than a row, blank lines aside."""
    body = [column for column in columns if column[0] not in _TAIL]
    tail = [column for column in columns if column[0] in _TAIL]
    names = {name for name, _ in body}
    rows: list[Row] = []
    for number in range(header + 1, len(lines)):
        line = lines[number]
        parts = line.split()
        if not parts or set(line.strip()) <= set("-\t: "):
            continue
        if _header(line) is not None or not (gpu_index(parts[0]) is not None or parts[0] in names):
            break
        rows.append(Row(parts[0], _cells(line, body, tail), number + 1))
    return Matrix(tuple(name for name, _ in body), tuple(rows), header + 1)


def _cells(line: str, body: list[tuple[str, int]], tail: list[tuple[str, int]]) -> dict[str, str]:
    """The cells of a row by column name."""
    spaced = line.split()[1:]
    if "\t" in line:
        tabbed = [cell.strip() for cell in line.split("\t")]
        while tabbed and not tabbed[0]:
            tabbed.pop(0)
        tabbed = tabbed[1:]
        # Text with tabs only here and there is better read by its blanks.
        if all(cell and " " not in cell for cell in tabbed[: len(body)]) or len(spaced) <= len(tabbed):
            return _by_tabs(tabbed, body, tail)
    cells = {name: cell for (name, _), cell in zip(body, spaced, strict=False)}
    rest = spaced[len(body) :]
    if len(rest) >= len(tail):
        return cells | {name: cell for (name, _), cell in zip(tail, rest, strict=False)}
    offsets = [match.start() for match in re.finditer(r"\S+", line)][1 + len(body) :]
    for cell, offset in zip(rest, offsets, strict=True):
        name, _ = min(tail, key=lambda column: abs(column[1] - offset))
        cells[name] = cell
    return cells


def _by_tabs(tabbed: list[str], body: list[tuple[str, int]], tail: list[tuple[str, int]]) -> dict[str, str]:
    cells = {name: cell for (name, _), cell in zip(body, tabbed, strict=False)}
    rest = tabbed[len(body) :]
    # nvidia-smi puts two tabs before the last column, GPU NUMA ID: one empty cell, not a shifted column.
    while len(rest) > len(tail) > 0 and "" in rest[2:-1]:
        del rest[rest.index("", 2)]
    return cells | {name: cell for (name, _), cell in zip(tail, rest, strict=False)}
