"""Host ports: the filter NodePorts. A port is taken by address, protocol and number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Step
from baro.diagnosis.explain.rules.wire import ANY_ADDRESS, NO_WISH, Port, Wish
from baro.model.kinds.core import Node

if TYPE_CHECKING:
    from baro.diagnosis.explain.world import World

WORD = "node(s) didn't have free ports for the requested pod ports"


class Ports:
    """The host ports that one pod asks for."""

    plugin = "NodePorts"

    def __init__(self, world: World, wish: Wish) -> None:
        self._world = world
        self._wanted = wish.ports

    def rejection(self, node: Node) -> Rejection | None:
        """The ports that are taken on the node, and by whom."""
        taken: list[Port] = []
        by: list[str] = []
        for pod in self._world.bound.get(node.metadata.name, ()) if self._wanted else ():
            theirs = self._world.wishes.of.get(self._world.key(pod), NO_WISH).ports
            found = [port for port in self._wanted if _conflicts(port, theirs)]
            taken += found
            by += [f"pod {'/'.join(self._world.key(pod))}"] if found else []
        if not taken:
            return None
        named = ", ".join(dict.fromkeys(_shown(port) for port in taken))
        return Rejection(
            step=Step.PORTS,
            plugin=self.plugin,
            reason=f"host port {named} is taken",
            key=named,
            scheduler=(WORD,),
            evidence=(f"host port {named} of node {node.metadata.name} is taken by {', '.join(by[:4])}",),
            lift=f"if host port {named} were free there",
        )


def _conflicts(wanted: Port, theirs: Iterable[Port]) -> bool:
    address, protocol, number = wanted
    return any(
        (protocol, number) == (other_protocol, other_number)
        and (ANY_ADDRESS in (address, other_address) or address == other_address)
        for other_address, other_protocol, other_number in theirs
    )


def _shown(port: Port) -> str:
    address, protocol, number = port
    at = "" if address == ANY_ADDRESS else f"{address}:"
    return f"{at}{number}/{protocol}"
