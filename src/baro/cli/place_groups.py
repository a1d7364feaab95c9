"""The objects that describe gangs, from a live cluster: read only when a pod that waits names one.

PodGroups and Workloads are alpha, off by default or of other schedulers, so a cluster without them, or one
that does not let baro read them, is a usual cluster: the gang is then placed as one that needs all its pods.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from baro.cli.output import progress
from baro.cli.sources import SourceOptions, open_client
from baro.kube.client import KubeClient
from baro.kube.errors import NotFoundError
from baro.kube.routes import Route
from baro.model.errors import BaroError
from baro.model.kinds.core import Pod
from baro.placement.gang.objects import key_of_gang

_WHERE: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "scheduling.k8s.io": (
        ("scheduling.k8s.io/v1beta1", "podgroups", "PodGroup"),
        ("scheduling.k8s.io/v1alpha3", "podgroups", "PodGroup"),
        ("scheduling.k8s.io/v1alpha2", "podgroups", "PodGroup"),
        ("scheduling.k8s.io/v1alpha1", "workloads", "Workload"),
    ),
    "scheduling.x-k8s.io": (("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup"),),
    "scheduling.volcano.sh": (("scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup"),),
}
"""Where a gang's name comes from → (version, resource, kind), the first that is served counts."""


class _List(msgspec.Struct):
    items: list[dict[str, Any]] = []


def read_groups(source: SourceOptions, pods: Sequence[Pod]) -> tuple[dict[str, Any], ...]:
    """The group objects of the namespaces in which these pods name groups. Says what could not be read."""
    named = {(key[0], key[1]) for pod in pods if (key := key_of_gang(pod)) is not None and key[0] in _WHERE}
    if not named or not source.from_cluster:
        return ()
    found: list[dict[str, Any]] = []
    until = time.monotonic() + source.deadline_s
    with open_client(source) as client:
        for group, namespace in sorted(named):
            try:
                found += _first(client, group, namespace, until)
            except (BaroError, msgspec.DecodeError) as error:
                progress(f"not known: the pod groups of {namespace}: {error}")
    return tuple(found)


def _first(client: KubeClient, group: str, namespace: str, until: float) -> Iterator[dict[str, Any]]:
    for version, plural, kind in _WHERE[group]:
        route = Route(version, plural, True)
        try:
            body = client.read_until(
                route.path(namespace), params={}, verb="list", resource=route, until=until
            )
        except NotFoundError:
            continue
        for item in msgspec.json.decode(body, type=_List).items:
            yield {**item, "apiVersion": version, "kind": kind}
        return
