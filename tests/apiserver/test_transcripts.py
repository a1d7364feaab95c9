"""Golden sessions of the real kubectl; the lane with a real control plane plays the same files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from baro.apiserver import create_app, run_in_thread
from tests.support.apiserver import Kubectl
from tests.support.transcript import mask, play, steps

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.transcript")), ids=lambda file: str(file.stem))
def test_a_session_reads_as_it_did(file: Path, tmp_path: Path) -> None:
    """Rewritten with ``BARO_UPDATE_GOLDEN=1``: look at the difference first."""
    expected = file.read_text(encoding="utf-8")
    with run_in_thread(create_app()) as server:
        kubectl = Kubectl(server.write_kubeconfig(tmp_path / "config"), tmp_path)

        def run(args: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
            return kubectl.run(*args, stdin=stdin)

        played = play(expected, run)
    if os.environ.get("BARO_UPDATE_GOLDEN"):
        file.write_text(played, encoding="utf-8")
    assert played == expected


def test_masks_hide_what_differs_and_nothing_else() -> None:
    text = """\
NAME        AGE   NODE
web-7x9k2   3m2s   n1
  uid: 6f0030c9-e1fe-4392-bfef-69f7ac5e194d
  resourceVersion: "17"
  time: "2026-11-29T17:53:51Z"
--- /tmp/LIVE-810433062/v1	2026-11-29 17:53:51.982375000 +0000
http://127.0.0.1:8001 v1.37.1 transcript-gpu 4h
"""
    assert (
        mask(text)
        == """\
NAME  AGE  NODE
web-<suffix>  <age>  n1
  uid: <uid>
  resourceVersion: "<revision>"
  time: "<time>"
--- /tmp/LIVE-<n>/v1	<time>
<server> v1.37.x transcript-gpu 4h"""
    )


def test_a_transcript_is_played_command_by_command() -> None:
    text = "# why\n$ kubectl get 'a b'\nold\n\n$ kubectl apply -f - <<EOF\nx: 1\nEOF\nold\n"
    calls: list[tuple[list[str], str | None]] = []

    def run(args: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        calls.append((list(args), stdin))
        return (0, "new\n", "") if stdin is None else (1, "", "bad\n")

    again = play(text, run)
    assert calls == [(["get", "a b"], None), (["apply", "-f", "-"], "x: 1\n")]
    assert again == ("# why\n$ kubectl get 'a b'\nnew\n\n$ kubectl apply -f - <<EOF\nx: 1\nEOF\n! bad\n[1]\n")
    assert steps(again) == steps(text)
