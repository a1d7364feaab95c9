"""Feature gates as the components of a cluster tell them: the metric ``kubernetes_feature_enabled``.

kube-apiserver, kube-scheduler and kubelet export it at ``/metrics`` (``name`` and ``stage`` as labels, 1 for
on). The allocation of devices goes by kube-scheduler's gates; a live cluster lets baro read those of its API
server, which are mostly given the same flags. Pure functions over texts; reading them is for others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

FAMILY = b"kubernetes_feature_enabled"
_LINE = re.compile(
    rb'^kubernetes_feature_enabled\{(?:[^}]*,)?name="([A-Za-z0-9]+)"[^}]*\} +([01])(?:\.0*)?(?:\s|$)'
)


class GateLines:
    """Takes a page of metrics piece by piece. ``gates`` is what was found; ``done`` once the family is over,
    so that the rest of a long page need not be read."""

    def __init__(self) -> None:
        self.gates: dict[str, bool] = {}
        self.done = False
        self._rest = b""

    def feed(self, piece: bytes) -> bool:
        """Takes the next piece; whether nothing more is wanted."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._rest) > 2**16:  # no line of metrics is that long: something else is read
            self._rest = b""
        return self.done

    def end(self) -> Mapping[str, bool]:
        """The gates, with a last line that had no end."""
        self._take(self._rest)
        self._rest = b""
        return self.gates

    def _take(self, line: bytes) -> None:
        if line.startswith(FAMILY + b"{"):
            found = _LINE.match(line)
            if found is not None:
                self.gates[found[1].decode()] = found[2] == b"1"
        elif self.gates and line.strip() and not line.startswith(b"#"):
            self.done = True


def gates_in(text: str) -> dict[str, bool]:
    """The gates in a page of metrics; empty where the page has none."""
    lines = GateLines()
    lines.feed(text.encode())
    return dict(lines.end())


class Told(msgspec.Struct, frozen=True):
    """What files told of versions and gates beside the objects. ``gates`` are the scheduler's where its page
    is there, else the API server's; pages of kubelets are left to whoever looks at nodes."""

    version: str = ""
    gates: Mapping[str, bool] = {}


def told(pages: Iterable[str], versions: Iterable[object]) -> Told:
    """From pages of metrics and from what ``kubectl version -o json`` or ``GET /version`` print."""
    by_whom: dict[str, dict[str, bool]] = {}
    for page in pages:
        found = gates_in(page)
        if found:
            by_whom.setdefault(_component(page), {}).update(found)
    gates = by_whom.get("kube-scheduler") or by_whom.get("kube-apiserver") or {}
    return Told(next(filter(None, map(server_version, versions)), ""), gates)


def server_version(value: object) -> str:
    """``v1.37.2`` from the document of a version; empty where there is none."""
    if not isinstance(value, Mapping):
        return ""
    inner = value.get("serverVersion", value)
    found = inner.get("gitVersion") if isinstance(inner, Mapping) else None
    return found if isinstance(found, str) else ""


def _component(page: str) -> str:
    """Whose metrics a page has, by families that only one component exports."""
    if re.search(r"^kubelet_", page, re.M):
        return "kubelet"
    if re.search(r"^scheduler_(?!plugin)", page, re.M):
        return "kube-scheduler"
    return "kube-apiserver"
