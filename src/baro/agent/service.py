"""The agent's loop: discover, publish, wait, again. Time and the way to stop come from the caller.

A failing round is reported and tried again at the next interval; nothing here ends the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from baro.agent.publisher import DroppedFieldsError, Published, Publisher
from baro.agent.slices import Taints, desired_slices, lost_taints, node_topology
from baro.model.errors import BaroError
from baro.model.kinds.resource import ResourceSlice
from baro.model.names import DRIVER
from baro.topology.machine import Gpu, Machine


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Under which names a node publishes."""

    node: str
    driver: str = DRIVER
    pool: str | None = None
    compat: bool = True


def slices_of(
    machine: Machine, settings: Settings, taints: Taints, node_uid: str | None = None
) -> tuple[ResourceSlice, ...]:
    """The slices of a machine under the names of ``settings``."""
    return desired_slices(
        machine,
        node=settings.node,
        driver=settings.driver,
        pool=settings.pool,
        compat=settings.compat,
        taints=taints,
        node_uid=node_uid,
    )


class Agent:
    """Publishes what ``read`` discovers. Remembers GPUs, so that one that is lost stays visible, tainted.

    ``node_uid`` gives the uid of the Node object, ``None`` while there is none.
    """

    def __init__(
        self,
        read: Callable[[], Machine],
        publisher: Publisher,
        settings: Settings,
        node_uid: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._read = read
        self._publisher = publisher
        self._settings = settings
        self._node_uid = node_uid
        self._last: Machine | None = None
        self._taints_kept = True
        """False once the server has dropped a taint: then tainted devices are not published at all."""

    def round(self) -> tuple[Machine, Published]:
        """One discovery and its publication. Raises what NVML and the API raise."""
        machine = remembered(self._last, self._read())
        self._last = machine
        taints = lost_taints(machine, self._settings.driver)
        if not self._taints_kept:
            return machine, self._publish(_without(machine, taints), {})
        try:
            return machine, self._publish(machine, taints)
        except DroppedFieldsError as error:
            if not any(field.endswith(".taints") for field in error.fields):
                raise
            # A server without device taints (before 1.36 by default) would hand a lost GPU out.
            self._taints_kept = False
            return machine, self._publish(_without(machine, taints), {})

    def _publish(self, machine: Machine, taints: Taints) -> Published:
        s = self._settings
        uid = self._node_uid()
        slices = slices_of(machine, s, taints, uid)
        return self._publisher.publish(slices, node_topology(machine, s.node, s.driver, s.pool, uid))

    def run(
        self,
        stop: threading.Event,
        interval_s: float,
        on_round: Callable[[Machine, Published], None],
        on_error: Callable[[BaroError], None],
    ) -> None:
        """Rounds until ``stop`` is set."""
        while not stop.is_set():
            try:
                on_round(*self.round())
            except BaroError as error:
                on_error(error)
            stop.wait(interval_s)


def _without(machine: Machine, taints: Taints) -> Machine:
    """The machine without the GPUs whose devices would carry a taint."""
    healthy = tuple(gpu for gpu in machine.gpus if gpu.index not in taints)
    return msgspec.structs.replace(machine, gpus=healthy)


def remembered(before: Machine | None, now: Machine) -> Machine:
    """``now``, where a GPU that is lost keeps the identity it had: its claims must not see it vanish.

    Only what names the device is kept (minor, UUID, product, place), never its links or memory in use.
    """
    lost = {index for warning in now.warnings if warning.code == "gpu-lost" for index in warning.gpus}
    if before is None or not lost:
        return now
    known = {gpu.index: gpu for gpu in before.gpus}
    present = {gpu.uuid for gpu in now.gpus}

    def keep(gpu: Gpu) -> Gpu:
        old = known.get(gpu.index)
        if gpu.index not in lost or gpu.minor is not None or old is None or old.uuid in present:
            return gpu
        return msgspec.structs.replace(old, nvlinks=None, nvlinks_expected=None)

    return msgspec.structs.replace(now, gpus=tuple(map(keep, now.gpus)))
