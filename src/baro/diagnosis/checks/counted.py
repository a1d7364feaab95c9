"""Check *integer-only*: nodes and workloads that count GPUs where it matters which GPUs they get.

``nvidia.com/gpu: 4`` says how many, never which. It matters on machines whose GPUs are not all linked
alike, for pods that ask for several. Where the machine is not known (no slices, no NodeTopology, no
``topo -m``), only the count is stated, as information.
"""

from __future__ import annotations

from collections.abc import Iterator

from baro.allocator.graph import document_of
from baro.diagnosis.checks.board import Board, PodView
from baro.diagnosis.checks.problem import Problem, count, named, on_node, problem
from baro.diagnosis.checks.resources import PRODUCT_LABEL, gpu_resources, whole_gpu_resource
from baro.diagnosis.evidence import CaptureKind
from baro.model.errors import BaroError
from baro.topology import topo_m
from baro.topology.bandwidth import Predictor
from baro.topology.islands import islands
from baro.topology.machine import Machine
from baro.topology.text import figure, set_text

NAME = "counted"


def check(board: Board) -> Iterator[Problem]:
    """Nodes on which multi-GPU pods are counted, one problem for each machine that is not uniform."""
    captured = _captured(board)
    unknown: list[str] = []
    blind: list[str] = []
    for name, node in board.nodes.items():
        total = sum(u for r, u in gpu_resources(node.status.capacity).items() if whole_gpu_resource(r))
        if total < 2:
            continue
        machine = captured.get(name) or _machine(board, name)
        many = [view for view in board.pods_on.get(name, ()) if view.gpus > 1]
        if machine is None:
            (blind if many else unknown).append(name)
        elif not _uniform(machine) and many:
            yield _gains(name, machine, many)
    yield from _blind(board, blind)


def _captured(board: Board) -> dict[str, Machine]:
    """Machines of ``topo -m`` captures, by node."""
    found = {}
    for capture in board.evidence.captured(CaptureKind.TOPO):
        if capture.node is not None:
            try:
                found[capture.node] = topo_m.parse(capture.text, capture.where.file or "")
            except BaroError:
                continue
    return found


def _machine(board: Board, node: str) -> Machine | None:
    topology = board.inventory.topologies.get(node)
    document = document_of(topology) if topology is not None else None
    if document is not None:
        return document.shape.machine
    view = board.view(node)
    return view.graph.shape.machine if view is not None else None


def _uniform(machine: Machine) -> bool:
    """No two pairs of GPUs differ."""
    kinds = {(link.kind, link.gbps) for link in machine.links.values()}
    whole = len(machine.links) == len(machine.gpus) * (len(machine.gpus) - 1) // 2
    return len(kinds) <= 1 and whole


def _gains(node: str, machine: Machine, many: list[PodView]) -> Problem:
    found = islands(machine).best
    sizes = sorted({view.gpus for view in many})
    predictor = Predictor(machine)
    lines = []
    for size in sizes:
        best = predictor.best_sets((gpu.index for gpu in machine.gpus), size)
        first = predictor.predict([gpu.index for gpu in machine.gpus][:size]) if best else None
        if best and first and best[0].gbps and first.gbps:
            lines.append(
                f"{size} GPUs: best set {set_text(best[0].gpus)} {figure(best[0].gbps)} GB/s, "
                f"lowest indices {figure(first.gbps)} GB/s"
            )
    groups = (
        f"{count(len(found), 'island')} ({', '.join(set_text(group) for group in found)})"
        if found
        else "no island"
    )
    return problem(
        NAME,
        "counted-workload-gains",
        f"node {node} counts GPUs but has {groups}: {named(view.name for view in many)} "
        f"{'asks' if len(many) == 1 else 'ask'} for several GPUs and cannot say which",
        subject=f"Node {node}",
        node=node,
        evidence=(
            *lines,
            "which GPUs the pods have, only the kubelet's pod-resources dump tells",
        ),
        next=(on_node(node, "nvidia-smi topo -m"), f"kubectl describe node {node}"),
        facts={"pods": [view.name for view in many], "islands": [list(group) for group in found]},
    )


def _blind(board: Board, nodes: list[str]) -> Iterator[Problem]:
    """Multi-GPU pods on nodes whose links nobody tells."""
    by_product: dict[str, list[str]] = {}
    for name in nodes:
        product = board.nodes[name].metadata.labels.get(PRODUCT_LABEL, "GPUs of an unknown product")
        by_product.setdefault(product, []).append(name)
    for product, names in by_product.items():
        pods = [view.name for name in names for view in board.pods_on.get(name, ()) if view.gpus > 1]
        yield problem(
            NAME,
            "counted-gpus-topology-blind",
            f"{count(len(names), 'node')} with {product} count their GPUs, and "
            f"{count(len(pods), 'pod')} ask for several: "
            "whether their GPUs are linked, nothing in the cluster tells",
            subject=f"Node {names[0]}",
            evidence=(f"nodes: {named(names)}", f"pods: {named(pods)}"),
            next=(on_node(names[0], f"nvidia-smi topo -m > {names[0]}.topo.txt"),),
            facts={"nodes": names, "pods": pods},
        )
