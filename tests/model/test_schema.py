"""The table of kinds and types: complete, consistent, and equal to an independent listing of the API."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from baro.model.schema import (
    ObjectType,
    TypeRef,
    find_kind,
    find_plural,
    group_versions,
    kinds,
    object_type,
    resolve,
    type_names,
)


def _leaves(type_: TypeRef) -> list[TypeRef]:
    return _leaves(type_.items) if type_.items else [type_]


def test_every_kind_reaches_all_its_types_by_name() -> None:
    seen: set[str] = set()
    todo = [kind.type for kind in kinds()]
    while todo:
        ref = todo.pop()
        if ref in seen:
            continue
        seen.add(ref)
        found = resolve(ref)
        assert found.ref == ref
        for field in found.fields.values():
            todo += [leaf.ref for leaf in _leaves(field.type) if leaf.ref]
    assert len(seen) > 300


def test_keys_of_lists_are_fields_of_their_items() -> None:
    every_type = [object_type(gv, name) for gv in group_versions() for name in type_names(gv)]
    for field in (field for found in every_type for field in found.fields.values()):
        keys = {*field.list_map_keys, *([field.merge_key] if field.merge_key else [])}
        if not keys:
            continue
        assert field.type.kind == "array" and field.type.items and field.type.items.ref
        assert keys <= set(resolve(field.type.items.ref).fields)


def test_the_facts_that_patches_rely_on_are_there() -> None:
    pod = object_type("v1", "PodSpec").fields
    assert (pod["containers"].merge_key, pod["containers"].patch_strategy) == ("name", ("merge",))
    assert pod["volumes"].patch_strategy == ("merge", "retainKeys")
    assert pod["tolerations"].list_type == "atomic" and not pod["tolerations"].patch_strategy
    assert pod["topologySpreadConstraints"].merge_key == "topologyKey"
    assert object_type("v1", "Container").fields["ports"].list_map_keys == ("containerPort", "protocol")
    assert object_type("meta/v1", "ObjectMeta").fields["finalizers"].patch_strategy == ("merge",)
    status = object_type("resource.k8s.io/v1", "ResourceClaimStatus").fields
    assert status["reservedFor"].merge_key == "uid"
    assert status["devices"].list_map_keys == ("driver", "device", "pool", "shareID")
    assert object_type("resource.k8s.io/v1", "ResourceSliceSpec").fields["devices"].list_type == "atomic"


def test_types_print_as_the_servers_decoder_prints_them() -> None:
    device = object_type("resource.k8s.io/v1", "Device").fields
    assert device["attributes"].type.go == "map[v1.QualifiedName]v1.DeviceAttribute"
    assert device["taints"].type.go == "[]v1.DeviceTaint"
    assert object_type("resource.k8s.io/v1beta1", "Device").fields["basic"].type.go == "v1beta1.BasicDevice"
    assert object_type("v1", "Secret").fields["data"].type.go == "map[string][]uint8"
    assert object_type("v1", "ResourceRequirements").fields["limits"].type.go == "v1.ResourceList"


def test_removed_fields_are_kept_apart() -> None:
    device: ObjectType = object_type("resource.k8s.io/v1", "Device")
    assert "nodeAllocatableResourceMappings" not in device.fields
    assert device.former["nodeAllocatableResourceMappings"].until == "1.36"
    assert object_type("resource.k8s.io/v1", "ExactDeviceRequest").fields["derivedAttributes"].since == "1.37"


def test_kinds_are_found_by_kind_and_by_plural() -> None:
    pod = find_kind("v1", "Pod")
    assert pod is not None and pod.namespaced and "status" in pod.subresources and pod.short_names == ("po",)
    assert find_plural("resource.k8s.io", "v1beta1", "resourceslices") == find_kind(
        "resource.k8s.io/v1beta1", "ResourceSlice"
    )
    assert find_kind("resource.k8s.io/v1alpha3", "ResourceClaim") is None
    assert find_plural("", "v1", "gpus") is None
    assert [column.name for column in pod.columns if not column.priority] == [
        "Name", "Ready", "Status", "Restarts", "Age",
    ]  # fmt: skip


def test_an_unknown_type_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        object_type("v1", "Gpu")
    with pytest.raises(KeyError):
        object_type("gpu.example.com/v1", "Gpu")
    with pytest.raises(KeyError):
        resolve("io.k8s.api.core.v1.Gpu")


def test_importing_errors_does_not_load_the_schema() -> None:
    rooms = "('baro.model.schema', 'baro.model.decode')"
    code = f"import sys, baro.model.errors; print([m for m in sys.modules if m.startswith({rooms})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- an independent listing: the models that the client library generates from the API's OpenAPI ---------


def _models() -> Path | None:
    found = importlib.util.find_spec("lightkube.models")
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) if places else None


def _listed_fields(module: Path) -> dict[str, dict[str, bool]]:
    """Class → field → whether it is required."""
    classes = [node for node in ast.parse(module.read_text()).body if isinstance(node, ast.ClassDef)]
    return {
        node.name: {
            item.target.id.rstrip("_"): not str(item.annotation.value).startswith("Optional")
            for item in node.body
            if isinstance(item, ast.AnnAssign)
            and isinstance(item.target, ast.Name)
            and isinstance(item.annotation, ast.Constant)
        }
        for node in classes
    }


@pytest.mark.parametrize("group_version", [gv for gv in group_versions() if gv != "baro.dev/v1alpha1"])
def test_fields_and_required_fields_equal_the_client_librarys(group_version: str) -> None:
    root = _models()
    assert root is not None
    group, _, version = group_version.rpartition("/")
    listed = _listed_fields(root / f"{(group or 'core').partition('.')[0]}_{version}.py")
    compared = 0
    for name in type_names(group_version):
        fields = object_type(group_version, name).fields
        if not fields:
            continue  # Empty structs are no classes there.
        assert {field: f.required for field, f in fields.items()} == listed[name], name
        compared += 1
    assert compared
