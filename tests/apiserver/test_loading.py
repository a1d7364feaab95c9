"""Filling a server from files, and the command that does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import yaml

from baro.apiserver.loading import load_files
from baro.model.errors import InputError
from tests.support import apiserver as support
from tests.support import shared
from tests.support.apiserver import CLAIMS, PODS, Api


def dump(path: Path, *objects: support.Body) -> Path:
    path.write_text(yaml.safe_dump_all(objects))
    return path


def test_a_dump_comes_back_with_its_status_and_uids(tmp_path: Path) -> None:
    pod = support.pod(uid="pod-uid", namespace="team", resourceVersion="77")
    pod["status"] = {"phase": "Running"}
    claim = support.claim(namespace="team", uid="claim-uid", finalizers=["example.com/hold"])
    consumer = {"resource": "pods", "name": "p1", "uid": "pod-uid"}
    claim["status"] = {"allocation": support.allocation("gpu-0"), "reservedFor": [consumer]}
    listed = {"apiVersion": "v1", "kind": "List", "items": [pod, claim]}
    api = Api()
    assert load_files(api.registry, [dump(tmp_path / "dump.yaml", listed)]) == 2
    loaded = api.get(CLAIMS.replace("default", "team") + "/tp4").body
    assert loaded["metadata"]["uid"] == "claim-uid"
    assert loaded["status"] == claim["status"]
    running = api.get(PODS.replace("default", "team") + "/p1").body
    assert (running["metadata"]["uid"], running["status"]["phase"]) == ("pod-uid", "Running")
    assert running["metadata"]["resourceVersion"] != "77"


def test_what_cannot_be_loaded_is_named_with_its_place(tmp_path: Path) -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    path = dump(tmp_path / "objects.yaml", support.claim(), deployment)
    with pytest.raises(InputError, match="Deployment of apps/v1 is not served here") as raised:
        load_files(Api().registry, [path])
    assert raised.value.where.file is not None
    assert raised.value.where.line is not None
    twice = dump(tmp_path / "twice.yaml", support.claim(), support.claim())
    with pytest.raises(InputError, match="already exists"):
        load_files(Api().registry, [twice])
    wrong = dump(tmp_path / "wrong.yaml", support.claim(count=-3))
    with pytest.raises(InputError, match="must be greater than zero"):
        load_files(Api().registry, [wrong])


@pytest.mark.parametrize(
    "path", shared.listing("data/dra-yaml", "resourceslice*"), ids=lambda path: path.stem[:60]
)
def test_every_captured_slice_loads_or_is_refused_with_one_clear_error(path: Path) -> None:
    api = Api()
    try:
        count = load_files(api.registry, [path])
    except InputError as error:
        assert error.what
    else:
        slices = api.get(support.SLICES).body["items"]
        assert 0 < len(slices) <= count


def test_the_command_serves_loads_and_ends_on_a_signal(tmp_path: Path) -> None:
    manifest = dump(tmp_path / "node.yaml", support.node("loaded"))
    kubeconfig = tmp_path / "config"
    program = [sys.executable, "-m", "baro", "apiserver", "--port", "0"]
    with subprocess.Popen(
        [*program, "--kubeconfig", str(kubeconfig), "--load", str(manifest)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        assert httpx2.get(f"{url}{support.NODES}/loaded").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert "loaded 1 objects" in process.stderr.read()
    config = yaml.safe_load(kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == url


def test_the_command_refuses_a_bad_file_with_exit_code_3(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [")
    done = subprocess.run(
        [sys.executable, "-m", "baro", "apiserver", "--port", "0", "--load", str(bad)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "bad.yaml" in done.stderr
    assert "Traceback" not in done.stderr
