"""What devices publish: the yardstick for selectors and constraints.

A catalogue holds, for each driver, the names and types that it publishes and typical devices. It comes from
ResourceSlices that the reader gave (a dump, a live cluster) and, for drivers without any, from what is known
of the driver (``baro.diagnosis.published``) and of the products of the product table. It answers "which
attributes exist" and, by evaluating a selector on a device, "would this ever match". Drivers that the
catalogue does not know get no judgement: unknown stays unknown.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, Value, compile_selector, view_of
from baro.diagnosis.published import (
    DriverFacts,
    Published,
    class_selectors,
    known_drivers,
    mig_profiles,
)
from baro.model.errors import InputError
from baro.model.kinds.resource import Device, DeviceAttribute, ResourceSlice
from baro.model.load import Loaded
from baro.model.names import DRIVER, NVIDIA_DRIVER, STANDARD_DOMAIN
from baro.model.quantity import Quantity, QuantityError
from baro.model.semver import SemVer
from baro.topology.catalog import PRODUCTS, Product

TYPICAL = 512
"""Devices kept of one driver; what differs only in values that every device has for itself counts once."""
OWN = frozenset({
    "uuid", "minor", "index", "pciBusID", "pciAddress", "pciAddr", "mac", "ifName", "ipv4", "cardIndex",
    "renderIndex", "cpuID", "rdmaDevice", "parentUUID", "deviceID", "serial",
})  # fmt: skip
_MAX_VALUES = 100_000
_FIELDS = (
    ("int_", "int"), ("bool_", "bool"), ("string", "string"), ("version", "version"),
    ("ints", "ints"), ("bools", "bools"), ("strings", "strings"), ("versions", "versions"),
)  # fmt: skip


class DriverDevices(msgspec.Struct, frozen=True, kw_only=True):
    """One driver: what it publishes, and typical devices."""

    facts: DriverFacts
    devices: tuple[DeviceView, ...] = ()
    measured: bool = False
    """Whether this comes from slices, so that what is not here is not there."""
    complete: bool = False
    """Whether every device is represented (but for values that each device has for itself)."""
    count: int = 0
    """Devices in the slices."""


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of each driver."""

    title: str
    """For messages: ``NVIDIA's driver``, ``the ResourceSlices given``."""
    drivers: Mapping[str, DriverDevices] = {}
    taints: frozenset[str] = frozenset()
    """Keys of taints on devices of the slices, and of taint rules given."""

    @property
    def devices(self) -> tuple[DeviceView, ...]:
        return tuple(device for one in self.drivers.values() for device in one.devices)

    @property
    def measured(self) -> bool:
        """Whether any slices were given."""
        return any(one.measured for one in self.drivers.values())

    def only(self, drivers: Iterable[str]) -> Catalogue:
        """The part about these drivers."""
        kept = {name: self.drivers[name] for name in drivers if name in self.drivers}
        return Catalogue(title=_title(kept.values(), self.title), drivers=kept, taints=self.taints)

    def narrowed(self, devices: Mapping[str, tuple[DeviceView, ...]]) -> Catalogue:
        """The same with fewer devices; what is known of names stays."""
        kept = {
            name: msgspec.structs.replace(one, devices=devices.get(name, ()))
            for name, one in self.drivers.items()
        }
        return Catalogue(title=self.title, drivers=kept, taints=self.taints)

    def knows_domain(self, domain: str) -> bool:
        """Whether some driver publishes anything in that domain."""
        return any(domain in one.facts.domains for one in self.drivers.values())

    def certain(self, domain: str) -> bool:
        """Whether all drivers that publish in the domain are known completely; the standard one is."""
        if domain == STANDARD_DOMAIN:
            return True
        found = [one for one in self.drivers.values() if domain in one.facts.domains]
        return bool(found) and all(one.facts.certain for one in found)

    def attribute(self, name: str) -> Published | None:
        """What is known of ``domain/name``, over all drivers; None when nobody publishes it."""
        found = [one.facts.attributes[name] for one in self.drivers.values() if name in one.facts.attributes]
        if not found:
            return None
        limited = all(published.values for published in found)
        return Published(
            frozenset().union(*(published.types for published in found)),
            frozenset().union(*(published.values for published in found)) if limited else frozenset(),
            "" if any(not published.when for published in found) else found[0].when,
        )

    def attribute_names(self) -> frozenset[str]:
        """Every attribute as ``domain/name`` that is or may be published."""
        return frozenset(name for one in self.drivers.values() for name in one.facts.attributes)

    def capacity_names(self) -> frozenset[str]:
        """Every capacity as ``domain/name`` that is or may be published."""
        return frozenset(name for one in self.drivers.values() for name in one.facts.all_capacities())

    def publishers(self, name: str) -> tuple[str, ...]:
        """The drivers that publish an attribute or capacity."""
        return tuple(
            driver
            for driver, one in self.drivers.items()
            if name in one.facts.attributes or name in one.facts.all_capacities()
        )

    def meant(self, domain: str, name: str) -> str | None:
        """The published name that people mean by a name which is not."""
        for one in self.drivers.values():
            if domain == one.facts.driver:
                return one.facts.meant.get(name) or one.facts.former.get(name)
        return None

    def title_of(self, domain: str) -> str:
        """Who is meant to publish in a domain, for messages."""
        return _title((one for one in self.drivers.values() if domain in one.facts.domains), self.title)


def _title(found: Iterable[DriverDevices], default: str) -> str:
    titles = list(dict.fromkeys(_name(one) for one in found))
    return " and ".join(titles) if titles else default


def _name(one: DriverDevices) -> str:
    return f"{one.facts.driver}, by the ResourceSlices given," if one.measured else one.facts.title


# --- from slices -----------------------------------------------------------------------------------------


def of_documents(documents: Iterable[Loaded]) -> Catalogue:
    """The slices among the documents, and what is known of the drivers that have none there.

    A slice that the API server would refuse tells nothing; what is wrong with it is for lint to say.
    Documents are looked at one at a time, so that a dump of any size is only passed through.
    """
    return with_known(from_slices(_slices(documents)), taints=_rule_keys(documents))


def _slices(documents: Iterable[Loaded]) -> Iterator[ResourceSlice]:
    for document in documents:
        if document.kind == "ResourceSlice":
            with contextlib.suppress(InputError):
                item = document.as_kind()
                if isinstance(item, ResourceSlice):
                    yield item


def _rule_keys(documents: Iterable[Loaded]) -> Iterator[str]:
    for document in documents:
        if document.kind == "DeviceTaintRule":
            spec = document.body.get("spec")
            taint = spec.get("taint") if isinstance(spec, dict) else None
            if isinstance(taint, dict) and isinstance(taint.get("key"), str):
                yield taint["key"]


def from_slices(slices: Iterable[ResourceSlice]) -> Catalogue:
    """The catalogue of live or dumped slices; devices with a capacity that is no quantity are left out."""
    seen: dict[str, _Seen] = {}
    for item in slices:
        found = seen.setdefault(item.spec.driver, _Seen(item.spec.driver))
        for device in item.spec.devices:
            with contextlib.suppress(QuantityError):
                found.add(device)
    drivers = {driver: one.result() for driver, one in seen.items()}
    taints = frozenset(key for one in seen.values() for key in one.taints)
    return Catalogue(title="the ResourceSlices given", drivers=drivers, taints=taints)


class _Seen:
    """The devices of one driver as they come by."""

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.types: dict[str, set[str]] = {}
        self.values: dict[str, set[str]] = {}
        self.capacities: set[str] = set()
        self.taints: set[str] = set()
        self.views: dict[tuple[object, ...], DeviceView] = {}
        self.count = 0
        self.dropped = False

    def add(self, device: Device) -> None:
        self.count += 1
        key: list[object] = [bool(device.allow_multiple_allocations)]
        for name, attribute in device.attributes.items():
            full = name if "/" in name else f"{self.driver}/{name}"
            kind = self.note(full, attribute)
            if full.rpartition("/")[2] not in OWN:
                key.append((full, kind, attribute))
        for name, amount in device.capacity.items():
            self.capacities.add(name if "/" in name else f"{self.driver}/{name}")
            key.append((name, amount.value))
        self.taints.update(taint.key for taint in device.taints)
        identity = tuple(map(str, key))
        if identity in self.views:
            return
        if len(self.views) >= TYPICAL:
            self.dropped = True
            return
        shared = bool(device.allow_multiple_allocations)
        self.views[identity] = view_of(self.driver, device.attributes, device.capacity, shared)

    def note(self, name: str, attribute: DeviceAttribute) -> str:
        kind = next((word for field, word in _FIELDS if getattr(attribute, field) is not None), "")
        self.types.setdefault(name, set()).add(kind)
        if kind == "string" and attribute.string is not None:
            values = self.values.setdefault(name, set())
            if len(values) < _MAX_VALUES:
                values.add(attribute.string)
        return kind

    def result(self) -> DriverDevices:
        attributes = {
            name: Published(
                frozenset(types - {""}),
                frozenset(self.values[name])
                if types == {"string"} and len(self.values[name]) < _MAX_VALUES
                else frozenset(),
            )
            for name, types in self.types.items()
        }
        known = known_drivers().get(self.driver)
        facts = DriverFacts(
            driver=self.driver,
            title=known.title if known else self.driver,
            certain=True,
            attributes=attributes,
            capacities=frozenset(self.capacities),
            former=known.former if known else {},
            meant=known.meant if known else {},
            taints=known.taints if known else (),
        )
        return DriverDevices(
            facts=facts,
            devices=tuple(self.views.values()),
            measured=True,
            complete=not self.dropped,
            count=self.count,
        )


def with_known(measured: Catalogue, taints: Iterable[str] = ()) -> Catalogue:
    """``measured`` and, for the drivers that it lacks, what is known of them."""
    drivers = dict(measured.drivers)
    for driver in known_drivers():
        if driver not in drivers and driver != STANDARD_DOMAIN:
            drivers[driver] = _known(driver)
    title = measured.title if measured.drivers else "what the known drivers publish"
    return Catalogue(title=title, drivers=drivers, taints=measured.taints | frozenset(taints))


# --- from what is known ----------------------------------------------------------------------------------


@functools.cache
def built_in() -> Catalogue:
    """All known drivers, without any slices."""
    return with_known(Catalogue(title=""))


@functools.cache
def nvidia_driver() -> Catalogue:
    """What NVIDIA's DRA driver publishes for the products of the product table, whole and as MIG devices.

    Names and types: kubernetes-sigs/dra-driver-nvidia-gpu, ``cmd/gpu-kubelet-plugin/deviceinfo.go``. There
    is no ``model``, no ``index`` and no NVLink attribute of any kind.
    """
    found = _known(NVIDIA_DRIVER)
    return Catalogue(title=found.facts.title, drivers={NVIDIA_DRIVER: found})


@functools.cache
def _known(driver: str) -> DriverDevices:
    facts = known_drivers()[driver]
    devices: tuple[DeviceView, ...] = ()
    if driver in (NVIDIA_DRIVER, DRIVER):
        devices = tuple(view for product in PRODUCTS for view in _views(product, driver))
    return DriverDevices(facts=facts, devices=devices)


def _views(product: Product, driver: str) -> Iterator[DeviceView]:
    """The whole GPU, and its MIG devices whose memory is known."""
    common: dict[str, Value] = {
        "uuid": "",
        "productName": product.name,
        "brand": product.brand,
        "architecture": product.architecture,
        "cudaComputeCapability": _version(product.compute_capability),
        "driverVersion": _version("580.126.20"),
        "cudaDriverVersion": _version("13.0"),
    }
    if driver == DRIVER:
        common |= {"model": product.model, "minor": 0, "nvlinkDomain": "node-nvl0"}
    yield _view(driver, {"type": "gpu", **common}, product.memory_mib)
    for profile, memory in mig_profiles().get(product.mig_family or "", {}).items():
        if memory is not None:
            own: dict[str, Value] = {"type": "mig", "profile": profile, "parentUUID": "", **common}
            yield _view(driver, own, memory)


def _view(driver: str, own: Mapping[str, Value], memory_mib: int) -> DeviceView:
    standard: Mapping[str, Value] = {"pciBusID": "0000:00:00.0", "pcieRoot": "pci0000:00", "numaNode": 0}
    memory = {"memory": Quantity.parse(f"{memory_mib}Mi")}
    attributes: dict[str, Mapping[str, Value]] = {driver: own, STANDARD_DOMAIN: standard}
    capacity: dict[str, Mapping[str, Quantity]] = {driver: memory}
    if driver == DRIVER:
        compatible = ("type", "uuid", "productName", "model", "nvlinkDomain")
        attributes[NVIDIA_DRIVER] = {name: own[name] for name in compatible if name in own}
        capacity[NVIDIA_DRIVER] = memory
    return DeviceView(
        driver=driver, attributes=attributes, capacity=capacity, allow_multiple_allocations=False
    )


def _version(text: str) -> SemVer:
    parts = [str(int(part)) for part in text.split(".") if part.isdigit()][:3]
    return SemVer.parse(".".join([*parts, "0", "0"][:3]))


# --- which devices a class lets through ------------------------------------------------------------------


def of_class(catalogue: Catalogue, name: str, selectors: Iterable[str] | None) -> Catalogue | None:
    """The devices that a DeviceClass lets through, and their drivers; None when nothing is known of it.

    ``selectors`` are those of the class where it is at hand, else the class may be one that a driver brings.
    """
    if selectors is None:
        known = class_selectors().get(name)
        if known is None:
            return None
        standing_in = _compatible(catalogue, name)
        if standing_in:
            return catalogue.only(standing_in)
        selectors = (known,)
    programs = []
    for text in selectors:
        try:
            programs.append(compile_selector(text))
        except CelCompileError:
            return None
    kept: dict[str, tuple[DeviceView, ...]] = {}
    for driver, one in catalogue.drivers.items():
        devices = one.devices or (DeviceView(driver=driver),)
        passed = tuple(device for device in devices if all(_selects(p, device) for p in programs))
        if passed:
            kept[driver] = passed if one.devices else ()
    return catalogue.only(kept).narrowed(kept) if kept else None


def _compatible(catalogue: Catalogue, name: str) -> tuple[str, ...]:
    """Drivers with slices that publish in the domain of another which has none: a class of that name is most
    likely one for them, as baro's shared class is."""
    owner = next(driver for driver, facts in known_drivers().items() if name in facts.classes)
    own = catalogue.drivers.get(owner)
    if own is not None and own.measured:
        return ()
    return tuple(
        driver
        for driver, one in catalogue.drivers.items()
        if one.measured and driver != owner and owner in one.facts.domains
    )


def _selects(program: object, device: DeviceView) -> bool:
    try:
        return bool(program.evaluate(device))  # type: ignore[attr-defined]
    except CelRuntimeError:
        return False
