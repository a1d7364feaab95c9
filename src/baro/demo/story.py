"""What ``baro demo`` tells: the mission's manifest, what is wrong with it, and where its pod goes.

Everything printed is read back from the API server or computed by the code that production runs; the
figures are predictions of the topology model and are called so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import yaml

from baro.controller.view import View
from baro.demo.cluster import DemoCluster, manifest
from baro.diagnosis import catalogue
from baro.diagnosis.lint import lint
from baro.kube.errors import NotFoundError
from baro.model.errors import InternalError
from baro.model.findings import Finding, ranked
from baro.model.kinds.core import Event, Pod
from baro.model.kinds.resource import ResourceClaim
from baro.placement import first_fit
from baro.topology.bandwidth import Predictor
from baro.topology.islands import islands

WAIT_SECONDS = 15.0
POLL_SECONDS = 0.05


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the last table: who chose which GPUs of which node, and the predicted GB/s."""

    who: str
    node: str
    gpus: tuple[int, ...]
    gbps: float | None


class Story:
    """The acts of the demo, in order. ``say`` takes lines for stdout, ``show`` prints findings."""

    def __init__(
        self, cluster: DemoCluster, say: Callable[[str], None], show: Callable[[Sequence[Finding]], None]
    ) -> None:
        self._cluster = cluster
        self._say = say
        self._show = show
        self._mended: dict[str, Any] = {}

    # --- the machines ------------------------------------------------------------------------------------

    def nodes(self) -> list[tuple[str, ...]]:
        """One row a node: name, product, GPUs, free indices, islands, largest free part of an island."""
        rows: list[tuple[str, ...]] = []
        for node in self._cluster.nodes:
            machine = self._cluster.machines[node.name]
            free = [gpu.index for gpu in machine.gpus if gpu.index not in node.busy]
            sets = islands(machine).best
            largest = max((len(set(island) & set(free)) for island in sets), default=0)
            rows.append(
                (
                    node.name,
                    machine.gpus[0].product_name or "unknown",
                    " ".join(map(str, free)),
                    " ".join("{" + ",".join(map(str, island)) + "}" for island in sets) or "none",
                    str(largest),
                )
            )
        return rows

    # --- the manifest ------------------------------------------------------------------------------------

    def manifest(self) -> None:
        """The manifest as published, the server's answer, all its findings, and its mended form."""
        (document,) = manifest("mission.yaml")
        self._say(_yaml(document.body))
        refusal = self._cluster.refusal(document.body)
        if refusal is not None:
            self._say(f"\nthe API server says: {refusal.splitlines()[0]}\n\nbaro lint says:\n")
        result = lint(document, catalogue.nvidia_driver())
        self._show(ranked(result.findings))
        if result.mended is None:
            raise InternalError("the manifest of the demo has nothing to mend")
        self._mended = result.mended
        self._say("\nmended, for resource.k8s.io/v1:\n")
        self._say(_yaml(self._mended))

    # --- the placement -----------------------------------------------------------------------------------

    def place(self) -> tuple[Pod, list[Comparison]]:
        """Apply the mended template and the pod; wait for the binding; compare with first fit."""
        self._cluster.create(self._mended)
        (pod_manifest,) = manifest("pod.yaml")
        before = View()
        before.load(self._cluster.api)
        self._cluster.create(pod_manifest.body)
        name = pod_manifest.body["metadata"]["name"]
        pod = self._wait(name)
        claim = self._claim(pod)
        chosen = self._devices(claim)
        rows = [self._row("baro", pod.spec.node_name, chosen)]
        (naive,) = first_fit(before.inventory, [_unallocated(claim)], nodes=[pod.spec.node_name])
        if naive.decision.fits:
            taken = _names(naive.decision.allocations)
            rows.insert(0, self._row("kube-scheduler, first fit", pod.spec.node_name, taken))
        return pod, rows

    def events(self, pod: Pod) -> list[tuple[str, str]]:
        """(reason, message) of the pod's events, oldest first."""
        found = self._cluster.api.list(
            Event, pod.metadata.namespace, field_selector=f"involvedObject.name={pod.metadata.name}"
        )
        return [(event.reason, event.message) for event in found.items]

    def _wait(self, name: str) -> Pod:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                pod = self._cluster.api.get(Pod, "default", name)
            except NotFoundError:
                pod = Pod()
            if pod.spec.node_name:
                return pod
            time.sleep(POLL_SECONDS)
        raise InternalError(
            f"the pod {name} was not bound within {WAIT_SECONDS:.0f} s",
            next_step="run again with --verbose and report what it says",
        )

    def _claim(self, pod: Pod) -> ResourceClaim:
        (status,) = pod.status.resource_claim_statuses
        return self._cluster.api.get(ResourceClaim, pod.metadata.namespace, status.resource_claim_name or "")

    def _devices(self, claim: ResourceClaim) -> tuple[str, ...]:
        if claim.status.allocation is None:
            raise InternalError(f"{claim.ref} is not allocated although its pod is bound")
        return _names([claim.status.allocation])

    def _row(self, who: str, node: str, devices: Sequence[str]) -> Comparison:
        machine = self._cluster.machines[node]
        minors = {f"gpu-{gpu.minor}": gpu.index for gpu in machine.gpus}
        gpus = tuple(sorted(minors[device] for device in devices))
        return Comparison(who=who, node=node, gpus=gpus, gbps=Predictor(machine).predict(gpus).gbps)


def _names(allocations: Sequence[Any]) -> tuple[str, ...]:
    return tuple(result.device for allocation in allocations for result in allocation.devices.results)


def _unallocated(claim: ResourceClaim) -> ResourceClaim:
    return msgspec.structs.replace(claim, status=type(claim.status)())


def _yaml(body: Any) -> str:
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=200).rstrip()
