"""What if a device class that does not exist was misspelt: the nearest that does, tried on the allocator."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from baro.diagnosis.explain.changes import applied
from baro.diagnosis.explain.kinds import Question, kinds
from baro.diagnosis.explain.references import Standing, class_names
from baro.diagnosis.explain.result import Change, Miss, MissKind, Step
from baro.diagnosis.explain.world import World, near
from baro.inventory import claim_name


def other_classes(
    world: World, question: Question, stands: Standing, names: Sequence[str]
) -> tuple[Miss, ...]:
    """One near miss with the nearest class in place of each that is missing, where that makes the pod fit."""
    known = world.inventory.classes
    changes = []
    for claim in stands.open:
        for request, name in class_names(claim):
            close = () if name in known else near(name, known, 1)
            if name not in known and not close:
                return ()
            changes += [
                Change(kind=MissKind.CLASS, claim=claim_name(claim), request=request, key=name, value=value)
                for value in close
            ]
    if not changes:
        return ()
    claims_of = {key: tuple(applied(claims, changes)) for key, claims in question.claims_of.items()}
    changed = msgspec.structs.replace(question, claims_of=claims_of)
    fitting = sorted(
        node for kind in kinds(world, changed, names) if kind.answer.step is Step.FITS for node in kind.nodes
    )
    if not fitting:
        return ()
    told = " and ".join(dict.fromkeys(f"class {item.value} in place of {item.key}" for item in changes))
    where = f"node {fitting[0]}" if len(fitting) == 1 else f"{len(fitting)} nodes (first: {fitting[0]})"
    text = f"with {told}, it would fit on {where}"
    return (Miss(changes=tuple(changes), text=text, nodes=len(fitting), first=fitting[0]),)
