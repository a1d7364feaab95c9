"""DeviceTaintRules: what they hit."""

from __future__ import annotations

from collections.abc import Iterator

from baro.diagnosis.lint.manifest import Manifest, items, mapping, text
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run


@rule("DeviceTaintRule")
def hits(manifest: Manifest, run: Run) -> Iterator[Note]:
    """A rule without selection hits every device; one that selects nothing hits none."""
    if not manifest.dra:
        return
    selector = mapping(manifest.body, "spec", "deviceSelector")
    wanted = {key: text(selector, key) for key in ("driver", "pool", "device") if text(selector, key)}
    effect = text(mapping(manifest.body, "spec", "taint"), "effect")
    if not wanted and effect in ("NoSchedule", "NoExecute"):
        done = "and evicts every pod that uses one" if effect == "NoExecute" else "of every driver"
        message = f"without a selection the rule taints every device in the cluster {done}"
        yield note("taint-rule-hits-everything", message, manifest.where("spec"))
    slices = list(run.of_kind("ResourceSlice"))
    if wanted and slices and not any(_hit(one, wanted) for one in slices):
        listed = ", ".join(f"{key} {value}" for key, value in wanted.items())
        message = f"no device among the documents has {listed}"
        yield note("taint-rule-hits-nothing", message, manifest.where("spec.deviceSelector"))


def _hit(manifest: Manifest, wanted: dict[str, str]) -> bool:
    spec = mapping(manifest.v1, "spec")
    if "driver" in wanted and text(spec, "driver") != wanted["driver"]:
        return False
    if "pool" in wanted and text(mapping(spec, "pool"), "name") != wanted["pool"]:
        return False
    return "device" not in wanted or any(
        text(device, "name") == wanted["device"] for _, device in items(spec, "devices")
    )
