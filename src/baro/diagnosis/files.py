"""Evidence from files and directories: dumps of objects, and captures told apart by what they contain.

Anything an engineer has at hand may be given: ``kubectl get … -o yaml|json``, a directory of ``baro
snapshot``, kubelet's pod-resources as JSON, kernel and kubelet logs, ``nvidia-smi -q -x``, ``topo -m``, CDI
specs. A file named on the command line that is nothing of these is an ``InputError``; one found in a
directory becomes ``missing``, so one stray file does not stop an answer.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import yaml

from baro.diagnosis import describe
from baro.diagnosis.evidence import Capture, CaptureKind, Evidence, Missing, from_documents
from baro.diagnosis.gates import FAMILY, server_version, told
from baro.diagnosis.shapes import mappings
from baro.model.errors import InputError, TooLargeError, Where
from baro.model.load import STDIN, Limits, Loaded, load_bytes
from baro.topology import smi_xml

CAPTURE_BYTES = 256 * 2**20
"""Largest capture; a kernel log of a year stays below it."""
MAX_FILES = 20_000
_SKIPPED = frozenset({".md", ".py", ".png", ".svg", ".html", ".gz", ".tgz", ".zip", ".tar"})

_IDENTITY = re.compile(rb"^\s*[\"']?(?:apiVersion|kind)[\"']?\s*:", re.M)
_TOPO_HEAD = re.compile(r"^\W*(?:\x1b\[\d*m)?GPU0(?:\x1b\[\d*m)?\s+(?:GPU1|NIC0|mlx|CPU Affinity|X\b)", re.M)
_LOG = re.compile(
    r"NVRM|\bXid\b|kubelet\[|^[IWEF]\d{4} \d\d:\d\d:\d\d|^\w{3} [ \d]\d \d\d:\d\d:\d\d |^\[\s*\d+\.\d{6}\]"
    r"|^\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d",
    re.M,
)
_JSON_LOG = re.compile(rb"\s*\{[^\n]*\"(?:msg|message|log)\"\s*:[^\n]*\}\s*(?:\n|$)")
"""One object a line, with the message in it: runtimes' and operators' logs."""
_SELF_TOLD = re.compile(r"^(?:cdiVersion|containerEdits|devices|serverVersion)\s*:", re.M)
"""Keys by which YAML that is no Kubernetes object says what it is."""
_DESCRIBE = re.compile(
    r"^\s*(?:Capacity|Allocatable|allocatable|capacity|Conditions|Events|Annotations|Containers):\s*$"
    r"|^\s*(?:[Cc]apacity|[Aa]llocatable):\s+(?:\{.*\}|[\w.-]+/[\w.-]+:\s*\S+)\s*$"
    r"|^\s*(?:Warning|Normal)\s+\S+\s",
    re.M,
)
_NOTES = re.compile(
    r"unresolvable CDI devices|could not resolve CDI|o such file or directory"
    r"|^\s*(?:enable_cdi|cdi_spec_dirs)\s*=|NVRM version|NVIDIA UNIX"
    r"|systemctl |/dev/nvidia|/cdi\b|satisfy the allocation"
    r"|nodes are available: |Allocate failed due to|empty device edits|NVIDIA-SMI has failed"
    r"|^\s*[\w.-]+/[\w.-]+=\S+\s*$",
    re.M,
)
"""Pieces of terminal output that a check understands: errors of runtimes, listings, commands."""
_HOST = (
    re.compile(r"^\w{3} [ \d]\d \d\d:\d\d:\d\d (\S+) \S+?(?:\[\d+\])?:", re.M),
    re.compile(r"^\d{4}-\d\d-\d\dT\S+ (\S+) (?:kernel|kubelet)\b", re.M),
)


def read_files(
    paths: Sequence[str | Path],
    *,
    stdin: BinaryIO | None = None,
    namespace: str = "",
    limits: Limits | None = None,
) -> Evidence:
    """The evidence in files, directories (all files below, hidden ones left out) and ``-``.

    Raises ``InputError`` for a named file that cannot be read or understood.
    """
    limits = limits or Limits()
    documents: list[Loaded] = []
    captures: list[Capture] = []
    missing: list[Missing] = []
    for given in paths:
        if str(given) == "-":
            _take((stdin or sys.stdin.buffer).read(limits.json_bytes + 1), STDIN, limits, documents, captures)
            continue
        path = Path(given)
        if not path.is_dir():
            _take(_bytes(path, limits), str(path), limits, documents, captures)
            continue
        for file in _below(path):
            try:
                _take(_bytes(file, limits), str(file), limits, documents, captures)
            except InputError as error:
                missing.append(Missing(str(file), error.what, error.next_step or ""))
    if not documents and not captures:
        raise InputError(
            "no Kubernetes object and no capture in it"
            if not missing
            else f"nothing in it: {missing[0].why}",
            where=Where(file=", ".join(str(path) for path in paths)),
            next_step="baro snapshot -o DIR writes what is needed; or kubectl get "
            "nodes,pods,resourceslices,resourceclaims,deviceclasses -A -o json > dump.json",
        )
    evidence = from_documents(
        documents,
        missing=missing,
        origin=", ".join(str(path) for path in paths),
        namespace=namespace,
    )
    beside = told(
        (item.text for item in captures if item.kind is CaptureKind.METRICS),
        (item.data for item in captures if item.kind is CaptureKind.VERSION),
    )
    return msgspec.structs.replace(
        evidence,
        captures=with_nodes(captures, _node_names(evidence)),
        server_version=beside.version or evidence.server_version,
        feature_gates=beside.gates or evidence.feature_gates,
    )


# --- one text ---------------------------------------------------------------------------------------------


def _take(data: bytes, file: str, limits: Limits, documents: list[Loaded], captures: list[Capture]) -> None:
    """Sorts one text into documents or captures. Raises ``InputError`` for what is neither."""
    if b"\0" in data[:65536] or (b"apiVersion" in data and _IDENTITY.search(data)) or not data.strip():
        documents += load_bytes(data, file, limits=limits)
        return
    if data[:65536].lstrip()[:1] in (b"{", b"[") and b'"apiVersion"' in data and not _is_json_log(data):
        documents += load_bytes(data, file, limits=limits)
        return
    if len(data) > CAPTURE_BYTES:
        raise TooLargeError(f"more than {CAPTURE_BYTES // 2**20} MiB", where=Where(file=file))
    taken = capture(data, file)
    captures.append(taken)
    if taken.kind is CaptureKind.DESCRIBE:
        documents += [Loaded(body, Where(file=file)) for body in describe.nodes(taken.text)]


def _is_json_log(data: bytes) -> bool:
    """Whether lines of JSON are a log. An object of Kubernetes in one line has messages too, further in."""
    if not _JSON_LOG.match(data):
        return False
    try:
        first = msgspec.json.decode(data.lstrip().partition(b"\n")[0], type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return True
    return not first.keys() >= {"apiVersion", "kind"}


def capture(data: bytes, file: str) -> Capture:
    """What a text that is no Kubernetes object is. Raises ``InputError`` for binary and empty texts."""
    text = data.decode("utf-8", "replace").lstrip("\ufeff")
    where = Where(file=file)
    if _is_json_log(data):
        return Capture(kind=CaptureKind.LOG, where=where, text=text)
    if "<nvidia_smi_log" in text[:65536]:
        smi_xml.parse(text, file)  # says what is wrong with it
        return Capture(kind=CaptureKind.SMI_XML, where=where, text=text)
    value = _structured(text)
    if isinstance(value, dict):
        if "cdiVersion" in value or _has_edits(value):
            return Capture(kind=CaptureKind.CDI_SPEC, where=where, text=text, data=value)
        if server_version(value):
            return Capture(kind=CaptureKind.VERSION, where=where, text=text, data=value)
        if isinstance(value.get("podResources", value.get("pod_resources")), list):
            return Capture(kind=CaptureKind.POD_RESOURCES, where=where, text=text, data=value)
    if text.startswith("# ") and f"{FAMILY.decode()}{{" in text:
        return Capture(kind=CaptureKind.METRICS, where=where, text=text)
    if _TOPO_HEAD.search(text):
        return Capture(kind=CaptureKind.TOPO, where=where, text=text)
    if _LOG.search(text):
        return Capture(kind=CaptureKind.LOG, where=where, text=text, node=_host(text))
    if _DESCRIBE.search(text):
        return Capture(kind=CaptureKind.DESCRIBE, where=where, text=text)
    if _NOTES.search(text):
        return Capture(kind=CaptureKind.TEXT, where=where, text=text)
    if text.lstrip()[:1] in ("{", "["):  # meant as JSON: say what is wrong with it
        load_bytes(data, file)
    raise InputError(
        "neither Kubernetes objects nor a capture that baro knows",
        where=where,
        next_step="known are: kubectl -o yaml|json, kubectl describe, kubelet pod-resources JSON, kernel, "
        "kubelet and device-plugin logs, nvidia-smi -q -x, nvidia-smi topo -m, CDI specs and errors",
    )


def _has_edits(value: dict[str, Any]) -> bool:
    """Whether it is a CDI spec without its version, or a piece of one."""
    return "containerEdits" in value or any("containerEdits" in one for one in mappings(value.get("devices")))


def _structured(text: str) -> Any:
    """The value of a small JSON or YAML text, or None. YAML only for what says what it is by its keys."""
    if text.lstrip()[:1] == "{":
        try:
            return msgspec.json.decode(text.encode())
        except (msgspec.DecodeError, RecursionError):
            return None
    if len(text) < 4 * 2**20 and _SELF_TOLD.search(text):
        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError):
            return None
    return None


def _host(text: str) -> str | None:
    """The host name in the prefix of log lines, when all lines that have one agree."""
    for pattern in _HOST:
        names = {match[1] for match in pattern.finditer(text[: 2**20])}
        if len(names) == 1:
            return names.pop()
    return None


# --- whose capture ----------------------------------------------------------------------------------------


def with_nodes(captures: Iterable[Capture], nodes: Sequence[str]) -> tuple[Capture, ...]:
    """Captures with the node they are of, as far as something says so.

    First what the text itself says; then a node's name as the directory or as the beginning of the file's
    name (``node-a/dmesg.log``, ``node-a.topo.txt``, ``node-a-dmesg.log``); then the only node there is.
    """
    known = set(nodes)
    by_length = sorted(known, key=len, reverse=True)
    found = []
    for item in captures:
        node = item.node or _node_of_path(item.where.file or "", known, by_length)
        if node is not None and known and node not in known:  # a host name with or without its domain
            short = [name for name in known if name.split(".")[0] == node.split(".")[0]]
            node = short[0] if len(short) == 1 else node
        if node is None and len(known) == 1:
            node = by_length[0]
        found.append(msgspec.structs.replace(item, node=node))
    return tuple(found)


def _node_of_path(file: str, known: set[str], by_length: Sequence[str]) -> str | None:
    path = Path(file)
    if path.parent.name in known:
        return path.parent.name
    return next((name for name in by_length if re.match(re.escape(name) + r"(?:[._-]|$)", path.name)), None)


def _node_names(evidence: Evidence) -> list[str]:
    names = {node.metadata.name for node in evidence.snapshot.nodes}
    return sorted(names or {item.spec.node_name for item in evidence.snapshot.slices if item.spec.node_name})


# --- files ------------------------------------------------------------------------------------------------


def _bytes(path: Path, limits: Limits) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(limits.json_bytes + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise InputError(reason, where=Where(file=str(path)), next_step="check the path") from None
    if len(data) > limits.json_bytes:
        raise TooLargeError(f"more than {limits.json_bytes // 2**20} MiB", where=Where(file=str(path)))
    return data


def _below(directory: Path) -> list[Path]:
    files: list[Path] = []
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            if name.startswith(".") or path.suffix.lower() in _SKIPPED or not path.is_file():
                continue
            files.append(path)
            if len(files) > MAX_FILES:
                raise TooLargeError(f"more than {MAX_FILES} files", where=Where(file=str(directory)))
    return files
