"""Random allocator instances over the whole feature matrix, as the JSON objects an API server would return.

An instance is a function of its seed alone: the same seed gives the same objects on every machine and version
of Python, so answers recorded for seeds stay valid as long as this file does not change. Small on purpose
(few devices, few requests): what differs between two allocators shows on small instances, and brute force
can judge them. Some instances hold what validation refuses (unknown classes, bad selectors): allocators must
answer those alike as well. Nothing is measured or compared here; see ``bench.allocator_differential``.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any, Final

Body = dict[str, Any]

GPU, NIC = "gpu.example.com", "nic.example.com"
NODE, OTHER = "node-1", "node-2"
DEFAULT_GATES: Final = (
    "DRAAdminAccess", "DRAConsumableCapacity", "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList",
)  # fmt: skip
ALL_GATES: Final = (
    *DEFAULT_GATES, "DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAFractionalCapacityRange",
    "DRAListTypeAttributes", "DRAOptionalNodeOperations",
)  # fmt: skip
THEMES: Final = (
    "admin", "all", "binding", "capacity", "config", "constraints", "counters", "derived", "errors",
    "firstAvailable", "groups", "limits", "lists", "names", "network", "operations", "pools", "rules",
    "taints",
)  # fmt: skip
"""What an instance may be about; each theme is on in about a quarter of them, some in fewer."""
_RARE = {"errors": 12, "limits": 8}

_SELECTORS = (
    "true",
    f"device.driver == '{GPU}'",
    f"device.attributes['{GPU}'].model == 'a'",
    f"device.attributes['{GPU}'].?model.orValue('b') == 'b'",
    f"device.attributes['{GPU}'].slot > 0",
    f"has(device.attributes['{GPU}'].slot) && device.attributes['{GPU}'].slot < 2",
    f"device.capacity['{GPU}'].memory.compareTo(quantity('20Gi')) >= 0",
    "device.allowMultipleAllocations",
)
_BAD_SELECTORS = ("device.nothing", "1 + 1", f"device.attributes['{GPU}'].absent == 1", "true ||")
_DERIVED = (
    f"device.attributes['{GPU}'].model",
    f"device.attributes['{GPU}'].?slot.orValue(7)",
    f"device.attributes['{GPU}'].slot % 2 == 0",
    f"device.attributes['{GPU}'].slot",
    f"[string(device.attributes['{GPU}'].?model.orValue('a')), 'c']",
    f"device.attributes['{GPU}'].release",
    "[]",
    "device.driver",
)
_BAD_DERIVED = (
    "1.5",
    "device.attributes",
    "this is not CEL",
    "dyn(1.5)",
    "[dyn(1), dyn('a')]",
    "dyn({1: 2})",
)
_ATTRIBUTES = (
    f"{GPU}/model", f"{GPU}/slot", "resource.kubernetes.io/numaNode", f"{GPU}/release", f"{GPU}/spare",
    f"{NIC}/slot",
)  # fmt: skip


class _Dice:
    """Choices by seed. Only ``getrandbits`` is used, whose sequence never changes between versions."""

    def __init__(self, seed: int) -> None:
        self._bits = random.Random(seed)  # noqa: S311 - repeatable instances

    def below(self, limit: int) -> int:
        return self._bits.getrandbits(40) % limit

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def some(self, options: Sequence[Any], percent: int) -> list[Any]:
        return [option for option in options if self.chance(percent)]


def instance(seed: int, themes: Sequence[str] | None = None) -> Body:
    """The instance of a seed: ``name``, ``features``, ``node``, ``deviceClasses``, ``resourceSlices``,
    ``claims`` (to be placed in this order), ``held`` (claims that have their devices) and ``rules``
    (DeviceTaintRules). ``themes`` overrides what it is about."""
    dice = _Dice(seed)
    chosen = [theme for theme in THEMES if dice.chance(_RARE.get(theme, 25))]
    maker = _Maker(dice, set(chosen if themes is None else themes))
    return maker.body(f"random-{seed}")


def tainted(body: Body) -> Body:
    """The instance with its rules carried out, as an allocator gets it that knows taints only."""
    body = copy.deepcopy(body)
    for rule in body.pop("rules", ()):
        wanted = rule["spec"].get("deviceSelector")
        for item in body["resourceSlices"] if wanted is not None else ():
            spec = item["spec"]
            for device in spec.get("devices", ()):
                names = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
                if wanted.items() <= names.items():
                    device.setdefault("taints", []).append(rule["spec"]["taint"])
    return body


class _Maker:
    def __init__(self, dice: _Dice, themes: set[str]) -> None:
        self.dice = dice
        self.themes = themes

    def on(self, theme: str, percent: int = 50) -> bool:
        """Whether something of a theme happens here."""
        return theme in self.themes and self.dice.chance(percent)

    def body(self, name: str) -> Body:
        features = self._gates()
        slices = self._slices()
        classes = self._classes()
        claims = [self._claim(f"claim-{number}") for number in range(self.dice.pick((1, 1, 1, 1, 2, 3)))]
        status: Body = {}
        if self.dice.chance(70):
            status["declaredFeatures"] = ["DRAOptionalNodeOperations"]
        labels = {"zone": self.dice.pick("ab"), "rank": "5"}
        return {
            "name": name,
            "features": features,
            "node": {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": NODE, "labels": labels},
                "status": status,
            },
            "deviceClasses": classes,
            "resourceSlices": slices,
            "claims": claims,
            "held": self._held(slices),
            "rules": [self._rule(f"rule-{number}") for number in range(self.dice.pick((1, 1, 2)))]
            if "rules" in self.themes
            else [],
        }

    def _gates(self) -> list[str]:
        needed = {"lists", "derived", "groups", "operations"} & self.themes
        kind = self.dice.below(10)
        if kind == 0:
            # Without consumable capacity upstream's stable allocator runs, which has no distinctAttribute.
            chosen = self.dice.some(ALL_GATES, 75)
            return (
                chosen
                if {"DRAConsumableCapacity", DEFAULT_GATES[2]} & set(chosen)
                else [*chosen, DEFAULT_GATES[2]]
            )
        return list(ALL_GATES if needed and kind < 8 else DEFAULT_GATES)

    # --- slices ------------------------------------------------------------------------------------------

    def _slices(self) -> list[Body]:
        found = self._pool(GPU, NODE, {"nodeName": NODE})
        if self.dice.chance(35):
            found += self._pool(NIC, NODE if self.dice.chance(70) else "nics", {"nodeName": NODE})
        if "network" in self.themes:
            found += self._pool(self.dice.pick((GPU, NIC)), "net", self._anywhere())
        if self.on("pools", 40):
            found += self._pool(GPU, "second", {"nodeName": NODE})
        if self.on("pools", 40):
            found += self._pool(GPU, NODE, {"nodeName": OTHER})
        if self.dice.chance(30):
            found.reverse()
        names: dict[str, int] = {}
        for item in found:
            meta = item["metadata"]
            names[meta["name"]] = names.get(meta["name"], 0) + 1
            if names[meta["name"]] > 1:
                meta["name"] += f"-{names[meta['name']]}"
        return found

    def _anywhere(self) -> Body:
        kind = self.dice.below(5)
        if kind < 2:
            return {"allNodes": True}
        if kind == 2:
            return {"nodeSelector": self._node_selector()}
        return {"perDeviceNodeSelection": True}

    def _node_selector(self) -> Body:
        entry = self._expression()
        if self.on("errors", 15):
            entry = {"key": "zone", "operator": self.dice.pick(("Odd", "Gt")), "values": ["x"]}
        term = {"matchExpressions": [entry, self._expression()] if self.dice.chance(25) else [entry]}
        if self.dice.chance(25):
            operator = self.dice.pick(("In", "In", "NotIn"))
            name = {"key": "metadata.name", "operator": operator, "values": [NODE]}
            term = {"matchFields": [name]} if self.dice.chance(50) else {**term, "matchFields": [name]}
        terms = [term]
        if self.on("errors", 15):
            terms.append({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]})
        return {"nodeSelectorTerms": terms}

    def _expression(self) -> Body:
        operator = self.dice.pick(("In", "In", "Exists", "Gt", "Lt", "NotIn", "DoesNotExist"))
        entry: Body = {"key": "rank" if operator in ("Gt", "Lt") else "zone", "operator": operator}
        if operator in ("In", "NotIn"):
            entry["values"] = self.dice.pick((["a"], ["b"], ["a", "b"]))
        if operator in ("Gt", "Lt"):
            entry["values"] = [self.dice.pick(("3", "9"))]
        return entry

    def _pool(self, driver: str, pool: str, where: Body) -> list[Body]:
        dice = self.dice
        generation = dice.pick((1, 1, 2)) if "pools" in self.themes else 1
        counted = {"counters", "groups"} & self.themes and (driver == GPU or dice.chance(50))
        sets = self._counter_sets() if counted else []
        parts = dice.pick((1, 1, 2)) if len(sets) == 0 or dice.chance(60) else 1
        slices: list[Body] = []
        number = 0
        for part in range(parts):
            devices = []
            most = dice.pick((16, 33, 40)) if self.on("limits", 40) else dice.pick((0, 2, 3, 4, 5, 6, 8))
            for _ in range(most):
                devices.append(self._device(driver, f"dev-{number}", sets, where))
                number += 1
            if self.on("pools", 8) and devices:
                devices[-1]["name"] = "dev-0"
            slices.append({"devices": devices, "part": part})
        for number, held in enumerate([sets[:1], sets[1:]] if dice.chance(30) else [sets]):
            if held:
                slices.insert(dice.below(len(slices) + 1), {"sharedCounters": held, "part": 8 + number})
        if sets and (self.on("pools", 5) or self.on("errors", 5)):
            slices.append({"sharedCounters": sets[:1], "part": 7})
        count = len(slices) + (dice.pick((-1, 1, 1)) if self.on("pools", 20) else 0)
        skipped = self._operations()
        made = []
        for item in slices:
            part = item.pop("part")
            spec: Body = {"driver": driver, "pool": {"name": pool, "generation": generation}, **item}
            spec["pool"]["resourceSliceCount"] = max(count, 1)
            # A set of counters is for every node that may draw from it.
            spec |= {"allNodes": True} if "sharedCounters" in item and dice.chance(30) else where
            if "sharedCounters" in item and spec.get("perDeviceNodeSelection"):
                spec.pop("perDeviceNodeSelection")
                spec["allNodes"] = True
            if skipped and dice.chance(80) and "devices" in item:
                spec["skipNodeOperations"] = skipped
            made.append(self._slice(f"{pool}-{driver.split('.', maxsplit=1)[0]}-{part}", spec))
        if self.on("pools", 25) and made:
            made[dice.below(len(made))]["spec"]["pool"]["generation"] += dice.pick((-1, 1))
        return made

    def _slice(self, name: str, spec: Body) -> Body:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": spec,
        }

    def _operations(self) -> list[str]:
        if not self.on("operations"):
            return []
        return list(
            self.dice.pick(
                (["*"], ["NodeUnprepareResources"], ["NodePrepareResources", "NodeUnprepareResources"])
            )
        )

    def _counter_sets(self) -> list[Body]:
        sets = []
        for number in range(self.dice.pick((1, 1, 2))):
            counters = {"a": {"value": str(self.dice.pick((1, 2, 3)))}}
            if self.dice.chance(50):
                counters["b"] = {"value": str(self.dice.pick((2, 4, "500m")))}
            if self.on("errors", 5):
                counters["c"] = {"value": "-1"}
            sets.append({"name": f"set-{number}", "counters": counters})
        return sets

    def _device(self, driver: str, name: str, sets: Sequence[Body], where: Body) -> Body:
        dice = self.dice
        item: Body = {"name": name, "attributes": self._attributes(driver)}
        if dice.chance(60):
            item["capacity"] = self._capacity(driver)
        if self.on("capacity", 60):
            item["allowMultipleAllocations"] = True
        if sets and dice.chance(75):
            item["consumesCounters"] = self._consumption(sets)
        if self.on("taints", 35):
            item["taints"] = [self._taint() for _ in range(dice.pick((1, 1, 2)))]
        if self.on("binding", 35):
            item["bindingConditions"] = ["example.com/ready"]
            item["bindingFailureConditions"] = ["example.com/failed"]
            item["bindsToNode"] = dice.chance(50)
        if where.get("perDeviceNodeSelection"):
            item |= dice.pick(
                (
                    {"nodeName": NODE},
                    {"nodeName": OTHER},
                    {"allNodes": True},
                    {"nodeSelector": self._node_selector()},
                )
            )
        return item

    def _attributes(self, driver: str) -> Body:
        dice = self.dice
        prefix = f"{driver}/" if "names" in self.themes and dice.chance(40) else ""
        found: Body = {}
        if dice.chance(85):
            found[f"{prefix}model"] = {"string": dice.pick("aab")}
        if dice.chance(95):
            found[f"{prefix}slot"] = {"int": dice.below(3)}
        if dice.chance(85):
            found["resource.kubernetes.io/numaNode"] = {"int": dice.below(2)}
        if dice.chance(50):
            found[f"{prefix}release"] = {"version": dice.pick(("1.0.0", "1.0.1", "2.0.0"))}
        if self.on("lists", 70):
            found[f"{prefix}spare"] = self._list()
        elif dice.chance(40):
            found[f"{prefix}spare"] = dice.pick(({"bool": True}, {"string": "a"}, {"int": 1}))
        if self.on("errors", 5):
            found["odd"] = dice.pick(({}, {"version": "1"}))
        return found

    def _list(self) -> Body:
        """Mostly numbers, so that devices have something in common; a scalar counts as a list of one."""
        dice = self.dice
        several, single, options = dice.pick(
            (
                *[("ints", "int", (0, 1, 2))] * 5,
                *[("strings", "string", ("a", "b", "c"))] * 3,
                ("bools", "bool", (True, False)),
                ("versions", "version", ("1.0.0", "1.0.1", "2.0.0")),
            )
        )
        if self.on("errors", 10):
            return {several: []}
        values = [dice.pick(options) for _ in range(dice.pick((1, 2, 2, 3)))]
        return {several: values} if dice.chance(85) else {single: values[0]}

    def _capacity(self, driver: str) -> Body:
        dice = self.dice
        body: Body = {"value": dice.pick(("10Gi", "20Gi", "40Gi"))}
        if self.on("capacity", 60):
            body["requestPolicy"] = dice.pick(
                (
                    {"default": "10Gi"},
                    {"default": "10Gi", "validValues": ["5Gi", "10Gi"]},
                    {"default": "5Gi", "validRange": {"min": "5Gi", "max": "10Gi", "step": "5Gi"}},
                    {"default": "5Gi", "validRange": {"min": "5Gi"}},
                    {"default": "500m", "validRange": {"min": "500m", "step": "1500m"}},
                    {"default": "10Gi", "validRange": {"min": "1Gi", "max": "8Gi"}},
                    {"default": "1Gi", "validRange": {"min": "1Gi", "max": "100Gi", "step": "3Gi"}},
                    {"default": "0", "validRange": {"min": "0", "max": "10Gi"}},
                    {"default": "0"},
                    {"default": "5Gi", "validValues": ["5Gi", "7Gi", "20Gi"]},
                    {"default": "1500m", "validValues": ["1500m", "3"]},
                )
            )
        found = {"memory": body}
        if "names" in self.themes and dice.chance(30):
            found = {f"{driver}/memory": body}
        if self.on("capacity", 40):
            found["engines"] = {"value": str(dice.pick((1, 4)))}
        return found

    def _consumption(self, sets: Sequence[Body]) -> list[Body]:
        found: list[Body] = []
        for item in sets:
            if found and not self.dice.chance(40):
                continue
            counters = {
                name: {"value": self.dice.pick(("1", "1", "2", "500m"))}
                for name in item["counters"]
                if self.dice.chance(75)
            }
            if self.on("errors", 5):
                counters["unknown"] = {"value": "1"}
            name = "nowhere" if self.on("errors", 5) else item["name"]
            entry: Body = {"counterSet": name, "counters": counters or {"a": {"value": "1"}}}
            if self.on("groups", 65):
                entry["compatibilityGroups"] = self.dice.some(("x", "y", "z"), 50)[:2] or ["x"]
            found.append(entry)
        return found

    def _taint(self) -> Body:
        return {
            "key": self.dice.pick(("k", "l")),
            "value": self.dice.pick(("v", "")),
            "effect": self.dice.pick(("NoSchedule", "NoSchedule", "NoExecute", "None", "Later")),
        }

    def _rule(self, name: str) -> Body:
        """Of all devices, those of a driver, of a pool, some by name, or none."""
        dice = self.dice
        spec: Body = {"taint": {**self._taint(), "timeAdded": "2026-01-01T00:00:00Z"}}
        if dice.chance(92):
            spec["deviceSelector"] = {
                key: dice.pick(values)
                for key, values, percent in (
                    ("driver", (GPU, GPU, NIC), 50),
                    ("pool", (NODE, NODE, "net", "second"), 40),
                    ("device", ("dev-0", "dev-1", "dev-2"), 60),
                )
                if dice.chance(percent)
            }
        return {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name},
            "spec": spec,
        }

    # --- classes and claims --------------------------------------------------------------------------------

    def _classes(self) -> list[Body]:
        found = []
        for name in ("any", "gpu"):
            selectors = [{"cel": {"expression": self._selector(f"device.driver == '{GPU}'")}}]
            spec: Body = {"selectors": selectors if name == "gpu" or self.dice.chance(20) else []}
            if self.on("config"):
                spec["config"] = [self._config(name)]
            meta = {"name": name}
            found.append(
                {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec}
            )
        return found

    def _selector(self, usual: str) -> str:
        if self.on("errors", 12):
            return str(self.dice.pick(_BAD_SELECTORS))
        return usual if self.dice.chance(75) else str(self.dice.pick(_SELECTORS))

    def _config(self, text: str) -> Body:
        return {"opaque": {"driver": GPU, "parameters": {"kind": text, "level": self.dice.below(3)}}}

    def _claim(self, name: str) -> Body:
        dice = self.dice
        requests = [self._request(f"r{number}") for number in range(dice.pick((1, 1, 1, 2, 2, 3)))]
        if self.on("config", 3):
            requests = []
        devices: Body = {"requests": requests}
        named = [item["name"] for item in requests]
        named += [
            f"{item['name']}/{sub['name']}" for item in requests for sub in item.get("firstAvailable", ())
        ]
        if {"constraints", "derived", "lists"} & self.themes:
            devices["constraints"] = [self._constraint(named) for _ in range(dice.pick((0, 1, 1, 2)))]
        if self.on("config"):
            devices["config"] = [
                {**self._config("claim"), "requests": dice.some(named, 40)} for _ in range(dice.pick((1, 2)))
            ]
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"devices": devices},
        }

    def _constraint(self, named: Sequence[str]) -> Body:
        if self.on("errors", 4):
            return {"requests": []}
        kind = "matchAttribute" if self.dice.chance(70) else "distinctAttribute"
        attribute = "example.org/derived" if self.on("derived", 60) else self.dice.pick(_ATTRIBUTES)
        return {kind: attribute, "requests": self.dice.some(named, 40)}

    def _request(self, name: str) -> Body:
        if self.on("firstAvailable", 60):
            subs = [
                {"name": f"s{number}", **self._wanted(sub=True)}
                for number in range(self.dice.pick((1, 2, 2, 3)))
            ]
            return {"name": name, "firstAvailable": subs}
        if self.on("errors", 2):
            return {"name": name}
        return {"name": name, "exactly": self._wanted(sub=False)}

    def _wanted(self, *, sub: bool) -> Body:
        dice = self.dice
        class_name = dice.pick(("any", "gpu", "gpu"))
        if self.on("errors", 4):
            class_name = "missing"
        found: Body = {"deviceClassName": class_name, "allocationMode": "ExactCount"}
        if dice.chance(30):
            found["selectors"] = [{"cel": {"expression": self._selector("true")}}]
            if self.on("errors", 5):
                found["selectors"].append({})
        if self.on("errors", 3):
            found["deviceClassName"] = ""
        if self.on("all", 35) or self.on("limits", 20):
            found["allocationMode"] = "All"
        elif self.on("errors", 3):
            found["allocationMode"] = "Future"
        else:
            found["count"] = dice.pick((1, 1, 1, 1, 2, 2, 3))
            if self.on("errors", 3) or self.on("limits", 30):
                found["count"] = dice.pick((16, 17, 31, 32, 33, 40))
        if not sub and self.on("admin", 50):
            found["adminAccess"] = dice.chance(85)
        if self.on("taints", 50) or self.on("rules", 40):
            found["tolerations"] = [
                dice.pick(
                    (
                        {"key": "k", "operator": "Exists"},
                        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
                        {"operator": "Exists"},
                        {"key": "l", "operator": "Exists", "effect": "NoExecute"},
                        {"key": "l", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
                        {"key": "l", "operator": "Equal"},
                    )
                )
                for _ in range(dice.pick((1, 1, 2)))
            ]
        if self.on("capacity", 50):
            found["capacity"] = {"requests": self._amounts()}
        if self.on("derived", 70):
            found["derivedAttributes"] = [{"name": self._derived_name(), "expression": self._derived()}]
        return found

    def _amounts(self) -> Body:
        names: Sequence[str] = ("memory", "memory", "engines")
        if "names" in self.themes:
            names = ("memory", f"{GPU}/memory", "engines")
        name = self.dice.pick(names)
        if name == "engines":
            return {name: str(self.dice.pick((1, 2)))}
        found = {name: self.dice.pick(("5Gi", "7Gi", "10Gi", "20Gi", "1500m", "2", "0", "100m"))}
        if self.dice.chance(20):
            found["engines"] = "1"
        return found

    def _derived_name(self) -> str:
        return "example.org/derived" if self.dice.chance(80) else f"{GPU}/model"

    def _derived(self) -> str:
        return str(self.dice.pick(_BAD_DERIVED if self.on("errors", 40) else _DERIVED))

    # --- what is in use ------------------------------------------------------------------------------------

    def _held(self, slices: Sequence[Body]) -> list[Body]:
        """Claims that hold some of the devices, of which some may be published no more."""
        dice = self.dice
        results: list[Body] = []
        percent = dice.pick((0, 0, 15, 30))
        for item in slices:
            spec = item["spec"]
            for device in spec.get("devices", ()):
                if dice.chance(percent):
                    results += self._holding(spec, device)
        if self.on("pools", 10):
            results.append({"request": "r", "driver": GPU, "pool": NODE, "device": "gone"})
        return [
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"held-{number}", "namespace": "default", "uid": f"uid-held-{number}"},
                "spec": {"devices": {}},
                "status": {"allocation": {"devices": {"results": [result]}}},
            }
            for number, result in enumerate(results)
        ]

    def _holding(self, spec: Body, device: Body) -> list[Body]:
        base = {
            "request": "r",
            "driver": spec["driver"],
            "pool": spec["pool"]["name"],
            "device": device["name"],
        }
        if self.on("admin", 30):
            return [{**base, "adminAccess": True}]
        if not device.get("allowMultipleAllocations") or self.dice.chance(15):
            return [base]
        found: list[Body] = []
        for number in range(self.dice.pick((1, 1, 2))):
            share: Body = {**base, "shareID": f"00000000-0000-4000-8000-00000000000{number}"}
            if device.get("capacity") and self.dice.chance(85):
                share["consumedCapacity"] = {name: self._consumed(name) for name in device["capacity"]}
            found.append(share)
        return found

    def _consumed(self, name: str) -> str:
        return "1" if name == "engines" else str(self.dice.pick(("5Gi", "10Gi")))
