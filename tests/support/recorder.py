"""Asks a real API server what it says to objects, and writes its answers down as validation records.

A record in: ``name``, ``category``, ``operation`` (``create``, ``update``, ``update-status``), ``object`` or
``raw`` (the body as text), for updates ``old`` (what is stored before), optionally ``path`` (the collection
to send a body to that does not say its kind). A record out has besides ``accepted``, ``code``, and either
``readBack`` (``"same"`` or what came back) or ``message``, ``reason`` and ``causes``; ``warnings`` if any.
Everything is sent with ``dryRun=All`` and ``fieldValidation=Strict``; only ``old`` is stored, and removed.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from baro.kube.config import load

Record = dict[str, Any]

PLURALS = {
    "ResourceSlice": ("resourceslices", False),
    "ResourceClaim": ("resourceclaims", True),
    "ResourceClaimTemplate": ("resourceclaimtemplates", True),
    "DeviceClass": ("deviceclasses", False),
    "DeviceTaintRule": ("devicetaintrules", False),
    "Node": ("nodes", False),
    "Pod": ("pods", True),
    "Namespace": ("namespaces", False),
    "Event": ("events", True),
    "ConfigMap": ("configmaps", True),
    "ServiceAccount": ("serviceaccounts", True),
    "Lease": ("leases", True),
}
"""Kind → plural, namespaced: the kinds that baro reads or writes."""
DEFAULT_PATH = "/apis/resource.k8s.io/v1/resourceslices"
"""Where a body goes that is no object at all."""
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
SERVER_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
ANSWER_FIELDS = ("accepted", "code", "readBack", "message", "reason", "causes", "warnings", "v1_37")
_STRICT = "dryRun=All&fieldValidation=Strict&fieldManager=recorder"
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


class RecorderError(RuntimeError):
    """The server cannot be brought to the state that a record starts from."""


class Recorder:
    """One connection to one server. A context manager; makes the namespaces that records name."""

    def __init__(self, kubeconfig: Path) -> None:
        config = load(kubeconfig=str(kubeconfig))
        url = urllib.parse.urlsplit(config.cluster.server)
        self._address = url.netloc
        self._secure = url.scheme == "https"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        user = config.user
        if user is not None and user.token:
            self._headers["Authorization"] = f"Bearer {user.token}"
        self._tls = _context(config) if self._secure else None
        self._connection: http.client.HTTPConnection | None = None
        self._namespaces: set[str] = set()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        for name in sorted(self._namespaces):
            self._call("DELETE", f"/api/v1/namespaces/{name}", None)
        if self._connection is not None:
            self._connection.close()

    def record(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records with this server's answers in place of whatever answers they had."""
        for record in records:
            asked = {key: value for key, value in record.items() if key not in ANSWER_FIELDS}
            try:
                yield {**asked, **self._answer(asked)}
            except RecorderError as error:
                yield {**asked, "error": str(error)}

    def _answer(self, record: Record) -> Record:
        body = record["raw"] if "raw" in record else record["object"]
        path = record.get("path") or _collection(body)
        namespace = _metadata(body).get("namespace")
        if namespace:
            self._namespace(namespace)
        if record["operation"] == "create":
            return _judged(self._call("POST", f"{path}?{_STRICT}", body), body)
        item = f"{path}/{_metadata(record['old'])['name']}"
        live = self._store(path, item, record["old"])
        try:
            sub = "/status" if record["operation"] == "update-status" else ""
            sent = body if isinstance(body, str) else _as_live(body, live)
            return _judged(self._call("PUT", f"{item}{sub}?{_STRICT}", sent), body)
        finally:
            self._remove(item)

    # --- the state before an update ------------------------------------------------------------------------

    def _store(self, path: str, item: str, old: Record) -> Record:
        """Stores ``old``, with its status, and begins its deletion if it says so; gives what is stored."""
        namespace = _metadata(old).get("namespace")
        if namespace:
            self._namespace(namespace)
        wanted = {
            **old,
            "metadata": {k: v for k, v in _metadata(old).items() if not k.startswith("deletion")},
        }
        live = self._must("POST", path, wanted)
        if old.get("status"):
            live = self._must("PUT", f"{item}/status", {**live, "status": old["status"]})
        if "deletionTimestamp" in _metadata(old):
            self._must("DELETE", item, None)
            live = self._must("GET", item, None)
        return live

    def _remove(self, item: str) -> None:
        # A finalizer goes only once the object is being deleted or anyway; both orders are allowed.
        self._call("PATCH", item, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        self._call("DELETE", f"{item}?gracePeriodSeconds=0", None)

    def _namespace(self, name: str) -> None:
        if name in self._namespaces:
            return
        labels = {ADMIN_LABEL: "true"} if name.endswith("-admin") else {}
        code, _, text = self._call(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
        )
        if code not in (201, 409):
            raise RecorderError(f"namespace {name}: {text}")
        if code == 201:
            self._namespaces.add(name)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        # Where no controller makes it, every pod would be refused.
        self._call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)

    # --- HTTP ----------------------------------------------------------------------------------------------

    def _must(self, method: str, path: str, body: Any) -> Record:
        code, _, text = self._call(method, path, body)
        if code >= 300 or code == 0:
            raise RecorderError(f"{method} {path} answered {code}: {text[:500]}")
        answer: Record = json.loads(text)
        return answer

    def _call(
        self, method: str, path: str, body: Any, media: str = "application/json"
    ) -> tuple[int, list[str], str]:
        """Status code (0: no answer), ``Warning`` headers, body."""
        content = body if isinstance(body, str) or body is None else _compact(body)
        connection = self._connect()
        headers = {**self._headers, "Content-Type": media}
        try:
            connection.request(method, path, content.encode() if content is not None else None, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
            return response.status, response.headers.get_all("Warning") or [], text
        except (http.client.HTTPException, ConnectionError):
            connection.close()
            self._connection = None
            return 0, [], ""

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._tls is not None:
                self._connection = http.client.HTTPSConnection(self._address, context=self._tls, timeout=60)
            else:
                self._connection = http.client.HTTPConnection(self._address, timeout=60)
        return self._connection


def differences(record: Record, recorded: Record) -> list[str]:
    """Fields of the answer in which two records of the same question differ."""
    fields = ("accepted", "code", "readBack", "message", "causes", "warnings")
    return [field for field in fields if _timeless(record.get(field)) != _timeless(recorded.get(field))]


def newest(record: Record) -> Record | None:
    """A record of the corpus as the newest recorded version answers; ``None``: it was not asked."""
    newer = record.get("v1_37")
    if newer is None:
        return record
    if not isinstance(newer, dict):
        return None
    merged = {**record, **newer}
    for field in ("message", "reason", "causes") if merged["accepted"] else ("readBack",):
        merged.pop(field, None)
    return merged


def _timeless(value: Any) -> Any:
    """A field of an answer without the times that the server puts into taints; ``[]`` is as good as none."""
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key != "timeAdded"}
    if isinstance(value, list):
        return [_timeless(each) for each in value] or None
    return value


def _judged(answer: tuple[int, list[str], str], body: Any) -> Record:
    code, warnings, text = answer
    found: Record = {"accepted": 200 <= code < 300, "code": code}
    if code == 0:
        found["message"] = "connection closed without response (panic in the request handler)"
        found["reason"] = "Panic"
    elif found["accepted"]:
        back = _read_back(json.loads(text), body)
        found["readBack"] = "same" if back == body else back
    else:
        status: Record = json.loads(text) if text.startswith("{") else {"message": text}
        found["message"] = status.get("message", "")
        found["reason"] = status.get("reason", "")
        causes = (status.get("details") or {}).get("causes")
        if causes:
            found["causes"] = causes
    told = [quoted for header in warnings for quoted in _WARNING.findall(header)]
    if told:
        found["warnings"] = told
    return found


def _read_back(stored: Record, sent: Any) -> Record:
    """What was stored without what the server makes up; a time of deletion counts as the one asked about."""
    metadata = {key: value for key, value in stored["metadata"].items() if key not in SERVER_FIELDS}
    asked = _metadata(sent)
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in metadata and field in asked:
            metadata[field] = asked[field]
    return {**stored, "metadata": metadata}


def _as_live(body: Record, live: Mapping[str, Any]) -> Record:
    """The update as a client would send it that has read the object: with its uid and version."""
    metadata = dict(_metadata(body))
    for field in ("uid", "resourceVersion"):
        metadata.setdefault(field, live["metadata"][field])
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in metadata and field in live["metadata"]:
            metadata[field] = live["metadata"][field]
    return {**body, "metadata": metadata}


def _collection(body: Any) -> str:
    """The URL path that a body belongs to, by its apiVersion, kind and namespace."""
    found: Any = body
    if isinstance(body, str):
        try:
            found = json.loads(body)
        except ValueError:
            return DEFAULT_PATH
    if not isinstance(found, dict) or found.get("kind") not in PLURALS:
        return DEFAULT_PATH
    plural, namespaced = PLURALS[found["kind"]]
    version = str(found.get("apiVersion", ""))
    scope = f"/namespaces/{_metadata(found).get('namespace') or 'default'}" if namespaced else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}{scope}/{plural}"


def _compact(body: Any) -> str:
    """JSON without spaces and escapes: the server measures free documents as they are written."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text if _encodes(text) else json.dumps(body, separators=(",", ":"))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can say
        return False
    return True


def _metadata(body: Any) -> dict[str, Any]:
    found: Any = body.get("metadata") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}


def _context(config: Any) -> ssl.SSLContext:
    """TLS as the kubeconfig says: authority, client certificate. ``ssl`` reads key pairs from files only."""
    cluster, user = config.cluster, config.user
    data = cluster.certificate_auth_data
    context = ssl.create_default_context(
        cafile=cluster.certificate_auth or None, cadata=base64.b64decode(data).decode() if data else None
    )
    with contextlib.ExitStack() as stack:
        certificate, key = getattr(user, "client_cert", None), getattr(user, "client_key", None)
        if getattr(user, "client_cert_data", None):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baro-recorder-")))
            certificate, key = str(folder / "crt"), str(folder / "key")
            Path(certificate).write_bytes(base64.b64decode(user.client_cert_data))
            Path(key).touch(mode=0o600)
            Path(key).write_bytes(base64.b64decode(user.client_key_data))
        if certificate:
            context.load_cert_chain(certificate, key)
    return context
