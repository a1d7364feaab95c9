"""What is in ``deploy/``: every manifest reads, and the classes are what the demo uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from baro.cel import compile_selector
from baro.demo.cluster import manifest
from baro.model.decode import strict_errors
from baro.model.load import load_paths
from baro.model.names import EXCLUSIVE_CLASS, SELECTOR_ANNOTATION

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"


@pytest.mark.parametrize("file", sorted(DEPLOY.rglob("*.yaml")), ids=lambda file: file.name)
def test_every_manifest_reads_and_has_no_field_that_the_api_server_does_not_know(file: Path) -> None:
    documents = load_paths([str(file)])
    assert documents
    for document in documents:
        assert strict_errors(document.body) == (), document.where


def test_kube_scheduler_can_never_match_the_exclusive_class_but_baro_can() -> None:
    classes = {
        document.body["metadata"]["name"]: document.body for document in manifest("deviceclasses.yaml")
    }
    exclusive = classes[EXCLUSIVE_CLASS]
    assert [selector["cel"]["expression"] for selector in exclusive["spec"]["selectors"]] == ["false"]
    compile_selector(exclusive["metadata"]["annotations"][SELECTOR_ANNOTATION])
