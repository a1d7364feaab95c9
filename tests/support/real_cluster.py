"""A real Kubernetes control plane on this machine, for tests: etcd, API server, controllers, scheduler, kwok.

``RealCluster`` is a context manager. Everything runs on loopback, on free ports, with certificates made for
this run, in a temporary folder; everything stops at its end, on Ctrl-C, and when this process is killed.
The programs are upstream's, unchanged: ``real_build`` compiles them. Nodes are kwok's: they heartbeat and
run pods in pretence.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.real_access import Cluster, write_certificate_kubeconfig
from tests.support.real_build import PINNED, RELEASES, Say, build
from tests.support.real_build import _stderr as say_on_stderr
from tests.support.real_process import Component, ComponentError, free_ports

KEEP = "BARO_CLUSTER_KEEP"
"""Environment variable: keep the folder with logs, certificates and etcd's data."""
BETA_APIS = ("resource.k8s.io/v1beta1=true", "resource.k8s.io/v1beta2=true")
READY_S = 60.0
START_ATTEMPTS = 3
PREFIX = "baro-cluster-"
_CLIENTS = {
    "admin": "kubernetes-admin,system:masters",
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kwok": "kwok,system:masters",
}


class RealCluster(Cluster):
    """The control plane of one Kubernetes minor version.

    ``runtime_config`` goes to the API server, ``feature_gates`` to all components. Without ``controllers``
    only etcd and the API server run, and nothing changes what clients write. ``components`` gives each
    running program by its upstream name.
    """

    owns_nodes = True

    def __init__(
        self,
        *,
        version: str = PINNED,
        runtime_config: Sequence[str] = (),
        feature_gates: Mapping[str, bool] | None = None,
        controllers: bool = True,
        say: Say = say_on_stderr,
    ) -> None:
        self.version = version
        self.release = RELEASES.get(version, version)
        self.components: dict[str, Component] = {}
        self.url = ""
        self._runtime_config = tuple(runtime_config)
        gates = feature_gates or {}
        self._gates = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
        self._controllers = controllers
        self._say = say

    def __enter__(self) -> RealCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Builds what is missing, starts everything, waits until all of it is ready."""
        self._programs = build(self.version, say=self._say)
        _remove_orphans()
        for attempt in range(1, START_ATTEMPTS + 1):
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
            super().__init__(folder / "kubeconfig", folder)
            atexit.register(self.stop)
            try:
                self._start()
            except ComponentError as error:
                self._stop_components()
                if attempt < START_ATTEMPTS and "address already in use" in str(error):
                    self._remove_folder()
                    continue  # somebody took a port between our look and our use
                atexit.unregister(self.stop)  # the logs that the error names stay
                raise
            except BaseException:
                self.stop()
                raise
            return

    def _start(self) -> None:
        began = time.monotonic()
        (self.folder / "certificates").mkdir()
        etcd, peer, secure, manager, scheduler, kwok = free_ports(6)
        self.url = f"https://127.0.0.1:{secure}"
        self._run("etcd", self._etcd(etcd, peer), f"http://127.0.0.1:{etcd}/health", lifeline="3s")
        clients = [f"{name}={subject}" for name, subject in _CLIENTS.items()]
        certificates = self.folder / "certificates"
        subprocess.run(
            [self._programs / "certificates", "--dir", certificates, *clients],
            check=True,
            capture_output=True,
        )
        for name in _CLIENTS:
            path = self.kubeconfig if name == "admin" else certificates / f"{name}.kubeconfig"
            write_certificate_kubeconfig(path, self.url, certificates / "ca.crt", certificates / name)
        self.components["etcd"].wait_ready(READY_S)
        self._run("kube-apiserver", self._apiserver(secure, etcd), f"{self.url}/readyz")
        self.components["kube-apiserver"].wait_ready(READY_S)
        if self._controllers:
            self._start_controllers(manager, scheduler, kwok)
        self._say(f"Kubernetes {self.release} on {self.url}, started in {time.monotonic() - began:.1f} s")

    def _start_controllers(self, manager: int, scheduler: int, kwok: int) -> None:
        health = f"https://127.0.0.1:{manager}/healthz"
        self._run("kube-controller-manager", self._controller_manager(manager), health)
        health = f"https://127.0.0.1:{scheduler}/readyz"
        self._run("kube-scheduler", self._scheduler(scheduler), health)
        self._run("kwok", self._kwok(kwok), f"http://127.0.0.1:{kwok}/healthz")
        for component in self.components.values():
            component.wait_ready(READY_S)
        # The last thing that controllers make: before it, every pod is refused.
        self.kubectl("wait", "--namespace=default", "serviceaccount/default", "--for=create")

    def stop(self) -> None:
        """Stops everything, clients before servers, etcd last. Calling it twice is fine."""
        atexit.unregister(self.stop)
        self._stop_components()
        self._remove_folder()

    def _stop_components(self) -> None:
        for component in reversed(self.components.values()):
            component.stop()
        self.components.clear()

    def _remove_folder(self) -> None:
        folder = getattr(self, "folder", None)
        if folder is None:
            return
        if os.environ.get(KEEP):
            self._say(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, name: str, flags: Sequence[str | Path], health: str, *, lifeline: str = "0s") -> None:
        command = [self._programs / name, *flags]
        component = Component(name, command, self.folder / f"{name}.log", health=health, lifeline=lifeline)
        component.start()
        self.components[name] = component

    # --- flags ---------------------------------------------------------------------------------------------

    def _etcd(self, client: int, peer: int) -> list[str | Path]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",  # survives kill -9, not a power cut
            "--log-level=warn",
        ]

    def _apiserver(self, port: int, etcd: int) -> list[str | Path]:
        files = self.folder / "certificates"
        flags: list[str | Path] = [
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # a loopback address may not be an endpoint
            f"--secure-port={port}",
            f"--cert-dir={files}",
            f"--tls-cert-file={files / 'apiserver.crt'}",
            f"--tls-private-key-file={files / 'apiserver.key'}",
            f"--client-ca-file={files / 'ca.crt'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files / 'service-account.pub'}",
            f"--service-account-signing-key-file={files / 'service-account.key'}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--allow-privileged",
            *self._gate_flags(),
        ]
        if self._runtime_config:
            flags.append(f"--runtime-config={','.join(self._runtime_config)}")
        return flags

    def _controller_manager(self, port: int) -> list[str | Path]:
        files = self.folder / "certificates"
        return [
            *self._client_flags("kube-controller-manager", port),
            f"--root-ca-file={files / 'ca.crt'}",
            f"--service-account-private-key-file={files / 'service-account.key'}",
            "--use-service-account-credentials",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
        ]

    def _scheduler(self, port: int) -> list[str | Path]:
        return self._client_flags("kube-scheduler", port)

    def _client_flags(self, name: str, port: int) -> list[str | Path]:
        files = self.folder / "certificates"
        return [
            f"--kubeconfig={files / f'{name}.kubeconfig'}",
            f"--authentication-kubeconfig={files / f'{name}.kubeconfig'}",
            f"--authorization-kubeconfig={files / f'{name}.kubeconfig'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / name}",
            "--leader-elect=false",
            *self._gate_flags(),
        ]

    def _kwok(self, port: int) -> list[str | Path]:
        return [
            f"--kubeconfig={self.folder / 'certificates' / 'kwok.kubeconfig'}",
            f"--config={self._programs / 'kwok-stages.yaml'}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{port}",
        ]

    def _gate_flags(self) -> list[str]:
        return [f"--feature-gates={self._gates}"] if self._gates else []


def _remove_orphans() -> None:
    """Folders of supervisors that were killed and could not clean up."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)
