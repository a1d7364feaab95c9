"""CDI specs: what makes a runtime skip one without a word. No judgement of devices that resolve.

The rules are those of the CDI specification and of its Go library, which containerd, CRI-O, Docker and Podman
use: names, empty edits, fields that need a newer ``cdiVersion`` than the file states. One fault and the whole
file is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from baro.diagnosis.evidence import Capture
from baro.diagnosis.shapes import mapping, mappings

_EDIT_FIELDS: Final = (
    "env", "deviceNodes", "netDevices", "hooks", "mounts", "intelRdt", "additionalGids",
)  # fmt: skip
_HOOKS: Final = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip
_KIND: Final = re.compile(r"[A-Za-z][\w.-]*(?<![_.-])/[A-Za-z][\w.-]*(?<![_.-])")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[\w.:-]*[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
Fault = tuple[str, str]
"""Path in the file, and what is wrong there."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One CDI spec as far as it concerns us. ``faults`` are what makes it invalid."""

    capture: Capture
    kind: str
    devices: tuple[str, ...]
    faults: tuple[Fault, ...]

    @property
    def file(self) -> str:
        return self.capture.where.file or ""


def spec_of(capture: Capture) -> Spec:
    """The spec of a capture, with its faults."""
    body = mapping(capture.data)
    names = tuple(str(item.get("name") or "") for item in mappings(body.get("devices")))
    return Spec(capture=capture, kind=str(body.get("kind") or ""), devices=names, faults=tuple(_faults(body)))


def edits_of(spec: Spec) -> Iterator[Mapping[str, Any]]:
    """The edits of the file and of each device."""
    body = mapping(spec.capture.data)
    for holder in (body, *mappings(body.get("devices"))):
        yield mapping(holder.get("containerEdits"))


def _faults(body: Mapping[str, Any]) -> Iterator[Fault]:
    kind = str(body.get("kind") or "")
    devices = mappings(body.get("devices"))
    if "kind" in body or "cdiVersion" in body:  # else it is a piece of a spec
        if not _KIND.fullmatch(kind):
            yield "kind", f"invalid kind {kind!r}"
        if not devices:
            yield "devices", "no devices"
        yield from _versions(body, kind, devices)
    yield from _edits("containerEdits", mapping(body.get("containerEdits")))
    seen: set[str] = set()
    for index, device in enumerate(devices):
        name = str(device.get("name") or "")
        path = f"devices[{index}]"
        if not _NAME.fullmatch(name):
            yield f"{path}.name", f"invalid device name {name!r}"
        elif name in seen:
            yield f"{path}.name", f"multiple device {name!r}"
        seen.add(name)
        edits = mapping(device.get("containerEdits"))
        if not any(edits.get(field) for field in _EDIT_FIELDS):
            yield f"{path}.containerEdits", f"invalid device {name!r}, empty device edits"
        yield from _edits(f"{path}.containerEdits", edits)


def _edits(path: str, edits: Mapping[str, Any]) -> Iterator[Fault]:
    env = edits.get("env")
    for index, entry in enumerate(env if isinstance(env, list) else ()):
        if "=" not in str(entry):
            yield f"{path}.env[{index}]", f"invalid environment variable {entry!r}"
    for index, node in enumerate(mappings(edits.get("deviceNodes"))):
        here = f"{path}.deviceNodes[{index}]"
        if not node.get("path"):
            yield f"{here}.path", "invalid (empty) device path"
        if str(node.get("type") or "") not in ("", "b", "c", "u", "p"):
            yield f"{here}.type", f"device {node.get('path')!r}: invalid type {node.get('type')!r}"
        if set(str(node.get("permissions") or "")) - set("rwm"):
            yield f"{here}.permissions", f"invalid permissions {node.get('permissions')!r}"
    for index, hook in enumerate(mappings(edits.get("hooks"))):
        if hook.get("hookName") not in _HOOKS:
            yield f"{path}.hooks[{index}].hookName", f"invalid hook name {hook.get('hookName')!r}"
        if not hook.get("path"):
            yield f"{path}.hooks[{index}].path", "invalid hook, empty path"
    for index, mount in enumerate(mappings(edits.get("mounts"))):
        for field in ("hostPath", "containerPath"):
            if not mount.get(field):
                yield f"{path}.mounts[{index}].{field}", f"invalid mount, empty {field}"


# --- versions ---------------------------------------------------------------------------------------------


def _versions(body: Mapping[str, Any], kind: str, devices: list[Mapping[str, Any]]) -> Iterator[Fault]:
    """The version stated, against the newest field used."""
    stated = str(body.get("cdiVersion") or "")
    match = _VERSION.fullmatch(stated.removeprefix("v"))
    if match is None:
        yield "cdiVersion", f"invalid version {stated!r}"
        return
    needed, why = max(_needs(body, kind, devices), key=lambda item: item[0], default=((0, 0, 0), ""))
    if tuple(map(int, match.groups())) < needed:
        wanted = ".".join(map(str, needed))
        yield "cdiVersion", f"the spec version must be at least v{wanted} for {why}, and is v{stated}"


def _needs(
    body: Mapping[str, Any], kind: str, devices: list[Mapping[str, Any]]
) -> Iterator[tuple[tuple[int, int, int], str]]:
    """(version, what needs it). Source: ``pkg/cdi/version.go`` of the CDI library."""
    if body.get("annotations") or any(device.get("annotations") for device in devices):
        yield (0, 6, 0), "annotations"
    if "." in kind.partition("/")[2]:
        yield (0, 6, 0), "a dot in the class"
    for device in devices:
        name = str(device.get("name") or "")
        if name[:1].isdigit():
            yield (0, 5, 0), f"the device name {name!r}, which begins with a digit"
    for holder in (body, *devices):
        edits = mapping(holder.get("containerEdits"))
        if any(node.get("hostPath") for node in mappings(edits.get("deviceNodes"))):
            yield (0, 5, 0), "hostPath of device nodes"
        if any(mount.get("type") for mount in mappings(edits.get("mounts"))):
            yield (0, 4, 0), "the type of a mount"
        if edits.get("intelRdt") or edits.get("additionalGids"):
            yield (0, 7, 0), "intelRdt or additionalGids"
        if edits.get("netDevices"):
            yield (1, 1, 0), "netDevices"
