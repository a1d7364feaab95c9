"""Every next command works as it is printed: kubectl knows it and so does the server, baro knows its options.

kubectl runs against an empty embedded server: "not found" is an answer, an unknown flag, kind or selector is
none. Commands for a shell on a node are held to what such a shell has: they name no placeholder.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from baro.apiserver import create_app, run_in_thread
from baro.cli import main
from baro.diagnosis.checks import diagnose
from baro.diagnosis.files import read_files
from tests.support.diagnosis import evidence
from tests.support.faulty_cluster import dump
from tests.support.real_access import kubectl_path
from tests.support.sentences import SENTENCES

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "diagnose"
PLACEHOLDER = re.compile(r"(?<![A-Z_.-])(?:NODE|POD|NAMESPACE|FILE|CLAIM|SLICE)(?![A-Z_])|<[a-z-]+>|…")
ON_NODES = (
    "nvidia-smi", "nvidia-ctk", "nvidia-modprobe", "ls", "ps", "dmesg", "journalctl", "grep", "containerd",
)  # fmt: skip
ELSEWHERE = {"daemonset", "validatingadmissionpolicy"}
"""Kinds that every Kubernetes serves and the embedded server does not."""
UNKNOWN = ("unknown", "doesn't have a resource type", "not supported", "invalid", "unable to parse", "Usage:")


def printed() -> Iterator[str]:
    """Commands of an example's problems, of each sentence alone, and of a cluster with planted faults."""
    found = [diagnose(evidence([], {"some.txt": said.text})) for said in SENTENCES.values()]
    found.append(diagnose(read_files([EXAMPLE])))
    text = "".join(dump(60, 1)[0]).encode()
    found.append(diagnose(read_files(["-"], stdin=io.BytesIO(text))))
    for diagnosis in found:
        for problem in diagnosis.problems:
            yield from problem.next


def _shape(command: str) -> str:
    return re.sub(r"[\w.-]*\d[\w.-]*", "N", command)


COMMANDS = sorted({_shape(command): command for command in printed()}.values())
"""One of each shape: names of nodes and pods do not matter."""


def test_there_are_commands_of_every_kind() -> None:
    first = {command.split()[0] for command in COMMANDS}
    assert {"kubectl", "baro", "nvidia-smi"} <= first
    assert first - {"kubectl", "baro"} <= set(ON_NODES)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_has_a_placeholder(command: str) -> None:
    assert PLACEHOLDER.search(command.partition("  #")[0]) is None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with run_in_thread(create_app()) as running:
        yield running.url


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("kubectl ")])
def test_kubectl_and_the_server_understand_the_command(command: str, server: str) -> None:
    words = shlex.split(command.partition("  #")[0].partition(" | ")[0])
    if ELSEWHERE & set(words):
        pytest.skip("the embedded server does not serve this kind")
    answer = subprocess.run(
        [str(kubectl_path()), f"--server={server}", *words[1:]],
        capture_output=True, text=True, timeout=300, check=False,
        env={"KUBECONFIG": "/dev/null", "HOME": "/nonexistent"},
    )  # fmt: skip
    said = answer.stderr
    if answer.returncode:
        assert re.search("NotFound|not found", said) or answer.stdout.strip() == "no", said
    assert not any(word in said for word in UNKNOWN), said


def test_commands_of_baro_run_as_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", "--from", str(EXAMPLE), "-o", "wide"])
    commands = re.findall(r"next: (baro .*)", capsys.readouterr().out)
    assert len(commands) >= 3
    for command in commands:
        assert f"--from {EXAMPLE}" in command
        assert main(shlex.split(command)[1:]) in (0, 1), command
        assert not re.search("Usage|Error|Traceback", capsys.readouterr().err)
