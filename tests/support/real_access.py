"""A cluster as tests see it, whoever started it: kubeconfig, kubectl, namespaces, service accounts.

``RealCluster`` starts one; ``ExternalCluster`` is one that exists (``BARO_TEST_KUBECONFIG``).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
TOKEN_DURATION = "6h"
T = TypeVar("T")


class KubectlError(RuntimeError):
    """kubectl ended with an error; the text is what it said."""


class Cluster:
    """Access to one cluster with an administrator's kubeconfig. ``folder`` takes the files it writes."""

    owns_nodes = False
    """Whether tests may add nodes, and kwok keeps them Ready."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = kubeconfig
        self.folder = folder
        self._accounts: dict[str, list[str]] = {}
        """Namespace → names of the cluster roles and bindings of its service accounts."""

    # --- kubectl -------------------------------------------------------------------------------------------

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        kubeconfig: Path | None = None,
        timeout_s: float = 120,
    ) -> str:
        """What kubectl prints; ``KubectlError`` with its words when it fails."""
        done = subprocess.run(
            [kubectl_path(), "--kubeconfig", str(kubeconfig or self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env={**os.environ, "KUBECONFIG": "", "HOME": str(self.folder)},  # no cache, no config of others
        )
        if done.returncode != 0:
            raise KubectlError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """``kubectl get … -o json``, decoded."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def apply(self, *sources: Path | Mapping[str, Any], namespace: str | None = None) -> None:
        """Files, folders (``*.yaml`` in them) and objects, applied server-side in this order."""
        scope = ("--namespace", namespace) if namespace else ()
        for source in sources:
            if isinstance(source, Path):
                self.kubectl("apply", "--server-side", *scope, "--filename", str(source))
            else:
                self.create_or_apply(source, scope)

    def create_or_apply(self, body: Mapping[str, Any], scope: Sequence[str] = ()) -> None:
        self.kubectl("apply", "--server-side", *scope, "--filename", "-", stdin=json.dumps(body))

    def install_baro(self) -> None:
        """Namespace, CRD, permissions and device classes of ``deploy/``; waits until the CRD is served."""
        parts = ("namespace.yaml", "crds", "rbac", "deviceclasses.yaml")
        self.apply(*(DEPLOY / part for part in parts))
        self.kubectl("wait", "--for=condition=Established", "crd/nodetopologies.baro.dev")

    # --- namespaces ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def namespace(self, prefix: str = "baro-test") -> Iterator[str]:
        """A namespace of its own, with a default service account; deleted with all that is in it."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        try:
            self.kubectl("wait", f"--namespace={name}", "serviceaccount/default", "--for=create")
            yield name
        finally:
            # Claims may carry baro's finalizer, which only a planner or the controller takes off.
            self.kubectl("delete", "namespace", name, "--wait=false")
            if accounts := self._accounts.pop(name, None):
                gone = "--ignore-not-found"
                self.kubectl("delete", "clusterrole,clusterrolebinding", gone, *accounts)

    # --- service accounts ----------------------------------------------------------------------------------

    def service_account(self, name: str, namespace: str, rules: Sequence[Mapping[str, Any]]) -> Path:
        """A kubeconfig for a new service account that may do what the rules say, cluster-wide.

        Its role goes with the namespace, if that is one of :meth:`namespace`.
        """
        full = f"{namespace}-{name}"
        self._accounts.setdefault(namespace, []).append(full)
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": namespace},
            },
            {**_RBAC, "kind": "ClusterRole", "metadata": {"name": full}, "rules": list(rules)},
            {
                **_RBAC,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": full},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": full},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
        )
        return self.account_kubeconfig(name, namespace)

    def account_kubeconfig(self, name: str, namespace: str, *, pod: str | None = None) -> Path:
        """A kubeconfig for an existing service account, as a pod of it sees the cluster.

        With ``pod`` the token is bound to that pod and so names the pod's node, which the publisher's
        admission policy asks for.
        """
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}") if pod else ()
        token = self.kubectl(
            "create", "token", name, f"--namespace={namespace}", f"--duration={TOKEN_DURATION}", *bound
        ).strip()
        path = self.folder / f"kubeconfig-{namespace}-{name}{'-' + pod if pod else ''}"
        _write_kubeconfig(path, self._cluster_entry(), {"token": token})
        return path

    def _cluster_entry(self) -> dict[str, Any]:
        shown = yaml.safe_load(self.kubectl("config", "view", "--raw", "--minify", "--flatten"))
        entry: dict[str, Any] = shown["clusters"][0]["cluster"]
        return entry


class ExternalCluster(Cluster):
    """Any existing cluster. Tests make namespaces and uniquely named objects there, and delete only these."""


def kubectl_path() -> str:
    """kubectl of this Python environment, else the one on the path."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if found is None:
        raise KubectlError("kubectl is not here: make setup installs it")
    return found


def eventually(probe: Callable[[], T | None], what: str, *, timeout_s: float = 120.0) -> T:
    """The first result that is not ``None`` or false, asked for again and again; else ``AssertionError``.

    The only waiting in tests against servers that answer in their own time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(0.1)


def write_certificate_kubeconfig(path: Path, url: str, authority: Path, pair: Path) -> None:
    """A kubeconfig with everything inline. ``pair`` names the certificate without ``.crt`` and ``.key``."""
    cluster = {"server": url, "certificate-authority-data": _base64(authority)}
    user = {
        "client-certificate-data": _base64(pair.with_suffix(".crt")),
        "client-key-data": _base64(pair.with_suffix(".key")),
    }
    _write_kubeconfig(path, cluster, user)


def _write_kubeconfig(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": dict(cluster)}],
        "users": [{"name": "test", "user": dict(user)}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(body), encoding="utf-8")


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


_RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}
