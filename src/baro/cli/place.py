"""``baro place``: where would these claims go? Reads files, asks no server, writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from baro.cli.output import emit, output_option, progress, table
from baro.model.errors import InputError
from baro.model.names import API_VERSION

if TYPE_CHECKING:
    from baro.allocator import Features
    from baro.inventory import Snapshot
    from baro.model.kinds.resource import ResourceClaim
    from baro.placement import Placement
    from baro.placement.requests import Group


@click.command("place")
@click.option("-f", "--filename", "files", multiple=True, required=True, help="File, folder or - for stdin.")
@click.option("--node", "nodes", multiple=True, help="Consider only this node (may be repeated).")
@click.option(
    "--policy",
    type=click.Choice(["topology", "first-fit"]),
    default="topology",
    show_default=True,
    help="first-fit makes kube-scheduler's own choice.",
)
@click.option("--together", is_flag=True, help="Place all claims on one node, as those of one pod.")
@click.option(
    "--kube-version",
    default="1.37",
    show_default=True,
    help="Take this Kubernetes version's defaults, 1.34 to 1.38.",
)
@click.option(
    "--feature-gates",
    "gates",
    metavar="NAME=true|false,...",
    multiple=True,
    help="Feature gates that the cluster has on or off against the defaults.",
)
@output_option("table", "wide", "json", "yaml")
def command(
    files: tuple[str, ...],
    nodes: tuple[str, ...],
    policy: str,
    together: bool,
    kube_version: str,
    gates: tuple[str, ...],
    output: str,
) -> int:
    """Place the unallocated claims in FILES on the devices of the ResourceSlices in FILES.

    Claims with an allocation count as in use. The claims of one pod are placed together; otherwise claims
    are placed one after another, in the order of the files. Exit code 1: something fits nowhere.
    """
    from baro.inventory import Snapshot  # noqa: PLC0415 - a lazy module imports on use
    from baro.model.decode import to_kind  # noqa: PLC0415
    from baro.model.kinds.resource import ResourceClaimTemplate  # noqa: PLC0415
    from baro.model.load import load_paths  # noqa: PLC0415
    from baro.placement import requests  # noqa: PLC0415

    features = _features(kube_version, gates)
    objects = [
        item for document in load_paths(files) if (item := to_kind(document.body, document.where)) is not None
    ]
    snapshot = _seen(Snapshot.from_objects(objects), features)
    templates = [item for item in objects if isinstance(item, ResourceClaimTemplate)]
    wanted = requests.groups(snapshot.pods, snapshot.claims, templates)
    _check(snapshot, wanted, nodes)
    if together:
        wanted = (requests.together(wanted),)
    placed = _place_all(snapshot, wanted, nodes or None, policy, features)
    _print(placed, output)
    return 0 if all(placement.fits for _, placement in placed) else 1


def _features(kube_version: str, texts: Iterable[str]) -> Features:
    """The allocator's features; raises a usage error for what does not exist, before any file is read."""
    from baro.allocator.features import KUBE_VERSIONS, FeatureError, Features, without_effect  # noqa: PLC0415

    if kube_version not in KUBE_VERSIONS:
        listed = ", ".join(KUBE_VERSIONS)
        raise click.BadParameter(f"{kube_version!r} is not one of {listed}.", param_hint="--kube-version")
    changes: dict[str, bool] = {}
    for item in filter(None, (part.strip() for text in texts for part in text.split(","))):
        gate, _, value = item.partition("=")
        if value.lower() not in ("true", "false"):
            raise click.BadParameter(f"{item!r} is not NAME=true|false.", param_hint="--feature-gates")
        changes[gate] = value.lower() == "true"
    try:
        features = Features.of_version(kube_version, changes)
    except FeatureError as error:
        raise click.BadParameter(f"{error}.", param_hint="--feature-gates") from None
    for gate in without_effect(changes):
        progress(f"{gate} is ignored: baro place knows nothing that depends on it")
    return features


def _seen(snapshot: Snapshot, features: Features) -> Snapshot:
    """What a scheduler with these features looks at."""
    import msgspec  # noqa: PLC0415 - a lazy module imports on use

    return snapshot if features.taint_rules else msgspec.structs.replace(snapshot, taint_rules=())


def _check(snapshot: Snapshot, wanted: tuple[Group, ...], nodes: tuple[str, ...]) -> None:
    """Inputs with which no answer would mean anything."""
    if not wanted:
        raise InputError(
            "there is no unallocated claim in the files",
            next_step="give a ResourceClaim, or a pod and its ResourceClaimTemplate",
        )
    if not snapshot.slices:
        raise InputError(
            "there is no ResourceSlice in the files, so there are no devices to choose from",
            next_step="add: kubectl get resourceslices,deviceclasses,nodes,resourceclaims -A -o yaml",
        )
    known = {node.metadata.name for node in snapshot.nodes} | {
        item.spec.node_name for item in snapshot.slices if item.spec.node_name
    }
    for node in nodes:
        if node not in known:
            raise InputError(
                f"there is no node {node} in the files",
                next_step=f"known nodes: {', '.join(sorted(known)) or 'none'}",
            )


def _place_all(
    snapshot: Snapshot,
    wanted: tuple[Group, ...],
    nodes: tuple[str, ...] | None,
    policy: str,
    features: Features,
) -> list[tuple[Group, Placement]]:
    """One group after another; what one takes is in use for the next."""
    from baro.inventory import Inventory  # noqa: PLC0415
    from baro.placement import place  # noqa: PLC0415

    inventory = Inventory(snapshot)
    placed = []
    for group in wanted:
        placement = place(
            inventory, group.claims, nodes=nodes, policy=policy, features=features, pod=group.pod
        )
        if placement.error is not None and not placement.fits:
            progress(f"{group.title}: {placement.error}")
        for claim, allocation in zip(group.claims, placement.allocations, strict=placement.fits):
            inventory = inventory.hold_claim(_allocated(claim, allocation))
        placed.append((group, placement))
    return placed


def _allocated(claim: ResourceClaim, allocation: Any) -> ResourceClaim:
    import msgspec  # noqa: PLC0415

    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=allocation))


def _print(placed: list[tuple[Group, Placement]], output: str) -> None:
    from baro.placement.report import report  # noqa: PLC0415

    if output in ("json", "yaml"):
        reports = [report(group.claims, placement) for group, placement in placed]
        if len(reports) == 1:
            emit(reports[0], output)
        else:
            emit({"apiVersion": API_VERSION, "kind": "PlacementReportList", "items": reports}, output)
        return
    click.echo(table([_row(group, placement) for group, placement in placed], _HEADERS))
    for group, placement in placed:
        shown = placement.reasons if output == "wide" else placement.reasons[:1]
        for line in shown:
            click.echo(f"{group.title}: {line}")
        if output == "wide":
            click.echo("")
            click.echo(
                table(_node_rows(placement), ("NODE", "OUTCOME", "FREE GPUS", "ISLAND", "GB/S", "WHY"))
            )


_HEADERS = ("FOR", "NODE", "DEVICES", "GB/S")


def _row(group: Group, placement: Placement) -> tuple[str, str, str, str]:
    devices = [result.device for allocation in placement.allocations for result in allocation.devices.results]
    return (
        group.title,
        placement.node or "none",
        ",".join(devices) or "-",
        _gbps(placement.score.gbps if placement.score else None),
    )


def _node_rows(placement: Placement) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            decision.node,
            decision.outcome.value,
            str(decision.free_gpus),
            str(decision.island or "-"),
            _gbps(decision.score.gbps if decision.score else None),
            decision.error or (decision.reasons[0] if decision.reasons else ""),
        )
        for decision in placement.per_node
    ]
    return rows + [(name, "excluded", "-", "-", "-", why) for name, why in placement.excluded]


def _gbps(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
