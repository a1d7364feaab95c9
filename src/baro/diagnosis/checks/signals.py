"""Kernel logs and ``nvidia-smi -q -x`` against a Node that is Ready: one problem for each GPU that is not.

Part of the check *not really ready*. An Xid that an application causes is no fault of the GPU and is only
mentioned; of several Xids of one GPU the worst counts and the first is named, since later ones often follow.
"""

from __future__ import annotations

from collections.abc import Iterator

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.logs import Xid, XidClass, short_pci, xids
from baro.diagnosis.checks.problem import Lost, Problem, on_node, problem
from baro.diagnosis.checks.resources import counted_ids, gpu_id, gpu_resources, whole_gpu_resource
from baro.diagnosis.evidence import CaptureKind
from baro.model.errors import BaroError
from baro.model.names import PCI_BUS_ID
from baro.topology import smi_xml

NAME = "ready"
_ORDER = (
    XidClass.REBOOT,
    XidClass.RESET,
    XidClass.SUPPORT,
    XidClass.UNCLEAR,
    XidClass.APPLICATION,
    XidClass.IGNORE,
)
_CODES = {XidClass.UNCLEAR: "xid-unclear", XidClass.APPLICATION: "xid-application"}
_SMI_FATAL = frozenset({"gpu-lost", "gpu-error", "gpu-recovery", "fabric-not-ready"})


def check(board: Board) -> Iterator[Problem]:
    """Problems of GPUs that logs and nvidia-smi tell of."""
    yield from _xids(board)
    yield from _smi(board)


def _xids(board: Board) -> Iterator[Problem]:
    by_gpu: dict[tuple[str | None, str], list[Xid]] = {}
    for xid in xids(board.evidence):
        by_gpu.setdefault((xid.node, xid.pci), []).append(xid)
    unpublished: dict[str, int] = {}
    for (node, pci), found in by_gpu.items():
        worst = min(found, key=lambda item: _ORDER.index(item.kind))
        if worst.kind is XidClass.IGNORE:
            continue
        device = _device(board, node, pci, worst.uuid)
        identity = device or f"{node or '?'}/{pci}"
        if device is None and worst.kind.fatal and node is not None:
            identity = _counted(board, node, unpublished) or identity
        counts: dict[int, int] = {}
        for item in found:
            counts[item.code] = counts.get(item.code, 0) + 1
        shown = ", ".join(f"{code} ({times}×)" if times > 1 else str(code) for code, times in counts.items())
        yield problem(
            NAME,
            _CODES.get(worst.kind, "xid-fatal"),
            f"{'node ' + node + ': ' if node else ''}GPU {device or pci} logged Xid {worst.code}: "
            f"{worst.kind.value}",
            subject=f"Node {node}" if node else f"GPU {pci}",
            node=node,
            evidence=(
                f"{worst.place}: Xid {worst.code}, {worst.text[:160]}",
                f"Xids of this GPU in order: {shown}",
            ),
            next=(on_node(node, "nvidia-smi -q -x | grep -A1 gpu_recovery_action"), *_describe(node)),
            lost=Lost(
                gpus=frozenset({identity}) if worst.kind.fatal else frozenset(),
                basis="the GPU that logged a fatal Xid",
            ),
            facts={"xid": worst.code, "pci": pci, "counts": counts, "action": worst.kind.value},
        )


def _counted(board: Board, node: str, known: dict[str, int]) -> str | None:
    """On a node that only counts: the GPU is most likely one of the unhealthy ones, so it counts once."""
    item = board.nodes.get(node)
    resources = gpu_resources(item.status.capacity) if item is not None else {}
    name = next((resource for resource in resources if whole_gpu_resource(resource)), None)
    if name is None:
        return None
    known[node] = known.get(node, -1) + 1
    return next(iter(counted_ids(node, name, [known[node]])))


def _describe(node: str | None) -> tuple[str, ...]:
    return (f"kubectl describe node {node}",) if node else ()


def _device(board: Board, node: str | None, pci: str, uuid: str | None) -> str | None:
    """The identity of the published GPU with this bus address or UUID."""
    domain, identifier = PCI_BUS_ID.split("/")
    column = board.inventory.table.attributes.get((domain, identifier))
    for key, row in board.published_gpus.get(node or "", ()):
        value = column.value(row) if column is not None else None
        address = str(value[1]) if value is not None else ""
        if (address.count(":") == 2 and short_pci(address) == pci) or (
            uuid and board.finder.text("uuid", row) == uuid
        ):
            return gpu_id(node or "", key)
    return None


def _smi(board: Board) -> Iterator[Problem]:
    for capture in board.evidence.captured(CaptureKind.SMI_XML):
        try:
            machine = smi_xml.parse(capture.text, capture.where.file or "")
        except BaroError:
            continue  # reading said what is wrong with the file
        for warning in machine.warnings:
            if warning.code not in _SMI_FATAL:
                continue
            yield problem(
                NAME,
                "nvidia-smi-not-healthy",
                f"{'node ' + capture.node + ': ' if capture.node else ''}{warning.message}",
                subject=f"Node {capture.node}" if capture.node else "",
                node=capture.node,
                evidence=(f"{capture.where.file}: {warning.code}",),
                next=_describe(capture.node),
                lost=Lost(
                    gpus=frozenset(f"{capture.node or '?'}/smi{gpu}" for gpu in warning.gpus),
                    basis="GPUs that nvidia-smi reports",
                ),
                facts={"warning": warning.code, "gpus": list(warning.gpus)},
            )
