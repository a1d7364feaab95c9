"""Finding the server: kubectl's rules, and clear errors for what is no kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from baro.kube.config import load
from baro.model.errors import InputError


def kubeconfig(path: Path, name: str = "one", **user: Any) -> Path:
    body = {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.test"}}],
        "users": [{"name": name, "user": user or {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "team"}}],
    }
    path.write_text(yaml.safe_dump(body))
    return path


def test_a_named_file_wins_over_the_environment(tmp_path: Path) -> None:
    one, two = kubeconfig(tmp_path / "1", "one"), kubeconfig(tmp_path / "2", "two")
    found = load(kubeconfig=str(one), environ={"KUBECONFIG": str(two)}, home=tmp_path)
    assert (found.cluster.server, found.namespace) == ("https://one.test", "team")


def test_several_files_in_the_environment_are_merged_and_the_first_context_counts(tmp_path: Path) -> None:
    one, two = kubeconfig(tmp_path / "1", "one"), kubeconfig(tmp_path / "2", "two")
    environ = {"KUBECONFIG": f"{one}:{tmp_path / 'missing'}:{two}"}
    assert load(environ=environ, home=tmp_path).cluster.server == "https://one.test"
    assert load(environ=environ, home=tmp_path, context="two").cluster.server == "https://two.test"


def test_the_default_file_is_the_home_one(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config")
    found = load(environ={}, home=tmp_path, service_account=tmp_path / "none")
    assert found.cluster.server == "https://one.test"


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name, text in (("token", "secret"), ("namespace", "baro"), ("ca.crt", "")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    import os

    old = {name: os.environ.get(name) for name in environ}
    os.environ.update(environ)
    try:
        found = load(environ=environ, home=tmp_path, service_account=tmp_path)
    finally:
        for name, value in old.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    assert (found.cluster.server, found.namespace) == ("https://10.0.0.1:443", "baro")


def test_relative_certificate_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "c", **{"client-certificate": "me.crt", "client-key": "me.key"})
    user = load(kubeconfig=str(file)).user
    assert user is not None
    assert user.client_cert == str(tmp_path / "me.crt")


def test_an_exec_plugin_of_v1_is_told_the_version_it_must_answer_in(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}
    user = load(kubeconfig=str(kubeconfig(tmp_path / "c", exec=plugin))).user
    assert user is not None and user.exec is not None and user.exec.env is not None
    assert "client.authentication.k8s.io/v1" in user.exec.env[0].value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "cannot read the kubeconfig"),
        ("- 1", "not a mapping"),
        ("clusters: [{name: a}]", "without name or body"),
        ("current-context: x", "'x' not found"),
        ("contexts: [{name: a, context: {cluster: b}}]\ncurrent-context: a", "does not define"),
        ("contexts: [{name: a, context: {cluster: 1}}]", "not a kubeconfig"),
        ("{}", "current context"),
    ],
)
def test_what_is_no_kubeconfig_is_one_error_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load(kubeconfig=str(file))
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_binary_garbage_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(b"\x00\xff\xfe")
    with pytest.raises(InputError, match="cannot read"):
        load(kubeconfig=str(file))


def test_no_kubeconfig_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--kubeconfig"):
        load(environ={}, home=tmp_path, service_account=tmp_path / "none")
