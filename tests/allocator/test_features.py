"""Which features the versions of Kubernetes have on, and what single gates change."""

from __future__ import annotations

import msgspec
import pytest

from baro.allocator.features import (
    DEFAULT_1_37,
    KUBE_VERSIONS,
    FeatureError,
    Features,
    without_effect,
)
from baro.model.validation import rules

_ON = {
    "1.34": {"admin_access", "prioritized_list"},
    "1.35": {"admin_access", "prioritized_list"},
    "1.36": {
        "admin_access", "prioritized_list", "partitionable", "taints", "binding_conditions",
        "consumable_capacity",
    },
    "1.37": {
        "admin_access", "prioritized_list", "partitionable", "taints", "binding_conditions",
        "consumable_capacity", "taint_rules",
    },
    "1.38": {
        "admin_access", "prioritized_list", "partitionable", "taints", "binding_conditions",
        "consumable_capacity", "taint_rules", "fractional_capacity",
    },
}  # fmt: skip
_QUIRKS = {"all_on_incomplete_is_on_node", "compatibility"}


def on(features: Features) -> set[str]:
    """The gated parts that are on."""
    return {name for name, value in msgspec.structs.asdict(features).items() if value} - _QUIRKS


@pytest.mark.parametrize("version", KUBE_VERSIONS)
def test_every_version_has_upstreams_defaults(version: str) -> None:
    assert on(Features.of_version(version)) == _ON[version]


def test_the_default_is_1_37_by_the_table_of_gates() -> None:
    assert Features.from_gates(rules.default_gates("1.37")) == DEFAULT_1_37 == Features.of_version("1.37")
    assert set(rules.KUBE_VERSIONS) < set(KUBE_VERSIONS)


@pytest.mark.parametrize("gate", sorted(set(rules.GATES) - set(without_effect(rules.GATES))))
@pytest.mark.parametrize("version", KUBE_VERSIONS)
def test_a_single_gate_changes_its_own_part_and_nothing_else(version: str, gate: str) -> None:
    if gate not in rules.known_gates(version):
        with pytest.raises(FeatureError, match="one of DRAAdminAccess, "):
            Features.of_version(version, {gate: True})
        return
    with_it, without = (Features.of_version(version, {gate: wanted}) for wanted in (True, False))
    joined = {"taints", "taint_rules"} if (version, gate) == ("1.34", "DRADeviceTaints") else None
    assert len(on(with_it)) - len(on(without)) == len(joined or "1")
    assert Features.of_version(version) in (with_it, without)
    assert joined is None or on(with_it) - on(without) == joined


def test_gates_and_versions_that_do_not_exist_are_refused_with_a_list() -> None:
    with pytest.raises(FeatureError, match=r"'1\.33': one of 1\.34, .*1\.38"):
        Features.of_version("1.33")
    with pytest.raises(FeatureError, match=r"1\.35 has no gate 'DRAListTypeAttributes'"):
        Features.of_version("1.35", {"DRAListTypeAttributes": False})


def test_gates_outside_the_allocator_are_known_to_have_no_effect() -> None:
    assert without_effect(["DRAExtendedResource", "DRADeviceTaints"]) == ("DRAExtendedResource",)
    assert Features.of_version("1.37", {"DRAExtendedResource": False}) == DEFAULT_1_37
