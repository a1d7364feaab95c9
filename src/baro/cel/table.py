"""What the engine asks of a table of devices; the inventory has one. Imports NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from baro.cel.device import ColumnRef, DeviceView, Value
from baro.cel.reading import MapKind
from baro.model.quantity import Quantity


class DeviceTable(Protocol):
    """The devices as columns. Rows are devices, in a fixed order."""

    @property
    def size(self) -> int:
        """Number of rows."""

    def codes(self, column: ColumnRef) -> NDArray[np.int32] | None:
        """One code per row, 0 where the device lacks the value; ``None`` when no device has the column."""

    def vocabulary(self, column: ColumnRef) -> Sequence[Value | Quantity | None]:
        """The values by code; position 0 stands for "absent" and is ignored."""

    def code_of(self, column: ColumnRef, value: Value) -> int:
        """The code of a value, 0 when no device has it."""

    def columns(self, kind: MapKind) -> Sequence[ColumnRef]:
        """The columns of that kind, in the order in which ``view`` has them."""

    def view(self, row: int) -> DeviceView:
        """The device of a row."""

    @property
    def broken(self) -> NDArray[np.int64]:
        """Rows whose device cannot be evaluated at all (``DeviceView.broken``)."""
