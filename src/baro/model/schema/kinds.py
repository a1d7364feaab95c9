"""The catalogue of kinds: names, scope, subresources and the columns that ``kubectl get`` shows.

``served`` is false for kinds that only lint and migration read (their schema is known, no server of ours
stores them). Column *values* are computed where Tables are built, not here.
Source: the storage and printer registrations of kube-apiserver 1.37.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from baro.model.schema.types import object_type


class Column(msgspec.Struct, frozen=True):
    """One column of a Table. ``priority`` 1 means: only with ``-o wide``."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of one API version. ``type`` names its object type (see ``resolve``)."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    type: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = False
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    served: bool = True

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``, as objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version


def kinds() -> tuple[Kind, ...]:
    """All kinds, the preferred version of a group first."""
    return _catalogue()


def find_kind(api_version: str, kind: str) -> Kind | None:
    """The kind that an object with this ``apiVersion`` and ``kind`` is of."""
    return _by_kind().get((api_version, kind))


def find_plural(group: str, version: str, plural: str) -> Kind | None:
    """The kind behind a URL's ``group``, ``version`` and resource name."""
    return next(
        (k for k in kinds() if (k.group, k.version, k.plural) == (group, version, plural)),
        None,
    )


# --- the catalogue ---------------------------------------------------------------------------------------

_NAME: Final = Column("Name", format="name", description="Name of the object, unique in its namespace.")
_AGE: Final = Column("Age", description="Time since the object was created.")
_TEMPLATE: Final = (
    Column("Containers", priority=1, description="Names of the template's containers."),
    Column("Images", priority=1, description="Images of the template's containers."),
)
_SELECTOR: Final = Column("Selector", priority=1, description="Label selector of the pods.")

_POD: Final = (
    _NAME,
    Column("Ready", description="Ready containers of all containers."),
    Column("Status", description="State of the pod, or why it waits."),
    Column("Restarts", description="Restarts of the containers, and when the last was."),
    _AGE,
    Column("IP", priority=1, description="Address of the pod."),
    Column("Node", priority=1, description="Node the pod is bound to."),
    Column("Nominated Node", priority=1, description="Node that preemption makes room on."),
    Column("Readiness Gates", priority=1, description="Readiness gates passed of all."),
)
_NODE: Final = (
    _NAME,
    Column("Status", description="Ready, NotReady, SchedulingDisabled."),
    Column("Roles", description="Roles given by labels."),
    _AGE,
    Column("Version", description="Version of the kubelet."),
    Column("Internal-IP", priority=1, description="Address inside the cluster."),
    Column("External-IP", priority=1, description="Address outside the cluster."),
    Column("OS-Image", priority=1, description="Operating system."),
    Column("Kernel-Version", priority=1, description="Kernel."),
    Column("Container-Runtime", priority=1, description="Container runtime and version."),
)
_EVENT: Final = (
    Column("Last Seen", description="Time since the event happened last."),
    Column("Type", description="Normal or Warning."),
    Column("Reason", description="Short machine-readable reason."),
    Column("Object", description="Object the event is about."),
    Column("Subobject", priority=1, description="Part of the object the event is about."),
    Column("Source", priority=1, description="Component that reports."),
    Column("Message", description="What happened."),
    Column("First Seen", priority=1, description="Time since the event happened first."),
    Column("Count", priority=1, description="How often it happened."),
    Column("Name", format="name", priority=1, description="Name of the event."),
)
_CLAIM: Final = (_NAME, Column("State", description="pending, or allocated, reserved, deleted."), _AGE)
_SLICE: Final = (
    _NAME,
    Column("Node", description="Node that has the devices."),
    Column("Driver", description="DRA driver that published the slice."),
    Column("Pool", description="Pool the slice belongs to."),
    _AGE,
)
_TAINT_RULE: Final = (
    _NAME,
    Column("Key", description="Key of the taint."),
    Column("Value", description="Value of the taint."),
    Column("Effect", description="Effect of the taint."),
    Column("TimeAdded", description="When the taint was added."),
    _AGE,
)


def _kind(  # noqa: PLR0913 - one row of the catalogue
    api_version: str,
    kind: str,
    plural: str,
    columns: tuple[Column, ...],
    *,
    short: str = "",
    namespaced: bool = False,
    subresources: str = "",
    categories: tuple[str, ...] = (),
    served: bool = True,
) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        type=object_type(api_version, kind).ref,
        short_names=tuple(short.split()),
        namespaced=namespaced,
        subresources=tuple(subresources.split()),
        categories=categories,
        columns=columns,
        served=served,
    )


@cache
def _catalogue() -> tuple[Kind, ...]:
    return (*_core(), *_resource(), *_other(), *_workloads())


@cache
def _by_kind() -> dict[tuple[str, str], Kind]:
    return {(kind.api_version, kind.kind): kind for kind in kinds()}


def _core() -> tuple[Kind, ...]:
    return (
        _kind("v1", "Pod", "pods", _POD, short="po", namespaced=True, categories=("all",),
              subresources="binding ephemeralcontainers eviction log resize status"),
        _kind("v1", "Node", "nodes", _NODE, short="no", subresources="proxy status"),
        _kind("v1", "Namespace", "namespaces",
              (_NAME, Column("Status", description="Active or Terminating."), _AGE),
              short="ns", subresources="finalize status"),
        _kind("v1", "Event", "events", _EVENT, short="ev", namespaced=True),
        _kind("v1", "ConfigMap", "configmaps",
              (_NAME, Column("Data", description="Number of entries."), _AGE), short="cm", namespaced=True),
        _kind("v1", "Secret", "secrets",
              (_NAME, Column("Type", description="Type of the secret."),
               Column("Data", description="Number of entries."), _AGE), namespaced=True),
        _kind("v1", "ServiceAccount", "serviceaccounts", (_NAME, _AGE), short="sa", namespaced=True),
        _kind("v1", "Binding", "bindings", (_NAME, _AGE), namespaced=True),
    )  # fmt: skip


def _resource() -> tuple[Kind, ...]:
    found: list[Kind] = []
    for version in ("v1", "v1beta2", "v1beta1"):
        api_version = f"resource.k8s.io/{version}"
        found += (
            _kind(api_version, "DeviceClass", "deviceclasses", (_NAME, _AGE)),
            _kind(
                api_version, "ResourceClaim", "resourceclaims", _CLAIM, namespaced=True, subresources="status"
            ),
            _kind(
                api_version, "ResourceClaimTemplate", "resourceclaimtemplates", (_NAME, _AGE), namespaced=True
            ),
            _kind(api_version, "ResourceSlice", "resourceslices", _SLICE),
        )
    for version, served in (("v1", True), ("v1beta2", False), ("v1alpha3", False)):
        found.append(
            _kind(f"resource.k8s.io/{version}", "DeviceTaintRule", "devicetaintrules", _TAINT_RULE,
                  subresources="status", served=served)
        )  # fmt: skip
    return tuple(found)


def _other() -> tuple[Kind, ...]:
    holder = Column("Holder", description="Who holds the lease.")
    return (
        _kind("events.k8s.io/v1", "Event", "events", _EVENT, short="ev", namespaced=True),
        _kind("coordination.k8s.io/v1", "Lease", "leases", (_NAME, holder, _AGE), namespaced=True),
        _kind("baro.dev/v1alpha1", "NodeTopology", "nodetopologies", (_NAME, _AGE)),
    )


def _workloads() -> tuple[Kind, ...]:
    ready = Column("Ready", description="Ready pods of all pods.")
    counts = (
        Column("Desired", "integer", description="Pods wanted."),
        Column("Current", "integer", description="Pods there are."),
        Column("Ready", "integer", description="Pods that are ready."),
    )
    updated = Column("Up-to-date", description="Pods of the current template.")
    available = Column("Available", description="Pods that are available.")
    replica_set = (_NAME, *counts, _AGE, *_TEMPLATE, _SELECTOR)
    deployment = (_NAME, ready, updated, available, _AGE, *_TEMPLATE, _SELECTOR)
    daemon_set = (
        _NAME, *counts, updated, available,
        Column("Node Selector", description="Labels of the nodes that get a pod."),
        _AGE, *_TEMPLATE, _SELECTOR,
    )  # fmt: skip
    job = (
        _NAME,
        Column("Status", description="Status of the job."),
        Column("Completions", description="Completed pods of all."),
        Column("Duration", description="Time the job took."),
        _AGE, *_TEMPLATE, _SELECTOR,
    )  # fmt: skip
    cron_job = (
        _NAME,
        Column("Schedule", description="Schedule in cron format."),
        Column("Timezone", description="Time zone of the schedule."),
        Column("Suspend", "boolean", description="Whether runs are suspended."),
        Column("Active", "integer", description="Jobs that run."),
        Column("Last Schedule", description="Time since the last run."),
        _AGE, *_TEMPLATE, _SELECTOR,
    )  # fmt: skip
    rows = (
        ("apps/v1", "Deployment", "deployments", deployment, "deploy", "scale status"),
        ("apps/v1", "StatefulSet", "statefulsets", (_NAME, ready, _AGE, *_TEMPLATE), "sts", "scale status"),
        ("apps/v1", "DaemonSet", "daemonsets", daemon_set, "ds", "status"),
        ("apps/v1", "ReplicaSet", "replicasets", replica_set, "rs", "scale status"),
        ("batch/v1", "Job", "jobs", job, "", "status"),
        ("batch/v1", "CronJob", "cronjobs", cron_job, "cj", "status"),
    )  # fmt: skip
    return tuple(
        _kind(gv, kind, plural, columns, short=short, namespaced=True, subresources=subresources,
              categories=("all",), served=False)
        for gv, kind, plural, columns, short, subresources in rows
    )  # fmt: skip
