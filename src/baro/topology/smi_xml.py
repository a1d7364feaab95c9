"""Reads ``nvidia-smi -q -x``: what each GPU is, not how the GPUs are linked (that output does not tell).

Safe on any input: entities are refused, nothing is fetched, depth and size are limited, and only the
fields named in ``_FIELDS`` are kept, so memory does not grow with the file. A GPU whose fields read
``GPU is lost`` or ``ERR!`` becomes a warning beside the facts that could still be read.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from baro.model.errors import InputError, TooLargeError, Where
from baro.topology.machine import Gpu, Machine, Warn
from baro.topology.products import architecture_name, brand_name, model_name
from baro.topology.sysfs import normalise_bus_id

MAX_BYTES: Final = 32 * 2**20
"""Sixteen GPUs with all clocks and processes stay below 4 MiB."""
MAX_DEPTH: Final = 64
MAX_GPUS: Final = 1024

_ROOT: Final = "nvidia_smi_log"
_SYSTEM: Final = ("driver_version", "cuda_version", "attached_gpus")
_FIELDS: Final = frozenset(
    {
        "product_name",
        "product_brand",
        "product_architecture",
        "uuid",
        "minor_number",
        "gpu_recovery_action",
        "mig_mode/current_mig",
        "platformInfo/module_id",
        "platformInfo/peer_type",
        "pci/pci_bus_id",
        "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
        "pci/pci_gpu_link_info/link_widths/max_link_width",
        "pci/pci_gpu_link_info/link_widths/current_link_width",
        "fb_memory_usage/total",
        "fabric/state",
        "fabric/status",
        "fabric/cliqueId",
        "fabric/clusterUuid",
    }
)
_BROKEN: Final = re.compile(r"^\s*(GPU is lost|\[?ERR!\]?|\[?Unknown Error\]?|GPU requires reset)\s*$", re.I)
_ABSENT: Final = frozenset(
    {"", "n/a", "none", "unknown", "[n/a]", "requested functionality has been deprecated"}
)
_NEXT: Final = "capture it again with: nvidia-smi -q -x"


def parse(text: str | bytes, source: str = "") -> Machine:
    """The machine that the XML tells of, GPUs in the order of the file (which is NVML's index order).

    ``links``, NUMA and NICs stay unknown. Raises ``InputError`` (with a line) for anything that is not a
    whole ``nvidia_smi_log``, ``TooLargeError`` above ``MAX_BYTES``.
    """
    document, first_line = _cut(text, source)
    log = _Log(source, first_line)
    log.read(document)
    warnings: list[Warn] = []
    gpus = tuple(_gpu(index, facts, warnings) for index, facts in enumerate(log.gpus))
    _count(log, len(gpus), warnings)
    return Machine(
        gpus=gpus,
        driver_version=_known(log.system.get("driver_version")),
        cuda_driver_version=_known(log.system.get("cuda_version")),
        source=source,
        warnings=tuple(warnings),
    )


def looks_like(text: str) -> bool:
    """Whether a text is meant to be this format, for commands that accept several."""
    return f"<{_ROOT}" in text[:65536] or "nvsmi_device" in text[:65536]


# --- reading ---------------------------------------------------------------------------------------------


def _cut(text: str | bytes, source: str) -> tuple[bytes, int]:
    """The document as bytes and the line it starts on; shells often put a line of noise before it."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    where = Where(file=source or None)
    if len(raw) > MAX_BYTES:
        raise TooLargeError(f"the XML has more than {MAX_BYTES // 2**20} MiB", where=where, next_step=_NEXT)
    start = raw.find(b"<?xml")
    if start < 0:
        start = max(raw.find(b"<"), 0)
    before = raw[:start]
    if not raw[start:].lstrip().startswith(b"<"):
        first = raw.decode("utf-8", "replace").strip().splitlines()
        said = f": it begins with {first[0][:80]!r}" if first else ": it is empty"
        raise InputError(f"this is not the XML of nvidia-smi{said}", where=where, next_step=_NEXT)
    return raw[start:], before.count(b"\n") + 1


class _Facts:
    """What one ``<gpu>`` element said: wanted fields, and fields that were broken."""

    def __init__(self, bus_id: str) -> None:
        self.bus_id = bus_id
        self.values: dict[str, str] = {}
        self.broken: dict[str, str] = {}

    def get(self, field: str) -> str | None:
        return _known(self.values.get(field))


class _Log:
    """One pass over the document with expat; keeps only what ``_FIELDS`` and ``_SYSTEM`` name."""

    def __init__(self, source: str, first_line: int) -> None:
        self.source = source
        self.first_line = first_line
        self.system: dict[str, str] = {}
        self.gpus: list[_Facts] = []
        self._path: list[str] = []
        self._text: list[str] = []
        self._parser = expat.ParserCreate("utf-8")  # whatever the declaration says: nvidia-smi writes UTF-8

    def read(self, document: bytes) -> None:
        parser = self._parser
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._refuse
        parser.ExternalEntityRefHandler = self._refuse
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        try:
            parser.Parse(document, True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise self._error(f"the XML of nvidia-smi is cut off or damaged: {what}", error.lineno) from None

    def _error(self, what: str, line: int | None = None) -> InputError:
        at = (line or self._parser.CurrentLineNumber) + self.first_line - 1
        return InputError(what, where=Where(file=self.source or None, line=at), next_step=_NEXT)

    def _refuse(self, *_: object) -> int:
        raise self._error("the XML declares entities, which nvidia-smi never does")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._path and tag != _ROOT:
            raise self._error(f"the root element is <{tag[:80]}>, not <{_ROOT}>")
        if len(self._path) >= MAX_DEPTH:
            raise self._error(f"elements are nested more than {MAX_DEPTH} deep")
        self._path.append(tag)
        self._text.clear()
        if self._path == [_ROOT, "gpu"]:
            if len(self.gpus) >= MAX_GPUS:
                raise self._error(f"more than {MAX_GPUS} GPUs")
            self.gpus.append(_Facts(attributes.get("id", "")))

    def _characters(self, text: str) -> None:
        if len(self._text) < 64:
            self._text.append(text[:512])

    def _end(self, _tag: str) -> None:
        text = "".join(self._text).strip()
        self._text.clear()
        if len(self._path) == 2 and self._path[1] in _SYSTEM:
            self.system.setdefault(self._path[1], text)
        elif len(self._path) > 2 and self._path[1] == "gpu":
            self._keep("/".join(self._path[2:]), text)
        self._path.pop()

    def _keep(self, field: str, text: str) -> None:
        facts = self.gpus[-1]
        if broken := _BROKEN.match(text):
            facts.broken.setdefault(broken.group(1).strip("[]"), field)
        elif field in _FIELDS:
            facts.values.setdefault(field, text)


# --- meaning ---------------------------------------------------------------------------------------------


def _gpu(index: int, facts: _Facts, warnings: list[Warn]) -> Gpu:
    link = "pci/pci_gpu_link_info/"
    product = facts.get("product_name")
    gpu = Gpu(
        index=index,
        minor=_number(facts.get("minor_number")),
        uuid=facts.get("uuid"),
        product_name=product,
        model=model_name(product),
        brand=brand_name(facts.get("product_brand")),
        architecture=architecture_name(facts.get("product_architecture")),
        memory_mib=_mib(facts.get("fb_memory_usage/total")),
        pci_bus_id=normalise_bus_id(facts.get("pci/pci_bus_id") or facts.bus_id),
        pcie_gen=_number(facts.get(link + "pcie_gen/max_link_gen")),
        pcie_width=_number((facts.get(link + "link_widths/current_link_width") or "").rstrip("x")),
        module_id=_number(facts.get("platformInfo/module_id")),
        clique=_clique(facts),
    )
    _warn(gpu, facts, warnings)
    return gpu


def _warn(gpu: Gpu, facts: _Facts, warnings: list[Warn]) -> None:
    name = f"GPU{gpu.index}" + (f" ({gpu.pci_bus_id})" if gpu.pci_bus_id else "")
    only = (gpu.index,)
    for said, field in facts.broken.items():
        code = "gpu-lost" if "lost" in said.lower() else "gpu-error"
        warnings.append(Warn(code, f"{name}: nvidia-smi says '{said}' for {field} and other fields", only))
    if facts.get("mig_mode/current_mig") == "Enabled":
        warnings.append(Warn("mig-enabled", f"{name} is in MIG mode", only))
    state = facts.get("fabric/state")
    if state not in {None, "Completed", "Not Supported"}:
        warnings.append(Warn("fabric-not-ready", f"{name}: NVLink fabric state is '{state}'", only))
    action = facts.get("gpu_recovery_action")
    if action is not None:
        warnings.append(Warn("gpu-recovery", f"{name}: nvidia-smi asks for recovery action '{action}'", only))
    widest = _number((facts.get("pci/pci_gpu_link_info/link_widths/max_link_width") or "").rstrip("x"))
    if gpu.pcie_width is not None and widest is not None and gpu.pcie_width < widest:
        what = f"{name} runs on {gpu.pcie_width} of {widest} PCIe lanes"
        warnings.append(Warn("pcie-width-below-max", what, only))


def _count(log: _Log, found: int, warnings: list[Warn]) -> None:
    attached = _number(_known(log.system.get("attached_gpus")))
    if attached is not None and attached != found:
        what = f"{attached} GPUs are attached but the file holds {found}; indices may not be NVML's"
        warnings.append(Warn("gpus-missing", what))


def _clique(facts: _Facts) -> str | None:
    """``<clusterUUID>.<cliqueId>`` of a multi-node domain; a board of its own has the zero UUID."""
    cluster, clique = facts.get("fabric/clusterUuid"), facts.get("fabric/cliqueId")
    if facts.get("fabric/state") != "Completed" or cluster is None or clique is None:
        return None
    return f"{cluster.lower()}.{clique}" if cluster.strip("0-") else None


def _known(text: str | None) -> str | None:
    return None if text is None or text.strip().lower() in _ABSENT else text.strip()


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,9}", text) else None


def _mib(text: str | None) -> int | None:
    found = re.fullmatch(r"([0-9]{1,12})\s*MiB", text or "")
    return int(found.group(1)) if found else None
