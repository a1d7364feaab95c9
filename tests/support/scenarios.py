"""The named scenarios of ``tests/allocator/scenarios.yaml`` as instances for both allocators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bench._allocator_random import DEFAULT_GATES, GPU

Body = dict[str, Any]
FILE = Path(__file__).resolve().parents[1] / "allocator" / "scenarios.yaml"
NODE = "n"


class Scenario(msgspec.Struct, frozen=True):
    """``body`` is an instance as ``bench.allocator_differential`` takes it; ``told`` is the text."""

    name: str
    body: Body
    told: Mapping[str, Any]

    @property
    def expected(self) -> Any:
        return self.told["expect"]

    @property
    def upstream(self) -> Any:
        """What 1.37.2 answers."""
        return self.told.get("upstream", self.told["expect"])


@cache
def scenarios() -> tuple[Scenario, ...]:
    """All of them, in order."""
    return tuple(Scenario(item["name"], _body(item), item) for item in yaml.safe_load(FILE.read_text()))


def _body(told: Mapping[str, Any]) -> Body:
    gates = [gate for gate in DEFAULT_GATES if gate not in told.get("without", ())]
    status = {"declaredFeatures": told["declared"]} if "declared" in told else {}
    selector = [{"cel": {"expression": f"device.driver == '{GPU}'"}}]
    return {
        "name": told["name"],
        "features": [*gates, *told.get("gates", ())],
        "node": {"metadata": {"name": NODE, "labels": {"zone": "a"}}, "status": status},
        "deviceClasses": [
            {"metadata": {"name": "any"}, "spec": {}},
            {
                "metadata": {"name": "gpu"},
                "spec": {"selectors": selector, "config": told.get("classConfig", [])},
            },
        ],
        "resourceSlices": [_slice(item) for item in told["slices"]],
        "claims": [_claim(number, item) for number, item in enumerate(told["claims"])],
        "held": [_held(number, item) for number, item in enumerate(told.get("held", ()))],
        "rules": [
            {"metadata": {"name": f"rule-{number}"}, "spec": item}
            for number, item in enumerate(told.get("rules", ()))
        ],
    }


def _slice(item: Mapping[str, Any]) -> Body:
    where = item.get("where") or {"nodeName": item.get("node", NODE)}
    pool = {
        "name": item.get("pool", NODE),
        "generation": item.get("generation", 1),
        "resourceSliceCount": item.get("count", 1),
    }
    kept = {name: item[name] for name in ("devices", "sharedCounters", "skipNodeOperations") if name in item}
    spec = {"driver": item.get("driver", GPU), "pool": pool, **where, **kept}
    return {"metadata": {"name": item["name"]}, "spec": spec}


def _claim(number: int, item: Mapping[str, Any]) -> Body:
    devices = {**item, "requests": [_request(request) for request in item["requests"]]}
    meta = {"name": f"c{number}", "namespace": "default"}
    return {"metadata": meta, "spec": {"devices": devices}}


def _request(item: Mapping[str, Any]) -> Body:
    if "firstAvailable" in item:
        subs = [{"name": sub["name"], **_wanted(sub)} for sub in item["firstAvailable"]]
        return {"name": item["name"], "firstAvailable": subs}
    return {"name": item["name"], "exactly": _wanted(item)}


def _wanted(item: Mapping[str, Any]) -> Body:
    mode = item.get("allocationMode", "ExactCount")
    found: Body = {"deviceClassName": "gpu", "allocationMode": mode}
    if mode == "ExactCount":
        found["count"] = 1
    found |= {name: value for name, value in item.items() if name not in ("name", "selectors", "capacity")}
    if "selectors" in item:
        found["selectors"] = [{"cel": {"expression": text}} for text in item["selectors"]]
    if "capacity" in item:
        found["capacity"] = {"requests": item["capacity"]}
    return found


def _held(number: int, item: Mapping[str, Any]) -> Body:
    result = {"request": "r", "driver": GPU, "pool": NODE, **item}
    allocation = {"devices": {"results": [result]}}
    return {
        "metadata": {"name": f"held-{number}", "namespace": "default"},
        "spec": {"devices": {}},
        "status": {"allocation": allocation},
    }


def names(found: Sequence[Any]) -> list[list[str]]:
    """Device names per claim of some results as JSON."""
    return [[item["device"] for item in result.get("devices", {}).get("results", ())] for result in found]
