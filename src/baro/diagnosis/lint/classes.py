"""DeviceClasses: two for one extended resource, classes that select everything, baro's exclusive ones."""

from __future__ import annotations

from collections.abc import Iterator

from baro.diagnosis.lint.manifest import Manifest, mapping, selectors, text
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run
from baro.diagnosis.published import class_selectors
from baro.model.edits import Insert
from baro.model.names import EXCLUSIVE_CLASS, SELECTOR_ANNOTATION


@rule("DeviceClass")
def extended_resources(manifest: Manifest, run: Run) -> Iterator[Note]:
    """One name, one class: of several the newest wins, and the others do nothing."""
    name = text(mapping(manifest.body, "spec"), "extendedResourceName")
    if not manifest.dra or not name:
        return
    where = manifest.where("spec.extendedResourceName")
    others = sorted(
        one.name
        for one in run.of_kind("DeviceClass")
        if one is not manifest and text(mapping(one.body, "spec"), "extendedResourceName") == name
    )
    if others:
        names = ", ".join(others)
        message = f"{name} is also the extended resource of {names}: only the newest of the classes has it"
        yield note("duplicate-extended-resource-name", message, where)


@rule("DeviceClass")
def everything(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Without a selector a class selects the devices of every driver, NICs and CPUs too."""
    spec = mapping(manifest.body, "spec")
    if manifest.dra and not list(selectors(spec, "spec")) and not spec.get("selectors"):
        message = "without selectors the class selects every device of every driver in the cluster"
        yield note("class-selects-everything", message, manifest.where("spec"))


@rule("DeviceClass")
def exclusive(manifest: Manifest, run: Run) -> Iterator[Note]:
    """A class that selects ``false`` is baro's way to keep others off; the real selector is an annotation."""
    if not manifest.dra:
        return
    annotations = mapping(manifest.body, "metadata", "annotations")
    found = [expression.strip() for _, expression in selectors(mapping(manifest.body, "spec"), "spec")]
    hidden = text(annotations, SELECTOR_ANNOTATION)
    if hidden and "false" not in found:
        message = (
            f"the annotation {SELECTOR_ANNOTATION} stands on a class whose selector is not `false`:"
            " kube-scheduler allocates from it too"
        )
        path = f"metadata.annotations[{SELECTOR_ANNOTATION}]"
        yield note("exclusive-class-open", message, manifest.where(path))
    if not hidden and "false" in found:
        known = class_selectors().get(manifest.name) or class_selectors()[EXCLUSIVE_CLASS]
        edit = Insert(("metadata", "annotations", SELECTOR_ANNOTATION), known)
        message = (
            f"the class selects nothing: an exclusive class says in {SELECTOR_ANNOTATION} what baro takes"
        )
        edits = (edit,) if manifest.name == EXCLUSIVE_CLASS else ()
        yield note("exclusive-class-without-selector", message, manifest.where("spec.selectors"), *edits)
