"""Which server, with which credentials: kubeconfig files, the pod's own service account, or a plain URL.

The formats and the authentication are lightkube's; here are kubectl's rules for finding them
(``--kubeconfig``, ``$KUBECONFIG`` with several files, the in-cluster account, ``~/.kube/config``) and clear
errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import NameValue
from lightkube.core.exceptions import ConfigError

from baro.model.errors import InputError, Where

_PATH_FIELDS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_EXEC_V1 = "client.authentication.k8s.io/v1"


def load(
    *,
    url: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
    service_account: Path = Path(SERVICE_ACCOUNT),
) -> SingleConfig:
    """The server and credentials to use, first match of: ``url``, ``kubeconfig``, ``$KUBECONFIG``, the pod's
    service account, ``~/.kube/config``. ``InputError`` names the file and what is missing in it.
    """
    if url is not None:
        return _pick(KubeConfig.from_server(url), None, "URL")
    named = kubeconfig or environ.get("KUBECONFIG")
    if named:
        files = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
        return _pick(_merge(files, must_exist=kubeconfig is not None), context, named)
    if context is None and (service_account / "token").is_file() and "KUBERNETES_SERVICE_HOST" in environ:
        try:
            return _pick(KubeConfig.from_service_account(service_account), None, str(service_account))
        except (ConfigError, OSError, KeyError) as error:
            raise InputError(f"the in-cluster service account cannot be used: {error}") from error
    default = (home or Path.home()) / ".kube" / "config"
    return _pick(_merge([default], must_exist=True), context, str(default))


def _pick(config: KubeConfig, context: str | None, source: str) -> SingleConfig:
    where = Where(file=source)
    try:
        single = config.get(context)
    except ConfigError as error:
        raise InputError(
            str(error), where=where, next_step="kubectl config get-contexts lists the contexts there are"
        ) from error
    except KeyError as error:
        raise InputError(
            f"the context names {error}, which the kubeconfig does not define", where=where
        ) from error
    if single is None:  # no context at all; lightkube raises for this, its type says otherwise
        raise InputError("no current context", where=where)
    if single.user is None:  # anonymous, as the embedded server takes it; lightkube insists on a user
        from lightkube.config.models import User  # noqa: PLC0415

        single = single._replace(user=User())
    return _exec_v1(single)


def _exec_v1(config: SingleConfig) -> SingleConfig:
    """lightkube 1.0 runs exec plugins of v1beta1 only; v1 differs in what the plugin must be told."""
    user = config.user
    if user is None or user.exec is None or user.exec.apiVersion != _EXEC_V1:
        return config
    info = json.dumps({"apiVersion": _EXEC_V1, "kind": "ExecCredential", "spec": {"interactive": False}})
    env = [*(user.exec.env or []), NameValue(name="KUBERNETES_EXEC_INFO", value=info)]
    plugin = msgspec.structs.replace(user.exec, apiVersion="client.authentication.k8s.io/v1beta1", env=env)
    return config._replace(user=msgspec.structs.replace(user, exec=plugin))


def _merge(files: list[Path], *, must_exist: bool) -> KubeConfig:
    """kubectl's merge: the first file that names a cluster, user, context or current-context wins."""
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": None}
    found = False
    for file in files:
        body = _read(file) if must_exist or file.exists() else None
        if body is None:
            continue
        found = True
        merged["current-context"] = merged["current-context"] or body.get("current-context") or None
        for section, key in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in body.get(section) or []:
                _add(merged[section], entry, key, file)
    source = os.pathsep.join(str(file) for file in files)
    if not found:
        raise InputError(
            "no kubeconfig found",
            where=Where(file=source),
            next_step="give --kubeconfig, or set KUBECONFIG; baro demo starts a cluster of its own",
        )
    lists = {
        name: list(value.values()) if isinstance(value, dict) else value for name, value in merged.items()
    }
    try:
        return KubeConfig.from_dict(lists, fname=files[0])
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise InputError(f"not a kubeconfig: {error}", where=Where(file=source)) from error


def _add(section: dict[str, Any], entry: Any, key: str, file: Path) -> None:
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("name"), str)
        or not isinstance(entry.get(key), dict)
    ):
        raise InputError(f"a {key} without name or body", where=Where(file=str(file)))
    body = dict(entry[key])
    for field in _PATH_FIELDS:  # relative to the file that holds them
        if isinstance(body.get(field), str) and body[field]:
            body[field] = str(file.absolute().parent / body[field])
    section.setdefault(entry["name"], {"name": entry["name"], key: body})


def _read(file: Path) -> dict[str, Any]:
    where = Where(file=str(file))
    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            "no such file",
            where=where,
            next_step="give --kubeconfig, or set KUBECONFIG; baro demo starts a cluster of its own",
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"cannot read the kubeconfig: {error}", where=where) from error
    if not isinstance(body, dict):
        raise InputError("not a kubeconfig: the document is not a mapping", where=where)
    return body
