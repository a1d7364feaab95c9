"""Loading 10,000 ResourceSlices of 8 devices (16 attributes, 2 capacities each) from JSON.

Each row runs in a fresh interpreter. Time is the CPU time of the load alone; memory is the peak above the
same interpreter with the modules imported, the bytes of the dump included. The budget of the project: at
most 2 s, and 100 MiB for a caller that goes through the dump one object at a time.
Run: ``python -m bench load`` or ``python bench/load.py [slices]``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

DEVICES = 8

PRELUDE = """
import sys, time, resource
from pathlib import Path
from baro.model.kinds.resource import ResourceSlice
from baro.model.load import decode_objects, load_json_list, load_paths

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

path, before, start = sys.argv[1], peak(), time.process_time()
"""
EPILOGUE = """
print(len_, time.process_time() - start, peak() - before)
"""
WAYS = {
    "load_json_list → Structs, all held": (
        "held = load_json_list(Path(path).read_bytes(), ResourceSlice)\nlen_ = len(held)"
    ),
    "load_paths, nothing decoded": "held = load_paths([path])\nlen_ = len(held)",
    "load_paths + decode_objects, one at a time": (
        "len_ = sum(1 for _ in decode_objects(load_paths([path]), ResourceSlice))"
    ),
    "load_paths + body of each, one at a time": "len_ = sum(bool(one.body) for one in load_paths([path]))",
    "json.loads, all held (for comparison)": (
        "import json\nheld = json.loads(Path(path).read_bytes())\nlen_ = len(held['items'])"
    ),
}


def device(node: int, index: int) -> dict[str, object]:
    """One GPU with the attributes that a vendor's driver publishes."""
    texts = {
        "uuid": f"GPU-{node:08x}-0000-4000-8000-{index:012x}",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "type": "gpu",
        "model": "H100",
        "nvlinkDomain": f"node-{node:05d}-island-{index // 4}",
        "clique": f"{node // 16:08x}-0000-0000-0000-000000000000.0",
        "resource.kubernetes.io/pcieRoot": f"pci0000:{index * 16:02x}",
        "resource.kubernetes.io/pciBusID": f"0000:{index * 16 + 9:02x}:00.0",
    }
    attributes: dict[str, dict[str, object]] = {name: {"string": text} for name, text in texts.items()}
    for name, number in (("minor", index), ("index", index), ("resource.kubernetes.io/numaNode", index // 4)):
        attributes[name] = {"int": number}
    for name in ("cudaComputeCapability", "cudaDriverVersion", "driverVersion"):
        attributes[name] = {"version": "12.8.0"}
    capacity = {"memory": {"value": "81559Mi"}, "multiprocessors": {"value": "132"}}
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": capacity}


def resource_slice(node: int) -> dict[str, object]:
    """One node's slice as an API server returns it."""
    name = f"node-{node:05d}"
    return {
        "metadata": {
            "name": f"{name}-gpu.example.com-x{node % 97:02d}",
            "uid": f"{node:08x}-0000-4000-8000-000000000000",
            "resourceVersion": str(100_000 + node),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                {
                    "manager": "driver",
                    "operation": "Update",
                    "apiVersion": "resource.k8s.io/v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:spec": {f"f:{key}": {} for key in ("devices", "driver", "nodeName", "pool")}
                    },
                }
            ],
        },
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device(node, index) for index in range(DEVICES)],
        },
    }


def write(path: Path, slices: int) -> None:
    """The list as ``kubectl get --raw`` prints it, written piece by piece."""
    with path.open("w", encoding="utf-8") as out:
        out.write('{"kind":"ResourceSliceList","apiVersion":"resource.k8s.io/v1","metadata":{},"items":[')
        for node in range(slices):
            out.write(("," if node else "") + json.dumps(resource_slice(node), separators=(",", ":")))
        out.write("]}\n")


def main(slices: int = 10_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slices.json"
        write(path, slices)
        print(f"{slices} slices × {DEVICES} devices, {path.stat().st_size / 1e6:.1f} MB of JSON")
        print(f"{'way':<46} {'objects':>8} {'CPU s':>7} {'peak MiB':>9}")
        for name, way in WAYS.items():
            script = PRELUDE + way + EPILOGUE
            done = subprocess.run(
                [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
            )
            count, seconds, memory = done.stdout.split()
            print(f"{name:<46} {count:>8} {float(seconds):>7.2f} {float(memory):>9.0f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
