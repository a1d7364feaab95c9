"""``--feature-gates`` and ``--kube-version`` of the commands that judge as a given Kubernetes would."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from baro.cli.output import progress

if TYPE_CHECKING:
    from baro.allocator import Features

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


def features_of(kube_version: str, texts: Iterable[str]) -> Features:
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
    for gate in without_effect(changes):
        progress(f"{gate} is ignored: no part of the allocator depends on it")
    return features
