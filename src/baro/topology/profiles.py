"""Machine profiles: one YAML file describes a machine type, for demos, tests, simulators and benchmarks.

A profile names the product, where each GPU and NIC sits in the PCIe tree, the NUMA nodes and the NVLink
wiring; everything else follows. ``Profile.machine(seed)`` gives the same ``Machine`` that discovery on such
a machine would give, with UUIDs derived from the seed, so that two nodes of one profile differ.

The format is documented in ``docs/machine-profiles.md`` and ``docs/schema/machine-profile.schema.json``.
Simulated NVML and sysfs are built from a profile elsewhere (``baro.agent.simulated``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import msgspec

from baro.model.errors import InputError, TooLargeError, Where
from baro.model.load import load_bytes
from baro.topology.links import parse_ranges
from baro.topology.profile import Profile
from baro.topology.profile_parts import GpuSpec, NicSpec, NvlinkPort

__all__ = [
    "NvlinkPort",
    "Profile",
    "load_profile",
    "parse_profile",
    "profile_from",
    "profile_names",
    "profile_schema",
]

MAX_PROFILE_BYTES = 256 * 1024
_Fail: TypeAlias = Callable[[str, str], NoReturn]


def profile_names() -> tuple[str, ...]:
    """Names of the built-in profiles, sorted."""
    files = resources.files("baro.topology").joinpath("profiles_data").iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def load_profile(name_or_path: str | Path) -> Profile:
    """A built-in profile by name, or one from a YAML or JSON file (anything with a ``.`` or ``/`` in it).

    Raises ``InputError`` that names the file and the field.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and not any(mark in text for mark in "./\\"):
        return _builtin(text)
    try:
        data = Path(name_or_path).read_bytes()[: MAX_PROFILE_BYTES + 1]
    except OSError as error:
        raise InputError(
            f"cannot read the profile: {error.strerror or error}", where=Where(file=text)
        ) from error
    return parse_profile(data, text)


def parse_profile(data: bytes | str, source: str) -> Profile:
    """A profile from YAML or JSON text. Raises ``InputError`` with file and line, or file and field."""
    raw = data.encode() if isinstance(data, str) else data
    if len(raw) > MAX_PROFILE_BYTES:
        raise TooLargeError(f"a profile is at most {MAX_PROFILE_BYTES} bytes", where=Where(file=source))
    documents = load_bytes(raw, file=source)
    if len(documents) != 1:
        raise InputError(f"a profile is one document, not {len(documents)}", where=Where(file=source))
    return profile_from(documents[0].body, source)


def profile_from(body: Any, source: str) -> Profile:
    """A profile from a decoded mapping. Raises ``InputError`` naming the field."""
    try:
        profile = msgspec.convert(body, Profile, str_keys=True)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        raise InputError(
            f"the profile is not valid: {what}",
            where=Where(file=source, path=path.rstrip("`").lstrip(".") or None),
        ) from error
    _check(profile, source)
    return profile


def profile_schema() -> dict[str, Any]:
    """JSON schema of the format, as committed in ``docs/schema/machine-profile.schema.json``."""
    schema = msgspec.json.schema(Profile)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "baro machine profile",
        **schema,
    }


@lru_cache(maxsize=64)
def _builtin(name: str) -> Profile:
    file = resources.files("baro.topology").joinpath("profiles_data", f"{name}.yaml")
    if not file.is_file():
        raise InputError(
            f"there is no machine profile {name!r}", next_step="`baro topo --list-profiles` prints the names"
        )
    return parse_profile(file.read_bytes(), f"profile {name}")


def _check(profile: Profile, source: str) -> None:
    """What the types cannot say: references resolve, addresses are unique, wiring fits the GPUs."""

    def fail(path: str, what: str) -> NoReturn:
        raise InputError(f"the profile is not valid: {what}", where=Where(file=source, path=path))

    seen: dict[str, str] = {}
    for port in profile.switches:
        seen[port] = f"switches[{port}]"
    devices: list[tuple[str, GpuSpec | NicSpec]] = [
        *((f"gpus[{i}]", gpu) for i, gpu in enumerate(profile.gpus)),
        *((f"nics[{i}]", nic) for i, nic in enumerate(profile.nics)),
    ]
    for path, device in devices:
        if device.pci in seen:
            fail(f"{path}.pci", f"{device.pci} is already used by {seen[device.pci]}")
        seen[device.pci] = path
        if (device.root is None) == (device.switch is None):
            fail(path, "give either root or switch")
        if device.switch is not None and device.switch not in profile.switches:
            fail(f"{path}.switch", f"there is no switch {device.switch}")
        if device.numa is not None and device.numa not in profile.numa:
            fail(f"{path}.numa", f"there is no NUMA node {device.numa}")
    _check_lists(profile, fail)
    _check_switches(profile, fail)
    _check_nvlink(profile, fail)


def _check_lists(profile: Profile, fail: _Fail) -> None:
    for node, cpus in profile.numa.items():
        if parse_ranges(cpus) is None:
            fail(f"numa[{node}]", f"{cpus!r} is not a list of CPUs such as 0-15,32-47")
    for index, gpu in enumerate(profile.gpus):
        if gpu.cpus is not None and parse_ranges(gpu.cpus) is None:
            fail(f"gpus[{index}].cpus", f"{gpu.cpus!r} is not a list of CPUs such as 0-15,32-47")


def _check_switches(profile: Profile, fail: _Fail) -> None:
    for port, switch in profile.switches.items():
        if (switch.root is None) == (switch.parent is None):
            fail(f"switches[{port}]", "give either root or parent")
        above, steps = switch.parent, 0
        while above is not None:
            steps += 1
            if above not in profile.switches:
                fail(f"switches[{port}].parent", f"there is no switch {above}")
            if steps > len(profile.switches):
                fail(f"switches[{port}].parent", "the switches form a circle")
            above = profile.switches[above].parent


def _check_nvlink(profile: Profile, fail: _Fail) -> None:
    count, plan = len(profile.gpus), profile.nvlink
    if plan.switched and (plan.meshes or plan.pairs):
        fail("nvlink", "links go to switches or to peers, not both")
    for i, mesh in enumerate(plan.meshes):
        for group in mesh.sets:
            if len(set(group)) != len(group) or len(group) < 2 or not all(0 <= g < count for g in group):
                fail(f"nvlink.meshes[{i}].sets", f"{list(group)} is not a set of at least two GPUs")
    pairs = [name for name in (*plan.pairs, *plan.inactive) if "-" in name]
    for name in pairs:
        a, b = (int(part) for part in name.split("-", 1))
        if not 0 <= a < b < count:
            fail("nvlink", f"{name!r} is not a pair of GPUs, the smaller index first")
    for name in plan.inactive:
        if ("-" in name) == bool(plan.switched):
            fail("nvlink.inactive", "links that are down are given per GPU with switches, per pair without")
        if "-" not in name and not (name.isdecimal() and int(name) < count):
            fail("nvlink.inactive", f"there is no GPU {name!r}")
