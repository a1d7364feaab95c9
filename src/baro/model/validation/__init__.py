"""Whole-object validation: what the API server refuses about values, in its words and with its paths.

``validate_create`` and ``validate_update`` judge one write each; ``prepare`` tells what the server makes of a
body before it looks (defaults, fields of gates that are off). Which Kubernetes version and which gates speak
is the caller's choice (1.34 to 1.37). Bodies are JSON objects of any served version that decode (see
``baro.model.decode.strict_errors``); causes name fields as the request's version does where the server does
so. What needs other objects comes in as an argument or is not judged; compilation of CEL is the caller's
(``cel``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from baro.model.convert import to_v1
from baro.model.decode.kinds import without_nulls
from baro.model.decode.strict import strict_errors
from baro.model.errors import InputError
from baro.model.schema import find_kind
from baro.model.validation.causes import Cause, Problems, Reason
from baro.model.validation.checks import CREATE, UPDATE, Request
from baro.model.validation.claim_spec import CheckCel
from baro.model.validation.goview import without_empty_lists
from baro.model.validation.prepare import as_created, prepare_create, prepare_update, stored
from baro.model.validation.rules import DEFAULT_KUBE_VERSION, GATES, KUBE_VERSIONS, Rules, default_gates

__all__ = [
    "DEFAULT_KUBE_VERSION",
    "GATES",
    "KUBE_VERSIONS",
    "Cause",
    "CheckCel",
    "Problems",
    "Reason",
    "Verdict",
    "created",
    "default_gates",
    "judge_create",
    "judge_update",
    "validate_create",
    "validate_update",
]


class Verdict(msgspec.Struct, frozen=True):
    """What the server thinks of one write: why not, and the object in the v1 shape that it judged.

    ``body`` is what would be stored and read back if there are no causes; None when the body could not be
    judged (it does not decode, or its kind has no rules here).
    """

    causes: tuple[Cause, ...] = ()
    body: dict[str, Any] | None = None


def validate_create(
    body: Mapping[str, Any],
    *,
    cel: CheckCel | None = None,
    kube_version: str = DEFAULT_KUBE_VERSION,
    gates: Iterable[str] | None = None,
    namespace_labels: Mapping[str, str] | None = None,
    api_version: str | None = None,
) -> tuple[Cause, ...]:
    """Why a server would refuse to create ``body``; empty when it would not, as far as this room knows.

    ``cel`` is asked about every selector; without it expressions are only measured. ``gates`` are the feature
    gates that are on (default: those of ``kube_version``), ``namespace_labels`` the labels of the object's
    namespace (admin access is not judged without them), ``api_version`` the version in which the request came
    when ``body`` was converted since. A body that does not decode, or of a kind without rules here, has no
    causes.
    """
    rules = _rules(body, kube_version, gates, api_version)
    return judge_create(body, rules, cel=cel, namespace_labels=namespace_labels).causes


def validate_update(  # noqa: PLR0913 - each is one fact about the request
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    subresource: str = "",
    cel: CheckCel | None = None,
    kube_version: str = DEFAULT_KUBE_VERSION,
    gates: Iterable[str] | None = None,
    namespace_labels: Mapping[str, str] | None = None,
    api_version: str | None = None,
) -> tuple[Cause, ...]:
    """Why a server would refuse to let ``new`` replace ``old``; otherwise as :func:`validate_create`.

    ``subresource`` is ``""`` or ``"status"``. What such a write cannot touch is taken from ``old``. Conflicts
    of resource version, UID and name are not judged: they are answered before validation.
    """
    rules = _rules(new, kube_version, gates, api_version)
    verdict = judge_update(
        old, new, rules, subresource=subresource, cel=cel, namespace_labels=namespace_labels
    )
    return verdict.causes


def judge_create(
    body: Mapping[str, Any],
    rules: Rules,
    *,
    cel: CheckCel | None = None,
    namespace_labels: Mapping[str, str] | None = None,
) -> Verdict:
    """As :func:`validate_create`, with the object that was judged."""
    check = CREATE.get(_identity(body))
    plain = _decoded(body)
    if check is None or plain is None:
        return Verdict()
    prepared = prepare_create(plain, rules)
    problems = Problems(rules)
    check(Request(problems, prepared, {}, cel, namespace_labels))
    return Verdict(_unique(problems.causes), _kept(prepared))


def judge_update(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    rules: Rules,
    *,
    subresource: str = "",
    cel: CheckCel | None = None,
    namespace_labels: Mapping[str, str] | None = None,
) -> Verdict:
    """As :func:`validate_update`, with the object that was judged."""
    check = UPDATE.get((*_identity(new), subresource))
    plain, before = _decoded(new), _decoded(old)
    if check is None or plain is None or before is None:
        return Verdict()
    before = stored(before)
    prepared = prepare_update(plain, before, rules, subresource)
    problems = Problems(rules)
    check(Request(problems, prepared, before, cel, namespace_labels))
    return Verdict(_unique(problems.causes), _kept(prepared))


def created(body: Mapping[str, Any], rules: Rules) -> dict[str, Any] | None:
    """What a server has of ``body`` once somebody created it there, in the v1 shape, status included.

    That is without what its gates cover that are off. None when ``body`` does not decode.
    """
    plain = _decoded(body)
    return None if plain is None else as_created(plain, rules)


def _rules(
    body: Mapping[str, Any], kube_version: str, gates: Iterable[str] | None, api_version: str | None
) -> Rules:
    named = api_version or str(body.get("apiVersion", ""))
    return Rules(kube_version, gates, named.rpartition("/")[2] or "v1")


def _identity(body: Mapping[str, Any]) -> tuple[str, str]:
    return str(body.get("apiVersion", "")).rpartition("/")[0], str(body.get("kind"))


def _decoded(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """``body`` in the v1 shape without nulls, None when it does not decode."""
    if any(error.trouble in ("type", "value") for error in strict_errors(body)):
        return None
    try:
        converted = to_v1(body)
    except InputError:
        return None
    kind = find_kind(str(converted.get("apiVersion")), str(converted.get("kind")))
    return None if kind is None else without_nulls(converted, kind.type)


def _kept(prepared: dict[str, Any]) -> dict[str, Any]:
    """What is stored of an object that was judged."""
    group, kind = _identity(prepared)
    return without_empty_lists(prepared, kind) if group == "resource.k8s.io" else prepared


def _unique(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """The server checks some things twice; it says them once."""
    return tuple(dict.fromkeys(causes))
