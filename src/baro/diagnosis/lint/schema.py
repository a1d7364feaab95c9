"""What the API server refuses: fields it does not know, values it does not allow, fields it drops silently.

The words are the server's, from the same rooms as the embedded server's: ``baro.model.decode`` and
``baro.model.validation``. Added is what would mend it.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from baro.cel import check_expression
from baro.diagnosis.lint import shapes
from baro.diagnosis.lint.manifest import Manifest, mapping
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Opinion, Run
from baro.model.convert import to_v1
from baro.model.decode import StrictError, rejection, strict_errors
from baro.model.edits import Edit, EditError, Remove, apply
from baro.model.errors import InputError
from baro.model.positions import split_path
from baro.model.schema import find_kind
from baro.model.validation import Cause, CheckCel, Problems, Reason, Verdict, judge_create
from baro.model.validation.rules import Rules, default_gates

_GATES: Final = {
    "adminAccess": "DRAAdminAccess", "firstAvailable": "DRAPrioritizedList",
    "tolerations": "DRADeviceTaints", "taints": "DRADeviceTaints",
    "sharedCounters": "DRAPartitionableDevices", "consumesCounters": "DRAPartitionableDevices",
    "perDeviceNodeSelection": "DRAPartitionableDevices",
    "partitionTypeAttribute": "DRAPartitionableDevicesType",
    "allowMultipleAllocations": "DRAConsumableCapacity", "requestPolicy": "DRAConsumableCapacity",
    "distinctAttribute": "DRAConsumableCapacity", "capacity": "DRAConsumableCapacity",
    "bindsToNode": "DRADeviceBindingConditions", "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions", "derivedAttributes": "DRADerivedAttributes",
    "ints": "DRAListTypeAttributes", "bools": "DRAListTypeAttributes", "strings": "DRAListTypeAttributes",
    "versions": "DRAListTypeAttributes", "nodeAllocatableResources": "DRANodeAllocatableResources",
    "skipNodeOperations": "DRAOptionalNodeOperations", "compatibilityGroups": "DRADeviceCompatibilityGroups",
    "extendedResourceName": "DRAExtendedResource",
}  # fmt: skip
"""Field → the gate without which it is dropped."""
_ALPHA: Final = frozenset(field for field, gate in _GATES.items() if gate not in default_gates())
_STRICT: Final = "strict decoding error: "


class Answer(msgspec.Struct, frozen=True):
    """What a server of the target says to a creation: ``message`` is empty when it accepts."""

    message: str = ""

    @property
    def accepted(self) -> bool:
        return not self.message


def answer(manifest: Manifest, run: Run) -> Answer | None:
    """The server's whole answer; None for kinds that nothing is known about."""
    kind = find_kind(manifest.document.api_version, manifest.kind)
    if kind is None:
        if manifest.group != "resource.k8s.io":
            return None
        api = manifest.document.api_version
        return Answer(f'no kind "{manifest.kind}" is registered for version "{api}"')
    opinion = _opinion(manifest, run)
    refused = rejection(opinion.errors, manifest.document.api_version, manifest.kind)
    if refused is not None:
        return Answer(refused)
    lines = list(dict.fromkeys(str(cause) for cause in opinion.verdict.causes))
    if not lines:
        return Answer()
    listed = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    resource = f"{manifest.kind}.{manifest.group}" if manifest.group else manifest.kind
    return Answer(f'{resource} "{manifest.name}" is invalid: {listed}')


def _opinion(manifest: Manifest, run: Run) -> Opinion:
    """Judged once. A selector that was looked at before is not compiled again: failures cost most."""
    if id(manifest) not in run.opinions:

        def cel(problems: Problems, path: str, expression: str, *, derived: bool = False) -> int:
            if expression in run.said and not derived:
                problems.absorb(Cause(_reason(said), path, said) for said in run.said[expression])
                return 0
            return check_expression(problems, path, expression, run.target.environment, derived=derived)

        errors = strict_errors(manifest.body, kube_version=run.target.version)
        run.opinions[id(manifest)] = Opinion(errors, _verdict(manifest, run, errors, cel))
    return run.opinions[id(manifest)]


def _reason(said: str) -> Reason:
    reason: Reason = said.partition(":")[0]  # type: ignore[assignment] # the server's own words
    return reason


def _judgeable(manifest: Manifest, errors: tuple[StrictError, ...]) -> dict[str, Any]:
    """The body without the values that do not decode: the server stops at the first, people want all."""
    body = manifest.body
    for error in errors:
        steps = split_path(error.path)
        if error.trouble in ("type", "value") and len(steps) > 1 and isinstance(steps[-1], str):
            with contextlib.suppress(EditError):
                body = apply(body, (Remove(steps),))
    return body


def _verdict(manifest: Manifest, run: Run, errors: tuple[StrictError, ...], cel: CheckCel) -> Verdict:
    """The verdict on a document or, for a workload, on the pods it makes, with paths of the document.

    Without a target every gate that exists counts as on: what is refused then is refused everywhere.
    """
    target = run.target
    lenient = target.kube_version is None and target.gates is None
    gates = target.known if lenient else target.on
    labels = run.namespace_labels.get(manifest.namespace or "default")
    if manifest.pod_path is None or manifest.kind == "Pod":
        rules = Rules(target.version, gates, manifest.version or "v1")
        return judge_create(_judgeable(manifest, errors), rules, cel=cel, namespace_labels=labels)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": manifest.pod_spec}
    verdict = judge_create(body, Rules(target.version, gates, "v1"), namespace_labels=labels)
    causes = (
        Cause(cause.reason, f"{manifest.pod_path}{cause.path.removeprefix('spec')}", cause.message)
        for cause in verdict.causes
        if cause.path.startswith("spec")
    )
    return Verdict(tuple(causes))


@rule()
def decoding(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Unknown fields and wrong types: the decoder's words, all of them at once."""
    for error in _opinion(manifest, run).errors:
        if error.trouble == "unknown" and shapes.is_old_claim_source(manifest, error.path):
            message = (
                f"{error.message}: since Kubernetes 1.31 the entry names its claim itself, without `source`"
            )
            edits = shapes.unwrapped(manifest, error.path)
            where = manifest.document.where_of(error.path)
            yield note("pod-claim-source-removed", message, where, *edits, server=_STRICT + error.message)
            continue
        edits, hint = shapes.mend(manifest, error, run.places) or _renamed(manifest, error)
        prefix = _STRICT if error.trouble in ("unknown", "duplicate") else ""
        where = manifest.document.where_of(error.path)
        yield note(
            "manifest-decoding", error.message, where, *edits, remedy=hint, server=prefix + error.message
        )


def _renamed(manifest: Manifest, error: StrictError) -> tuple[tuple[Edit, ...], str]:
    """A misspelt field: the only known one that is near and free."""
    if error.trouble != "unknown":
        return (), ""
    known, present = shapes.fields_beside(manifest, error.path)
    name = error.path.rpartition(".")[2]
    near = difflib.get_close_matches(name, sorted(known - present), n=2, cutoff=0.8)
    if not near:
        folded = [field for field in known - present if field.lower() == name.lower()]
        near = folded[:1]
    if not near:
        return (), ""
    return shapes.rename(manifest, error.path, near[0]), f"The field is called {near[0]}."


@rule()
def validation(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Values that are not allowed. Selectors are judged elsewhere, what does not decode is said above."""
    opinion = _opinion(manifest, run)
    errors = opinion.errors
    for cause in opinion.verdict.causes:
        if cause.path.endswith(".cel.expression"):
            continue
        if _follows(cause, errors):
            continue
        edits, hint = shapes.mend_value(manifest, cause)
        where = manifest.where(shapes.exact_path(cause))
        yield note("manifest-invalid", str(cause), where, *edits, remedy=hint, server=str(cause))
    yield from _dropped(manifest, run, opinion.verdict, errors)


def _follows(cause: Cause, errors: tuple[StrictError, ...]) -> bool:
    """Whether the cause is only there because of a field that the server did not know."""
    path = split_path(cause.path)
    for error in errors:
        wrong = split_path(error.path)
        parent = wrong[:-1]
        if path == parent or path[: len(wrong)] == wrong:
            return True
        if cause.reason == "Required value" and path[: len(parent)] == parent:
            return True
    return False


# --- fields behind gates ---------------------------------------------------------------------------------


def _dropped(
    manifest: Manifest, run: Run, verdict: Verdict, errors: tuple[StrictError, ...]
) -> Iterator[Note]:
    """Fields that the server forgets without a word, because their gate is off.

    Objects that came from a server (they have a UID) are no news.
    """
    if not manifest.served_somewhere or "uid" in mapping(manifest.body, "metadata"):
        return
    target = run.target
    explicit = target.kube_version is not None or target.gates is not None
    kept = verdict.body
    if not explicit:
        if not _mentions(manifest.body, _ALPHA):
            return
        kept = judge_create(manifest.body, Rules(target.version, None, manifest.version)).body
    if kept is None or any(error.trouble in ("type", "value") for error in errors):
        return
    try:
        sent = to_v1(manifest.body)
    except InputError:
        return
    unknown = {error.path for error in errors}
    lost: dict[str, list[str]] = {}
    for path, field in _lost(sent.get("spec"), kept.get("spec"), "spec"):
        if field in _GATES and manifest.written(path) not in unknown:
            lost.setdefault(_GATES[field], []).append(path)
    for gate, paths in lost.items():
        code = "field-dropped" if explicit else "alpha-field"
        more = f" (and {len(paths) - 1} more like it)" if len(paths) > 1 else ""
        message = (
            f"Kubernetes {target.version} drops {paths[0]}{more} without a word unless the gate {gate} is on"
        )
        yield note(code, message, manifest.where(paths[0]))


def _mentions(body: Any, fields: frozenset[str]) -> bool:
    """Whether one of the fields occurs anywhere."""
    if isinstance(body, dict):
        return not fields.isdisjoint(body) or any(_mentions(value, fields) for value in body.values())
    return isinstance(body, list) and any(_mentions(item, fields) for item in body)


def _lost(sent: Any, kept: Any, path: str) -> Iterator[tuple[str, str]]:
    """(path, field) of what was sent and is not kept."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for key, value in sent.items():
            place = f"{path}.{key}" if "/" not in key else f"{path}[{key}]"
            if key not in kept:
                if value not in (None, [], {}, "", False):
                    yield place, key
            else:
                yield from _lost(value, kept[key], place)
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for index, (one, other) in enumerate(zip(sent, kept, strict=True)):
            yield from _lost(one, other, f"{path}[{index}]")
