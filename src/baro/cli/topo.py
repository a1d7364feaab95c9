"""``baro topo``: one machine from a file, stdin or a profile as text, JSON, YAML, SVG or ``topo -m``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baro.cli.output import colour, emit, table
from baro.model.errors import InputError, TooLargeError, Where

if TYPE_CHECKING:
    from baro.topology.machine import Machine

MAX_BYTES = 64 * 1024 * 1024
"""Largest input; the XML of a 16-GPU machine has about half a MiB."""

FORMATS = ("text", "table", "json", "yaml", "svg", "topo-m")


@click.command("topo")
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--profile", metavar="NAME", help="A built-in machine profile, or the path of one.")
@click.option("--list-profiles", is_flag=True, help="Print the built-in machine profiles.")
@click.option(
    "--set", "chosen", metavar="0,1,4,5", help="Compare this set of GPUs with the best of its size."
)
@click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="Output format."
)
def command(
    file: str | None, profile: str | None, list_profiles: bool, chosen: str | None, output: str
) -> int:
    """Show one machine: NVLink islands, predicted GB/s, NUMA nodes, near NICs, warnings, matrix.

    FILE is what `nvidia-smi topo -m` or `nvidia-smi -q -x` printed, a MachineTopology document or a machine
    profile (YAML or JSON); - reads stdin. GB/s are for one direction of the best all-reduce ring.
    """
    if list_profiles:
        _print_profiles(output)
        return 0
    if (file is None) == (profile is None):
        raise click.UsageError("give either FILE (or -) or --profile NAME; --list-profiles prints the names")
    machine = _from_profile(profile) if profile is not None else read_machine(file or "-")
    _print(machine, output, _parse_set(chosen, machine))
    return 0


def read_machine(file: str) -> Machine:
    """The machine that a file (``-``: stdin) describes, whatever its format. Raises ``InputError``."""
    source = "<stdin>" if file == "-" else file
    return parse_machine(_read(file, source), source)


def parse_machine(data: bytes, source: str) -> Machine:
    """The machine in the text of one file: XML, MachineTopology, MachineProfile or a matrix."""
    from baro.topology import smi_xml, topo_m  # noqa: PLC0415 - a lazy module imports on use

    head = data[:4096].decode("utf-8", errors="replace")
    if smi_xml.looks_like(head):
        return smi_xml.parse(data, source)
    if head.lstrip("\ufeff \t\r\n").startswith("{") or re.search(
        r"^(?:apiVersion|kind)\s*:", head, re.MULTILINE
    ):
        return _from_document(data, source)
    return topo_m.parse(data, source)


def _read(file: str, source: str) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", where=Where(file=source)) from error
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"the input is larger than {MAX_BYTES // 2**20} MiB", where=Where(file=source))
    return data


def _from_document(data: bytes, source: str) -> Machine:
    from baro.model.load import load_bytes  # noqa: PLC0415
    from baro.topology.document import KIND, from_document  # noqa: PLC0415
    from baro.topology.profiles import profile_from  # noqa: PLC0415

    documents = load_bytes(data, file=source)
    if len(documents) != 1:
        raise InputError(
            f"the file has {len(documents)} documents; one machine is wanted", where=Where(file=source)
        )
    body = documents[0].body
    if body.get("kind") == "MachineProfile":
        return profile_from(body, source).machine()
    if body.get("kind") == KIND:
        return from_document(body, source)
    raise InputError(
        f"kind {body.get('kind')!r} is no machine",
        where=documents[0].where,
        next_step="give a MachineTopology, a MachineProfile, or what `nvidia-smi topo -m` printed",
    )


def _from_profile(name: str) -> Machine:
    from baro.topology.profiles import load_profile  # noqa: PLC0415

    return load_profile(name).machine()


def _parse_set(text: str | None, machine: Machine) -> tuple[int, ...]:
    from baro.topology.links import parse_ranges  # noqa: PLC0415

    if text is None:
        return ()
    gpus = parse_ranges(text)
    known = {gpu.index for gpu in machine.gpus}
    if gpus is None or not gpus:
        raise click.BadParameter("a list of GPU indices such as 0,1,4,5 or 0-3 is wanted", param_hint="--set")
    if missing := sorted(set(gpus) - known):
        raise click.BadParameter(f"this machine has no GPU {missing[0]}", param_hint="--set")
    return gpus


def _print(machine: Machine, output: str, chosen: tuple[int, ...]) -> None:
    from baro.topology import svg, text, topo_m  # noqa: PLC0415
    from baro.topology.document import to_document  # noqa: PLC0415

    if output in ("json", "yaml"):
        document = to_document(machine)
        if chosen:
            document["sets"] = _sets(machine, chosen)
        emit(document, output)
    elif output == "svg":
        click.echo(svg.render(machine, chosen=chosen), nl=False)
    elif output == "topo-m":
        click.echo(topo_m.render(machine), nl=False)
    else:
        shown = text.view(machine, chosen)
        click.echo(_coloured(shown) if colour() else shown)


def _sets(machine: Machine, chosen: tuple[int, ...]) -> list[dict[str, Any]]:
    """The asked and the best set as JSON: ``{which, gpus, gbps, ring, slowestHop, …}``."""
    from baro.topology.bandwidth import Predictor  # noqa: PLC0415

    predictor = Predictor(machine)
    best = predictor.best_sets((gpu.index for gpu in machine.gpus), len(set(chosen)))[0]
    return [
        {
            "which": which,
            "gpus": list(found.gpus),
            "gbps": found.gbps,
            "ring": list(found.ring),
            "slowestHop": list(found.slowest_hop) if found.slowest_hop else None,
            "slowestKind": found.slowest_kind,
            "slowestHopGbps": found.slowest_hop_gbps,
            "confidence": found.confidence.value,
            "notes": list(found.notes),
        }
        for which, found in (("asked", predictor.predict(chosen)), ("best", best))
    ]


def _print_profiles(output: str) -> None:
    from baro.topology.profiles import load_profile, profile_names  # noqa: PLC0415

    profiles = [load_profile(name) for name in profile_names()]
    if output in ("json", "yaml"):
        items = [
            {"name": p.name, "title": p.title, "gpus": len(p.gpus), "product": p.product} for p in profiles
        ]
        emit({"apiVersion": "baro.dev/v1alpha1", "kind": "MachineProfileList", "items": items}, output)
        return
    click.echo(table([(p.name, len(p.gpus), p.title) for p in profiles], ("NAME", "GPUS", "TITLE")))


def _coloured(shown: str) -> str:
    """NVLink cells green, paths across sockets and warnings yellow, labels bold."""
    shown = re.sub(r"\bNV\d+\+?", lambda cell: click.style(cell.group(), fg="green"), shown)
    shown = re.sub(r"\bSYS\b", lambda cell: click.style(cell.group(), fg="yellow"), shown)
    shown = re.sub(r"^warning.*$", lambda line: click.style(line.group(), fg="yellow"), shown, flags=re.M)
    return re.sub(
        r"^\S[^\n]{0,11}?(?=  )", lambda label: click.style(label.group(), bold=True), shown, flags=re.M
    )
