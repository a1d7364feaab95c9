"""Rules for config maps and secrets: keys, size, and the promise to stay as they are.

The content of docker configurations is not parsed. Source: ``ValidateConfigMap`` and ``ValidateSecret`` in
``pkg/apis/core/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.metadata import check_metadata, check_metadata_update
from baro.model.validation.names import byte_size, config_key, dns_subdomain

Body = Mapping[str, Any]

_SIZE_LIMIT: Final = 1024 * 1024
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Type of a secret → the keys that it must have."""
_BASIC: Final = ("username", "password")
_KEPT: Final = "field is immutable when `immutable` is set"


def check_config_map(problems: Problems, body: Body, old: Body | None = None) -> None:
    """A new config map, or one that replaces ``old``."""
    _check_metadata(problems, body, old)
    if old is not None:
        _check_kept(problems, body, old, "data", "binaryData")
    texts, blobs = body.get("data", {}), body.get("binaryData", {})
    for key in texts:
        problems.invalid(f"data[{key}]", key, *config_key(key))
        if key in blobs:
            problems.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in blobs:
        problems.invalid(f"binaryData[{key}]", key, *config_key(key))
    size = sum(map(byte_size, texts.values())) + sum(map(_decoded_size, blobs.values()))
    if size > _SIZE_LIMIT:
        problems.too_long("[]", _SIZE_LIMIT)  # the server's way to name the whole object


def check_secret(problems: Problems, body: Body, old: Body | None = None) -> None:
    """A new secret, or one that replaces ``old``; ``stringData`` is in ``data`` by then."""
    _check_metadata(problems, body, old)
    kind, data = body.get("type", "Opaque"), body.get("data", {})
    if old is not None:
        if kind != old.get("type", "Opaque"):
            problems.invalid("type", kind, "field is immutable")
        _check_kept(problems, body, old, "data")
    for key in data:
        problems.invalid(f"data[{key}]", key, *config_key(key))
    if sum(map(_decoded_size, data.values())) > _SIZE_LIMIT:
        problems.too_long("data", _SIZE_LIMIT)
    _check_type(problems, kind, data, body.get("metadata", {}).get("annotations", {}))


def _check_type(problems: Problems, kind: str, data: Body, annotations: Body) -> None:
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        problems.required(f"metadata.annotations[{_ACCOUNT}]")
    if kind == "kubernetes.io/basic-auth" and not any(key in data for key in _BASIC):
        for key in _BASIC:
            problems.required(f"data[{key}]")
    for key in _NEEDED.get(kind, ()):
        empty = kind == "kubernetes.io/ssh-auth" and not data.get(key)
        if key not in data or empty:
            problems.required(f"data[{key}]")


def _check_metadata(problems: Problems, body: Body, old: Body | None) -> None:
    if old is not None:
        check_metadata_update(problems, body.get("metadata", {}), old.get("metadata", {}))
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)


def _check_kept(problems: Problems, body: Body, old: Body, *fields: str) -> None:
    """One that was immutable stays so, and so does what it holds."""
    if not old.get("immutable"):
        return
    if not body.get("immutable"):
        problems.forbidden("immutable", _KEPT)
    for field in fields:
        if body.get(field) != old.get(field):
            problems.forbidden(field, _KEPT)


def _decoded_size(value: str) -> int:
    try:
        return len(binascii.a2b_base64(value))
    except ValueError:  # decoding has complained before
        return 0
