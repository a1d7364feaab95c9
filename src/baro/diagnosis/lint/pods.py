"""Pods and what makes pods: claims that are not there, requests that nobody makes, two ways at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from baro.diagnosis.lint.manifest import CLAIM_KINDS, Manifest, items, mapping, text
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.requests import uses_gpu_driver
from baro.diagnosis.lint.run import Note, Run
from baro.model.edits import SetValue

_DEVICE_PLUGIN = re.compile(r"nvidia\.com/(?:gpu(?:\.shared)?|mig-.+)")


def entries(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """(path, entry, kind, name) of the entries of ``resourceClaims``: a claim or a template by name."""
    for index, entry in items(manifest.pod_spec, "resourceClaims"):
        source = mapping(entry, "source") or entry
        path = f"{manifest.pod_path}.resourceClaims[{index}]"
        for field, kind in (
            ("resourceClaimName", "ResourceClaim"),
            ("resourceClaimTemplateName", "ResourceClaimTemplate"),
        ):
            if text(source, field):
                prefix = "source." if "source" in entry else ""
                yield f"{path}.{prefix}{field}", entry, kind, text(source, field)


def containers(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in ("initContainers", "containers"):
        for index, container in items(manifest.pod_spec, field):
            yield f"{manifest.pod_path}.{field}[{index}]", container


@rule()
def references(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Claims and templates that are in no document. They may be in the cluster: no more than a hint."""
    if manifest.pod_path is None or not any(one.dra for one in run.of_kind(*CLAIM_KINDS)):
        return
    for path, _, kind, name in entries(manifest):
        if run.claim(kind, manifest.namespace, name) is not None or name in run.made_templates:
            continue
        known = sorted(n for k, _, n in run.claims if k == kind)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; the nearest is {near[0]}" if near else ""
        elsewhere = sorted(space for k, space, n in run.claims if (k, n) == (kind, name))
        if elsewhere:
            hint = f" in the pod's namespace; there is one in {elsewhere[0]}"
        other = "ResourceClaimTemplate" if kind == "ResourceClaim" else "ResourceClaim"
        if run.claim(other, manifest.namespace, name) is not None:
            hint = f"; there is a {other} of that name"
        message = f"no {kind} {name} among the documents{hint}"
        yield note("claim-not-in-files", message, manifest.document.where_of(path))


@rule()
def requested(manifest: Manifest, run: Run) -> Iterator[Note]:
    """``claims[].request`` names a request of the claim, not an alternative and not a device."""
    if manifest.pod_path is None:
        return
    named = {text(entry, "name"): (kind, name) for _, entry, kind, name in entries(manifest)}
    for base, container in containers(manifest):
        for index, used in items(mapping(container, "resources"), "claims"):
            wanted = text(used, "request")
            kind, name = named.get(text(used, "name"), ("", ""))
            claim = run.claim(kind, manifest.namespace, name) if wanted and kind else None
            names = claim.request_names() if claim is not None else frozenset[str]()
            if claim is None or wanted in names:
                continue
            near = difflib.get_close_matches(wanted, sorted(names), n=1, cutoff=0.6)
            path = f"{base}.resources.claims[{index}].request"
            steps = manifest.steps(path)
            only = near or (sorted(names) if len(names) == 1 else [])
            edits = (SetValue(steps, only[0]),) if only else ()
            message = f"{kind} {name} has no request {wanted}: it has {', '.join(sorted(names)) or 'none'}"
            yield note("request-unknown", message, manifest.document.where_of(path), *edits)


@rule()
def unused_entries(manifest: Manifest, run: Run) -> Iterator[Note]:
    """An entry that no container names: its devices are reserved and given to nobody."""
    if manifest.pod_path is None:
        return
    used = {
        text(claim, "name")
        for _, container in containers(manifest)
        for _, claim in items(mapping(container, "resources"), "claims")
    }
    for path, entry, kind, name in entries(manifest):
        claim = run.claim(kind, manifest.namespace, name)
        if text(entry, "name") not in used and claim is not None and uses_gpu_driver(claim):
            message = (
                f"no container names {text(entry, 'name')} in resources.claims: its GPUs are taken and no"
                " container gets them"
            )
            yield note("pod-claim-unused", message, manifest.document.where_of(path))


@rule()
def both_ways(manifest: Manifest, run: Run) -> Iterator[Note]:
    """GPUs counted by the device plugin and GPUs by claim on one pod: different GPUs, and twice as many."""
    if manifest.pod_path is None:
        return
    claimed = any(
        (claim := run.claim(kind, manifest.namespace, name)) is not None and uses_gpu_driver(claim)
        for _, _, kind, name in entries(manifest)
    )
    if not claimed:
        return
    for base, container in containers(manifest):
        for part in ("limits", "requests"):
            for resource in mapping(container, "resources", part):
                if _DEVICE_PLUGIN.fullmatch(resource):
                    path = f"{base}.resources.{part}[{resource}]"
                    message = (
                        f"the pod asks for {resource} and claims GPUs as well: it gets both, and neither side"
                        " knows what the other gave"
                    )
                    yield note("both-gpu-and-claims", message, manifest.document.where_of(path))
                    return


@rule(*CLAIM_KINDS)
def unused_claims(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Claims and templates that no pod of the documents names. Waiting for a pod is what claims do."""
    if not manifest.dra or not manifest.name or mapping(manifest.body, "status", "allocation"):
        return
    makers = [one for one in run.manifests if one.pod_path is not None]
    if not makers:
        return
    for maker in makers:
        for _, _, kind, name in entries(maker):
            if run.claim(kind, maker.namespace, name) is manifest:
                return
    if manifest.name in run.named_elsewhere:
        return  # a kind that lint does not know makes pods, or is itself what uses it
    message = f"no pod among the documents uses it: a {manifest.kind} stays pending until one does"
    if manifest.kind == "ResourceClaimTemplate":
        message = "no pod among the documents uses it: claims are made from a template only for pods"
    yield note("claim-unused", message, manifest.document.where_of("metadata.name"))
