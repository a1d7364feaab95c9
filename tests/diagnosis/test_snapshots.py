"""Snapshots: pruned of secrets, optionally under pseudonyms, and as good as the cluster for a diagnosis."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from baro.diagnosis.checks import diagnose
from baro.diagnosis.evidence import Evidence, Missing, from_documents
from baro.diagnosis.report.document import document
from baro.diagnosis.report.summary import summarise
from baro.diagnosis.snapshot import objects
from baro.model.load import load_bytes
from tests.support.diagnosis import (
    Body,
    claim,
    device_class,
    event,
    evidence,
    gpus,
    node,
    pod,
    resource_slice,
)
from tests.support.faulty_cluster import dump

SECRETS = ("hunter2", "s3cr3t", "acme", "payroll", "dgx-7.corp", "10.20.30.40", "GPU-18db0e85", "kmueller")


def _private() -> list[Body]:
    """A small cluster in which every private word stands somewhere."""
    worker = pod(
        "acme-train-0", namespace="payroll", node="dgx-7.corp", claims=["acme-claim"], image="reg.acme/x:1",
        labels={"owner": "kmueller", "app": "acme-train"}, annotations={"note": "s3cr3t"},
    )  # fmt: skip
    worker["spec"]["containers"][0].update(
        {
            "env": [{"name": "TOKEN", "value": "hunter2"}],
            "args": ["--password=hunter2"],
            "command": ["s3cr3t"],
        }
    )
    worker["metadata"]["managedFields"] = [{"manager": "kmueller"}]
    worker["spec"]["volumes"] = [{"name": "x", "secret": {"secretName": "s3cr3t"}}]
    slices = resource_slice("dgx-7.corp", gpus(2), name="00000-gpu.nvidia.com-dgx-7.corp-abc")
    slices["spec"]["devices"][0]["attributes"]["uuid"] = {
        "string": "GPU-18db0e85-99e9-c746-8531-ffeb86328b39"
    }
    held = claim("acme-claim", ["gpu-0"], namespace="payroll", node="dgx-7.corp", pods=["acme-train-0"])
    held["spec"]["devices"]["config"] = [{"opaque": {"driver": "x", "parameters": {"key": "s3cr3t"}}}]
    message = (
        "pod payroll/acme-train-0 on dgx-7.corp (10.20.30.40): "
        "GPU-18db0e85-99e9-c746-8531-ffeb86328b39: unresolvable CDI devices x.com/gpu=0"
    )
    condition = {"type": "Ready", "status": "True", "message": "kubelet of dgx-7.corp at 10.20.30.40"}
    where = node(
        "dgx-7.corp", labels={"kubernetes.io/hostname": "dgx-7.corp", "team": "acme"}, conditions=[condition]
    )
    where["status"]["addresses"] = [{"type": "InternalIP", "address": "10.20.30.40"}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "hunter2"}}
    return [
        where, slices, worker, held, secret, device_class(),
        event(message, pod="acme-train-0", namespace="payroll", host="dgx-7.corp"),
    ]  # fmt: skip


def _read(bodies: list[Body]) -> Evidence:
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}).encode()
    return from_documents(load_bytes(data))


def test_no_snapshot_holds_environment_arguments_or_secrets() -> None:
    text = json.dumps(list(objects(evidence(_private()))))
    for word in ("hunter2", "managedFields", '"Secret"', "secretName"):
        assert word not in text
    assert "acme-train-0" in text, "names stay unless asked otherwise"


def test_an_anonymised_snapshot_holds_no_private_word() -> None:
    text = json.dumps(list(objects(evidence(_private()), anonymise=True)))
    for word in SECRETS:
        assert word not in text, word
    assert "unresolvable CDI devices x.com/gpu=0" in text, "what the kubelet says stays"


def test_pseudonyms_are_consistent_over_kinds() -> None:
    found = _read(list(objects(evidence(_private()), anonymise=True)))
    snapshot = found.snapshot
    name = snapshot.nodes[0].metadata.name
    assert snapshot.slices[0].spec.node_name == snapshot.slices[0].spec.pool.name == name
    assert snapshot.pods[0].spec.node_name == name
    claim_ = snapshot.claims[0]
    assert snapshot.pods[0].spec.resource_claims[0].resource_claim_name == claim_.metadata.name
    assert claim_.status.reserved_for[0].uid == snapshot.pods[0].metadata.uid
    assert claim_.status.reserved_for[0].name == snapshot.pods[0].metadata.name
    assert claim_.status.allocation is not None
    assert claim_.status.allocation.devices.results[0].pool == name
    assert name in found.events[0].message


def test_pseudonyms_keep_the_order_of_names() -> None:
    names = [f"n{i}" for i in (10, 2, 33, 1)]
    bodies = list(objects(evidence([node(name) for name in names]), anonymise=True))[1:]
    given = dict(zip(names, (body["metadata"]["name"] for body in bodies), strict=True))
    assert sorted(names) == sorted(names, key=given.__getitem__)


@pytest.mark.parametrize("anonymise", [False, True])
def test_a_snapshot_gives_the_same_problems_and_costs_as_what_it_was_taken_of(anonymise: bool) -> None:
    pieces, _ = dump(150, 1)
    original = from_documents(load_bytes("".join(pieces).encode()))
    again = _read(list(objects(original, anonymise=anonymise)))
    first, second = (diagnose(found) for found in (original, again))
    reports = [document(found, summarise(found)) for found in (first, second)]
    assert reports[0]["summary"] == reports[1]["summary"]
    assert _costs(reports[0]) == _costs(reports[1])
    if not anonymise:
        assert reports[0] == reports[1]


def _costs(report: dict[str, Any]) -> Counter[str]:
    return Counter(json.dumps([item["code"], item["severity"], item["lost"]]) for item in report["problems"])


def test_what_was_missing_stays_missing() -> None:
    import msgspec

    poor = msgspec.structs.replace(
        evidence([node()], taken_at="2026-01-01T00:00:00Z", served={"apps": ("v1",)}),
        missing=(Missing("pods", "the server does not allow to list pods", "kubectl auth can-i list pods"),),
    )
    again = _read(list(objects(poor)))
    assert again.missing == poor.missing
    assert again.taken_at == poor.taken_at
    assert again.served == {"apps": ("v1",)}
