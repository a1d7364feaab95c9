"""CDI specs: every fault that makes a runtime skip a file, and files that are right."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from baro.diagnosis.checks import Problem, diagnose
from baro.model.findings import Severity
from tests.support.diagnosis import evidence

GOOD: dict[str, Any] = {
    "cdiVersion": "0.6.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {
            "name": "0",
            "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "permissions": "rw", "type": "c"}]},
        },
        {"name": "GPU-1:2.x", "containerEdits": {"env": ["A=b"]}},
    ],
    "containerEdits": {
        "deviceNodes": [{"path": "/dev/nvidiactl", "hostPath": "/dev/nvidiactl"}],
        "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk"}],
        "mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "bind"}],
    },
}
EDITS = "devices[0].containerEdits"


def _bad(*steps: Any, value: Any = None, drop: bool = False) -> dict[str, Any]:
    body = deepcopy(GOOD)
    at: Any = body
    for step in steps[:-1]:
        at = at[step]
    if drop:
        del at[steps[-1]]
    else:
        at[steps[-1]] = value
    return body


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no version": (_bad("cdiVersion", drop=True), "invalid version ''"),
    "a version that is none": (_bad("cdiVersion", value="latest"), "invalid version 'latest'"),
    "hostPath before 0.5": (_bad("cdiVersion", value="0.4.0"), "at least v0.5.0 for "),
    "annotations before 0.6": (
        {**_bad("cdiVersion", value="0.5.0"), "annotations": {"a": "b"}},
        "at least v0.6.0 for annotations",
    ),
    "a dot in the class before 0.6": (
        {**_bad("cdiVersion", value="0.5.0"), "kind": "nvidia.com/gpu.x"},
        "at least v0.6.0 for a dot",
    ),
    "groups before 0.7": (
        _bad("containerEdits", "additionalGids", value=[44]),
        "at least v0.7.0 for intelRdt or additionalGids",
    ),
    "no vendor": (_bad("kind", value="gpu"), "invalid kind 'gpu'"),
    "no devices": (_bad("devices", value=[]), "no devices"),
    "a name twice": (_bad("devices", 1, "name", value="0"), "multiple device '0'"),
    "a name with a blank": (_bad("devices", 1, "name", value="GPU 1"), "invalid device name 'GPU 1'"),
    "empty edits": (_bad("devices", 1, "containerEdits", value={}), "empty device edits"),
    "no edits": (_bad("devices", 1, "containerEdits", drop=True), "empty device edits"),
    "a device node without a path": (
        _bad("devices", 0, "containerEdits", "deviceNodes", 0, "path", drop=True),
        "invalid (empty) device path",
    ),
    "permissions": (
        _bad("devices", 0, "containerEdits", "deviceNodes", 0, "permissions", value="rwx"),
        "invalid permissions 'rwx'",
    ),
    "a type of device node": (
        _bad("devices", 0, "containerEdits", "deviceNodes", 0, "type", value="char"),
        "invalid type 'char'",
    ),
    "a variable without a value": (
        _bad("devices", 1, "containerEdits", "env", value=["NVIDIA_VISIBLE_DEVICES"]),
        "invalid environment variable",
    ),
    "a hook in lower case": (
        _bad("containerEdits", "hooks", 0, "hookName", value="createcontainer"),
        "invalid hook name 'createcontainer'",
    ),
    "a hook without a path": (
        _bad("containerEdits", "hooks", 0, "path", drop=True),
        "invalid hook, empty path",
    ),
    "a mount without a place": (
        _bad("containerEdits", "mounts", 0, "containerPath", drop=True),
        "invalid mount, empty containerPath",
    ),
}


def problems(*files: tuple[str, dict[str, Any]], **texts: str) -> list[Problem]:
    found = diagnose(
        evidence([], {**{name: json.dumps(body) for name, body in files}, **texts}), ["dra"]
    ).problems
    return [item for item in found if item.severity.rank < Severity.INFO.rank]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_path(name: str) -> None:
    body, words = FAULTS[name]
    (found,) = problems(("etc/cdi/x.json", body))
    assert found.code == "cdi-spec-invalid"
    assert words in found.message
    assert found.facts["path"]


def test_a_spec_that_is_right_is_not_spoken_of() -> None:
    assert problems(("etc/cdi/x.json", GOOD)) == []


def test_all_faults_of_a_file_are_one_problem() -> None:
    body = _bad("devices", value=[{"name": f"{i}"} for i in range(30)])
    (found,) = problems(("x.json", body))
    assert "29 more faults" in found.message
    assert found.facts["path"] == "devices[0].containerEdits"


def test_the_same_device_in_two_files_of_a_directory_is_a_conflict() -> None:
    (found,) = problems(("etc/cdi/a.json", GOOD), ("etc/cdi/b.json", GOOD))
    assert (found.code, found.facts["device"]) == ("cdi-device-conflict", "nvidia.com/gpu=0")
    assert problems(("etc/cdi/a.json", GOOD), ("run/cdi/b.json", GOOD)) == []
    assert problems(("etc/cdi/a.json", GOOD), ("etc/cdi/b.json", {**GOOD, "kind": "other.com/gpu"})) == []


def test_run_and_var_run_are_one_directory_for_containerd_and_not_for_podman() -> None:
    listing = "/run/cdi/nvidia.yaml\n"
    kubelet = "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all"
    podman = "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all"
    (found,) = problems(**{"files.txt": listing, "e.txt": kubelet})
    assert found.code == "cdi-spec-missing"
    (found,) = problems(**{"files.txt": listing, "e.txt": podman})
    assert (found.code, found.facts["searched"]) == ("cdi-spec-dir-not-searched", ["/etc/cdi"])


def test_the_runtimes_own_configuration_says_where_it_looks() -> None:
    config = 'enable_cdi = true\ncdi_spec_dirs = ["/opt/cdi", "/var/run/cdi"]\n'
    error = "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all"
    (found,) = problems(**{"c.toml": config, "files.txt": "/etc/cdi/nvidia.yaml\n", "e.txt": error})
    assert found.code == "cdi-spec-dir-not-searched"
    assert found.facts["found_in"] == "/etc/cdi"
    (found,) = problems(**{"c.toml": config, "files.txt": "/run/cdi/nvidia.yaml\n", "e.txt": error})
    assert found.code == "cdi-spec-missing"


def test_a_library_that_the_spec_names_is_told_once() -> None:
    body = _bad("containerEdits", "mounts", value=[
        {"hostPath": "/usr/lib/libcuda.so.535.161.07", "containerPath": "/usr/lib/libcuda.so.535.161.07"}
    ])  # fmt: skip
    error = "crun: error stat'ing file /usr/lib/libcuda.so.535.161.07: No such file or directory"
    driver = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.171.04"
    (found,) = problems(("x.json", body), **{"e.txt": error, "d.txt": driver})
    assert (found.facts["spec_version"], found.facts["driver_version"]) == ("535.161.07", "535.171.04")
