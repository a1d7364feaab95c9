"""``baro place``: where would these claims go? Reads files or a cluster, writes nothing.

What is asked and looked at is read by ``place_input``; here are the options, the order, and how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

from baro.cli.features import checked, features_there, gates_option, version_option
from baro.cli.output import emit, output_option, progress, table
from baro.cli.sources import SourceOptions, source_options
from baro.model.names import API_VERSION

if TYPE_CHECKING:
    from baro.allocator import Features
    from baro.cli.place_input import Question
    from baro.inventory import Inventory, Snapshot
    from baro.model.kinds.resource import ResourceClaim
    from baro.placement import Placement
    from baro.placement.gang import GangMember, GangPlacement
    from baro.placement.gang.objects import Gang
    from baro.placement.requests import Group

    GangAnswer: TypeAlias = tuple[Gang, tuple[GangMember, ...]]
    Answer: TypeAlias = tuple[Group, Placement] | tuple[GangAnswer, GangPlacement]


@click.command("place")
@click.option("-f", "--filename", "files", multiple=True, help="What to place: file, folder or - for stdin.")
@source_options
@click.option("--node", "nodes", multiple=True, help="Consider only this node (may be repeated).")
@click.option(
    "--policy",
    type=click.Choice(["topology", "first-fit", "best-effort"]),
    default="topology",
    show_default=True,
    help="first-fit makes kube-scheduler's own choice, best-effort that of NVIDIA's device plugin.",
)
@click.option("--together", is_flag=True, help="Place all claims on one node, as those of one pod.")
@click.option("--gang", "one_gang", is_flag=True, help="Place all pods or none, on any nodes.")
@version_option
@gates_option
@output_option("table", "wide", "json", "yaml")
def command(  # noqa: PLR0913 - one for each option
    *,
    files: tuple[str, ...],
    source: SourceOptions,
    nodes: tuple[str, ...],
    policy: str,
    together: bool,
    one_gang: bool,
    kube_version: str | None,
    gates: tuple[str, ...],
    output: str,
) -> int:
    """Where would the unallocated claims in FILES go? Nothing is written.

    Devices and what is in use come from FILES themselves, when they hold ResourceSlices or a machine
    (nvidia-smi topo -m, nvidia-smi -q -x, MachineTopology); else from --from or from the cluster. Without -f
    everything that waits there is placed.

    The claims of one pod go to one node. Pods of a gang (PodGroup, Workload, label baro.dev/gang) are placed
    all or none. Otherwise one after another, in the order of the files. Exit code 1: something has no place.
    """
    from baro.cli import place_input  # noqa: PLC0415 - a lazy module imports on use

    checked(kube_version, gates)
    if together and one_gang:
        raise click.UsageError("--together is for the claims of one pod, --gang for many pods: give one")
    question = place_input.read(files, source, one_gang=one_gang)
    if together:
        question = place_input.together(question)
    place_input.check_nodes(question.snapshot, nodes)
    features = features_there(question.told, kube_version, gates).features
    placed = _place_all(question, nodes or None, policy, features)
    _print(placed, output)
    return 0 if all(found.fits for _, found in placed) else 1


def _seen(snapshot: Snapshot, features: Features) -> Snapshot:
    """What a scheduler with these features looks at."""
    import msgspec  # noqa: PLC0415 - a lazy module imports on use

    return snapshot if features.taint_rules else msgspec.structs.replace(snapshot, taint_rules=())


def _place_all(
    question: Question, nodes: tuple[str, ...] | None, policy: str, features: Features
) -> list[Answer]:
    """One after another; what one takes is in use for the next."""
    from baro.inventory import Inventory  # noqa: PLC0415
    from baro.placement.gang.objects import Gang  # noqa: PLC0415

    run = _Run(Inventory(_seen(question.snapshot, features)), question, nodes, policy, features)
    return [run.gang(item) if isinstance(item, Gang) else run.group(item) for item in question.wanted]


class _Run:
    """One inventory, and what has been given so far."""

    def __init__(
        self,
        inventory: Inventory,
        question: Question,
        nodes: tuple[str, ...] | None,
        policy: str,
        features: Features,
    ) -> None:
        self._inventory = inventory
        self._question = question
        self._nodes = nodes
        self._policy = policy
        self._features = features
        self._given: dict[tuple[str, str], Any] = {}

    def group(self, group: Group) -> tuple[Group, Placement]:
        from baro.placement import Placement, place  # noqa: PLC0415
        from baro.placement.nodes import reaches  # noqa: PLC0415

        absent = [key for key in group.shared if key not in self._given]
        if absent:
            why = f"claim {'/'.join(absent[0])}, which another pod brings, has no place"
            return group, Placement(fits=False, reasons=(why,))
        allocated = [*group.allocated, *(self._given[key] for key in group.shared)]
        selectors = [item.node_selector for item in allocated if item.node_selector is not None]
        nodes: Sequence[str] | None = self._nodes
        if selectors:
            names = nodes if nodes is not None else self._inventory.node_names()
            nodes = [name for name in names if reaches(self._inventory, name, selectors)]
        found = place(
            self._inventory,
            group.claims,
            nodes=nodes,
            policy=self._policy,
            features=self._features,
            pod=group.pod,
        )
        if found.error is not None and not found.fits:
            progress(_titled(group.title, found.error))
        for claim, allocation in zip(group.claims, found.allocations, strict=found.fits):
            self._hold(claim, allocation)
        return group, found

    def gang(self, gang: Gang) -> tuple[GangAnswer, GangPlacement]:
        from baro.cli.place_input import running  # noqa: PLC0415
        from baro.placement.gang import place_gang  # noqa: PLC0415
        from baro.placement.requests import members  # noqa: PLC0415

        there = running(gang, self._question.snapshot.pods)
        pods = members(gang, self._question.known)
        enough = None if gang.at_least is None else max(0, gang.at_least - len(there))
        found = place_gang(
            self._inventory,
            pods,
            nodes=self._nodes,
            at_least=enough,
            same=gang.same,
            beside=there,
            policy=self._policy,
            features=self._features,
        )
        if enough is not None and len(pods) < enough:
            found = _too_few(gang, len(pods) + len(there))
        if found.error is not None and not found.fits:
            progress(_titled(gang.title, found.error))
        for seated in found.seated:
            for claim, allocation in zip(pods[seated.seat.member].claims, seated.allocations, strict=True):
                self._hold(claim, allocation)
        return (gang, pods), found

    def _hold(self, claim: ResourceClaim, allocation: Any) -> None:
        from baro.placement.requests import key_of  # noqa: PLC0415

        self._given[key_of(claim)] = allocation
        self._inventory.hold_claim(_allocated(claim, allocation))


def _titled(title: str, text: str) -> str:
    """The text with what it is about before it, once."""
    return text if text.startswith(title) else f"{title}: {text}"


def _too_few(gang: Gang, there: int) -> GangPlacement:
    from baro.allocator import Outcome  # noqa: PLC0415
    from baro.placement.gang import GangPlacement  # noqa: PLC0415

    why = f"{gang.title} wants at least {gang.at_least} pods, and there are {there}"
    return GangPlacement(outcome=Outcome.NO_FIT, reasons=(why,))


def _allocated(claim: ResourceClaim, allocation: Any) -> ResourceClaim:
    import msgspec  # noqa: PLC0415

    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=allocation))


# --- output ----------------------------------------------------------------------------------------------


def _print(placed: Sequence[Answer], output: str) -> None:
    from baro.placement import Placement  # noqa: PLC0415
    from baro.placement.report import gang_report, report  # noqa: PLC0415

    if output in ("json", "yaml"):
        reports = []
        for asked, found in placed:
            if isinstance(found, Placement):
                reports.append(report(cast("Group", asked).claims, found))
            else:
                gang, members = cast("GangAnswer", asked)
                reports.append(gang_report(gang.key[1:], members, found))
        if len(reports) == 1:
            emit(reports[0], output)
        else:
            emit({"apiVersion": API_VERSION, "kind": "PlacementReportList", "items": reports}, output)
        return
    rows: list[tuple[str, str, str, str]] = []
    for asked, found in placed:
        if isinstance(found, Placement):
            rows.append(_row(cast("Group", asked), found))
        else:
            rows += _gang_rows(cast("GangAnswer", asked)[1], found)
    click.echo(table(rows, _HEADERS))
    for asked, found in placed:
        title = cast("Group", asked).title if isinstance(found, Placement) else cast("Any", asked)[0].title
        most = 1 if isinstance(found, Placement) or not found.left_out else 2
        for line in found.reasons if output == "wide" else found.reasons[:most]:
            click.echo(f"{title}: {line}")
        if output == "wide":
            click.echo(f"{title}: {_work(found)}")
            if isinstance(found, Placement):
                click.echo("")
                click.echo(table(_node_rows(found), _NODE_HEADERS))


_HEADERS = ("FOR", "NODE", "DEVICES", "GB/S")
_NODE_HEADERS = ("NODE", "OUTCOME", "FREE GPUS", "ISLAND", "GB/S", "WORK", "WHY")


def _row(group: Group, placement: Placement) -> tuple[str, str, str, str]:
    return (
        group.title,
        placement.node or "none",
        _devices(placement.allocations),
        _gbps(placement.score.gbps if placement.score else None),
    )


def _gang_rows(members: Sequence[GangMember], found: GangPlacement) -> list[tuple[str, str, str, str]]:
    """A line for each pod."""
    seats = {(item.seat.member, item.seat.replica): item for item in found.seated}
    rows = []
    for number, member in enumerate(members):
        item = seats.get((number, 0))
        rows.append(
            (
                f"pod {member.title}",
                item.node if item else "none",
                _devices(item.allocations) if item else "-",
                _gbps(item.gbps if item else None),
            )
        )
    return rows


def _devices(allocations: Iterable[Any]) -> str:
    return ",".join(result.device for item in allocations for result in item.devices.results) or "-"


def _work(found: Placement | GangPlacement) -> str:
    """How much was looked at, in one line."""
    from baro.placement import Placement  # noqa: PLC0415
    from baro.placement.report import work_of  # noqa: PLC0415

    if not isinstance(found, Placement):
        return f"work: {found.work} devices tried and states looked at"
    nodes = len(found.per_node)
    return f"work: {found.evaluations} of {nodes} nodes evaluated, {work_of(found)} devices tried"


def _node_rows(placement: Placement) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            decision.node,
            decision.outcome.value,
            str(decision.free_gpus),
            str(decision.island or "-"),
            _gbps(decision.score.gbps if decision.score else None),
            str(decision.work),
            decision.error or (decision.reasons[0] if decision.reasons else ""),
        )
        for decision in placement.per_node
    ]
    return rows + [(name, "excluded", "-", "-", "-", "-", why) for name, why in placement.excluded]


def _gbps(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
