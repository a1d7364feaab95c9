"""Check *DRA broken*, part six: API versions of objects against what the server serves.

Objects of classic DRA (v1alpha*) and objects stored in a version that is going away block an upgrade. What a
manifest should say instead is lint's business.
"""

from __future__ import annotations

from collections.abc import Iterator

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.problem import Problem, count, named, problem
from baro.diagnosis.evidence import Missing

NAME = "dra"
GROUP = "resource.k8s.io"
_CLASSIC = ("v1alpha1", "v1alpha2", "v1alpha3")
_STILL = "DeviceTaintRule"
"""The only kind that v1alpha3 still has."""
_SKELETON = "deviceClassName: gpu.nvidia.com below exactly, selectors of GpuClaimParameters become CEL"


def check(board: Board) -> Iterator[Problem]:
    """All problems with versions."""
    yield from _classic(board)
    yield from _unserved(board)


def _classic(board: Board) -> Iterator[Problem]:
    by_version: dict[str, list[str]] = {}
    for document in board.evidence.documents:
        group, _, version = document.api_version.rpartition("/")
        if group == GROUP and version in _CLASSIC and document.kind != _STILL:
            by_version.setdefault(version, []).append(document.where.object or document.kind)
    for version, objects in by_version.items():
        files = [
            document.where.file
            for document in board.evidence.documents
            if document.api_version == f"{GROUP}/{version}" and document.where.file
        ]
        yield problem(
            NAME,
            "classic-dra",
            f"{count(len(objects), 'object')} of {GROUP}/{version}: no server from 1.32 on has "
            "these kinds, and as "
            "stored objects they block the upgrade",
            subject=objects[0],
            evidence=(named(objects), f"in v1: {_SKELETON}"),
            next=(f"kubectl get --raw /apis/{GROUP}", *(f"baro lint {file}" for file in files[:1])),
            remedy="Delete resourceclaims, resourceclaimtemplates, deviceclasses and resourceslices "
            "before the "
            "upgrade and create them again as resource.k8s.io/v1 on 1.32 or later.",
            facts={
                "code": "classic-dra",
                "version": version,
                "objects": len(objects),
                "convertible": "partial",
                "skeleton": {"deviceClassName": "gpu.nvidia.com"},
            },
        )


def _unserved(board: Board) -> Iterator[Problem]:
    """The server does not serve the group, or only versions that are going away."""
    served = board.evidence.served.get(GROUP)
    if served is None:
        missing = board.evidence.lacks("resourceslices")
        if board.evidence.served and missing:
            yield _no_dra(missing[0])
        return
    if "v1" not in served:
        yield problem(
            NAME,
            "old-resource-api",
            f"the server serves {GROUP} only as {', '.join(served)}; v1 is served from Kubernetes 1.34 on",
            subject=GROUP,
            evidence=(f"server {board.evidence.server_version or 'version not told'}",),
            next=(f"kubectl get --raw /apis/{GROUP}",),
            facts={"served": list(served)},
        )


def _no_dra(missing: Missing) -> Problem:
    return problem(
        NAME,
        "no-resource-api",
        f"the server does not serve {GROUP}: DRA is off or older than 1.32",
        subject=GROUP,
        evidence=(missing.why,),
        next=("kubectl api-versions | grep resource.k8s.io",),
    )
