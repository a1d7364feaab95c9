"""What a snapshot keeps of ports, volumes and affinity is enough for the same explanation, and no more."""

from __future__ import annotations

import json

import pytest

from baro.diagnosis.evidence import Evidence, from_documents
from baro.diagnosis.snapshot import objects
from baro.model.load import load_bytes
from tests.diagnosis.explain.test_rules import ROWS
from tests.support.explain import pod_explained, text
from tests.support.explain_documents import Body, known, node, pod
from tests.support.real_pending_rules import volume, volume_claim, with_claim


def read_back(evidence: Evidence, *, anonymise: bool = False) -> Evidence:
    """What ``--from`` reads of ``baro snapshot``."""
    items = list(objects(evidence, anonymise=anonymise))
    written = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    return from_documents(load_bytes(written.encode(), "snapshot.json"))


@pytest.mark.parametrize("bodies", [row[0] for row in ROWS.values()], ids=ROWS)
def test_a_snapshot_is_explained_as_the_cluster_is(bodies: tuple[Body, ...]) -> None:
    nodes = (node("a", zone="east", all="1"), node("b", zone="west", all="1"))
    live = known(*nodes, *bodies)
    assert text(pod_explained(read_back(live))) == text(pod_explained(live))


def test_where_storage_is_and_how_one_gets_at_it_is_not_written() -> None:
    secret = volume("local", "east", "v")
    secret["spec"]["csi"] |= {
        "nodeStageSecretRef": {"name": "s3cr3t"},
        "volumeAttributes": {"server": "10.9.8.7"},
    }
    made: Body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "c"},
        "provisioner": "csi.example.com",
        "parameters": {"key": "s3cr3t"},
    }
    body = with_claim(pod("p", ports=[80]), "data")
    body["spec"]["volumes"] += [{"name": "x", "secret": {"secretName": "s3cr3t"}}]
    body["spec"]["containers"][0]["ports"] += [{"containerPort": 5, "name": "s3cr3t"}]
    written = json.dumps(list(objects(known(secret, made, volume_claim("data", "local"), body))))
    assert "s3cr3t" not in written
    assert "10.9.8.7" not in written
    assert '"claimName": "data"' in written


def test_under_pseudonyms_no_claim_of_storage_is_named() -> None:
    evidence = known(volume_claim("payroll", "local"), with_claim(pod("p"), "payroll"))
    assert "payroll" not in json.dumps(list(objects(evidence, anonymise=True)))
