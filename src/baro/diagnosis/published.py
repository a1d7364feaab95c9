"""What DRA drivers are known to publish, from the tables ``drivers.yaml`` and ``mig_facts.yaml``.

Names, types and the values that a name can have; no devices (``baro.diagnosis.catalogue`` makes them). Where
a list was read from a driver's source it is complete, where it was only seen others may exist: judgements
differ (``certain``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final, Literal

import msgspec

from baro.model.names import STANDARD_DOMAIN

TYPES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")


class Published(msgspec.Struct, frozen=True):
    """One attribute: its possible types, all its values where they are few, when it is published."""

    types: frozenset[str]
    values: frozenset[str] = frozenset()
    when: str = ""
    """Empty: always (where the value is known)."""


class DriverFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one driver publishes; names are ``domain/name``."""

    driver: str
    title: str
    certain: bool
    """Whether a name that is not here is not published."""
    attributes: Mapping[str, Published] = {}
    capacities: frozenset[str] = frozenset()
    conditional_capacities: frozenset[str] = frozenset()
    former: Mapping[str, str] = {}
    meant: Mapping[str, str] = {}
    """Bare names that people expect → the one that is published."""
    taints: tuple[str, ...] = ()
    classes: Mapping[str, str] = {}
    """DeviceClasses that come with the driver → their selector."""

    @property
    def domains(self) -> frozenset[str]:
        """Domains in which the driver publishes anything of its own."""
        names = (*self.attributes, *self.capacities, *self.conditional_capacities)
        return frozenset(name.rpartition("/")[0] for name in names)

    def all_capacities(self) -> frozenset[str]:
        return self.capacities | self.conditional_capacities


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    basis: Literal["source", "seen"]
    attributes: dict[str, Any] = {}
    standard: list[str] = []
    former: dict[str, str] = {}
    meant: dict[str, str] = {}
    capacities: list[str] = []
    conditional_capacities: list[str] = []
    taints: list[str] = []
    classes: dict[str, str] = {}


def _read(name: str) -> bytes:
    return resources.files("baro.diagnosis").joinpath(name).read_bytes()


@functools.cache
def known_drivers() -> Mapping[str, DriverFacts]:
    """Driver → what it publishes. The standard attributes stand under their domain."""
    rows = msgspec.yaml.decode(_read("drivers.yaml"), type=dict[str, _Row])
    standard = dict(_attributes(STANDARD_DOMAIN, rows[STANDARD_DOMAIN].attributes))
    found: dict[str, DriverFacts] = {}
    for driver, row in rows.items():
        attributes = dict(_attributes(driver, row.attributes))
        attributes |= {
            f"{STANDARD_DOMAIN}/{name}": standard[f"{STANDARD_DOMAIN}/{name}"] for name in row.standard
        }
        found[driver] = DriverFacts(
            driver=driver,
            title=row.title,
            certain=row.basis == "source",
            attributes=attributes,
            capacities=frozenset(_full(driver, name) for name in row.capacities),
            conditional_capacities=frozenset(_full(driver, name) for name in row.conditional_capacities),
            former=row.former,
            meant=row.meant,
            taints=tuple(row.taints),
            classes=row.classes,
        )
    return found


def _attributes(driver: str, rows: Mapping[str, Any]) -> Iterator[tuple[str, Published]]:
    for name, row in rows.items():
        entry = {"type": row} if isinstance(row, str) else row
        yield (
            _full(driver, name),
            Published(
                frozenset(str(entry["type"]).split()),
                frozenset(entry.get("values", ())),
                str(entry.get("when", "")),
            ),
        )


def _full(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


@functools.cache
def standard_attributes() -> Mapping[str, Published]:
    """The attributes that Kubernetes defines for all drivers."""
    return known_drivers()[STANDARD_DOMAIN].attributes


@functools.cache
def class_selectors() -> Mapping[str, str]:
    """DeviceClasses that drivers bring along → selector."""
    return {name: text for facts in known_drivers().values() for name, text in facts.classes.items()}


@functools.cache
def mig_profiles() -> Mapping[str, Mapping[str, int | None]]:
    """Product family → MIG profile → memory in MiB, None where it is not known."""
    return msgspec.yaml.decode(_read("mig_facts.yaml"), type=dict[str, dict[str, int | None]])


@functools.cache
def mig_profile_names() -> frozenset[str]:
    return frozenset(name for profiles in mig_profiles().values() for name in profiles)
