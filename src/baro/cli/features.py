"""``--feature-gates`` and ``--kube-version`` of the commands that judge as a given Kubernetes would."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from baro.cli.output import progress

if TYPE_CHECKING:
    from baro.allocator import Features
    from baro.diagnosis.evidence import Evidence

Command = Callable[..., Any]


def gates_option(command: Command) -> Command:
    """``--feature-gates NAME=true|false,…``, repeatable: argument ``gates``."""
    return click.option(
        "--feature-gates",
        "gates",
        metavar="NAME=true|false,...",
        multiple=True,
        help="Feature gates that the cluster has on or off against the defaults.",
    )(command)


def gate_changes(texts: Iterable[str]) -> dict[str, bool]:
    """Gate → on. Raises a usage error for a text that is not of that form."""
    changes: dict[str, bool] = {}
    for item in filter(None, (part.strip() for text in texts for part in text.split(","))):
        gate, _, value = item.partition("=")
        if value.lower() not in ("true", "false"):
            raise click.BadParameter(f"{item!r} is not NAME=true|false.", param_hint="--feature-gates")
        changes[gate] = value.lower() == "true"
    return changes


NEWEST = "1.37"
"""The version that is assumed where nothing says which."""


def version_option(command: Command) -> Command:
    """``--kube-version``: argument ``kube_version``, ``None`` where it is not given."""
    return click.option(
        "--kube-version",
        metavar="VERSION",
        help="Take this Kubernetes version's feature defaults, 1.34 to 1.38, and not the gates that the "
        "cluster tells. Default: the cluster's, else 1.37.",
    )(command)


def checked(kube_version: str | None, texts: Iterable[str]) -> None:
    """Raises a usage error for a version or gate that does not exist, before anything is read."""
    texts = tuple(texts)
    if kube_version is not None:
        features_of(kube_version, texts, quiet=True)
        return
    from baro.allocator.features import KUBE_VERSIONS  # noqa: PLC0415 - a lazy module imports on use
    from baro.model.validation import rules  # noqa: PLC0415

    known = {gate for version in KUBE_VERSIONS for gate in rules.known_gates(version)}
    wrong = sorted(gate_changes(texts).keys() - known)
    if wrong:
        features_of(NEWEST, [f"{wrong[0]}=true"])


class There(NamedTuple):
    """Features as they are in a cluster, and in words where they are known from."""

    features: Features
    told: str


def features_there(evidence: Iterable[Evidence], kube_version: str | None, texts: Iterable[str]) -> There:
    """The features of the cluster that the evidence is of: its version's defaults, the gates that its API
    server told, and what the command line says on top. The first evidence that tells counts.

    Says on stderr which gates differ from the defaults by what the server told.
    """
    from baro.allocator.features import without_effect  # noqa: PLC0415
    from baro.model.validation import rules  # noqa: PLC0415 - a lazy module imports on use

    texts = tuple(texts)
    known = tuple(evidence)
    by_hand = f", with {', '.join(texts)}" if texts else ""
    if kube_version is not None:
        return There(features_of(kube_version, texts), f"the defaults of {kube_version}{by_hand}")
    version = next((found for item in known if (found := _known_version(item.server_version))), NEWEST)
    gates = next((item.feature_gates for item in known if item.feature_gates), {})
    default = set(rules.default_gates(version))
    there = set(rules.known_gates(version))
    ours = there - set(without_effect(there))
    differing = {name: on for name, on in sorted(gates.items()) if name in ours and on != (name in default)}
    if differing:
        listed = ", ".join(f"{name}={str(on).lower()}" for name, on in differing.items())
        progress(f"feature gates of the cluster that differ from the defaults of {version}: {listed}")
    for item in known:
        for missing in item.lacks("metrics"):
            progress(f"{missing.why}; {missing.next_step}")
    changes = [f"{name}={on}" for name, on in differing.items()]
    told = "what the cluster's API server tells" if gates else f"the defaults of {version}"
    return There(features_of(version, (*changes, *texts)), f"{told}{by_hand}")


def _known_version(server: str) -> str:
    """``1.36`` for a server that calls itself ``v1.36.2-gke.1``; empty for one that is not known, with a
    word about it where there is one."""
    from baro.allocator.features import KUBE_VERSIONS  # noqa: PLC0415

    found = re.match(r"v?(\d+\.\d+)", server)
    if found is None:
        return ""
    if found[1] not in KUBE_VERSIONS:
        progress(f"the server is Kubernetes {found[1]}, of which nothing is known: {NEWEST} is assumed")
        return ""
    return found[1]


def features_of(kube_version: str, texts: Iterable[str], *, quiet: bool = False) -> Features:
    """The allocator's features; raises a usage error for what does not exist, before any file is read."""
    from baro.allocator.features import KUBE_VERSIONS, FeatureError, Features, without_effect  # noqa: PLC0415

    if kube_version not in KUBE_VERSIONS:
        listed = ", ".join(KUBE_VERSIONS)
        raise click.BadParameter(f"{kube_version!r} is not one of {listed}.", param_hint="--kube-version")
    changes = gate_changes(texts)
    try:
        features = Features.of_version(kube_version, changes)
    except FeatureError as error:
        raise click.BadParameter(f"{error}.", param_hint="--feature-gates") from None
    for gate in without_effect(changes) if not quiet else ():
        progress(f"{gate} is ignored: no part of the allocator depends on it")
    return features
