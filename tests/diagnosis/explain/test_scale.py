"""Thousands of nodes are a handful of lines, and work grows with kinds of nodes, not with their number."""

from __future__ import annotations

import random

from baro.diagnosis.explain import Subject, Verdict, World, explain
from baro.diagnosis.explain.kinds import Question, kinds
from tests.support.cluster import claim, device_class, gpus, holding, node_slice, request
from tests.support.explain import evidence, node, pod, reserved, text

NODES = 1_500
TWO_FOURS = {"a": range(4), "b": range(4, 8)}


def _world() -> World:
    rng = random.Random(7)  # noqa: S311 - a cluster, not a secret
    devices = gpus(TWO_FOURS)
    objects = []
    for number in range(NODES):
        name = f"node-{number:04d}"
        objects += [node(name, unschedulable=number % 50 == 0), node_slice(name, devices)]
        for gpu in rng.sample(range(8), rng.randint(3, 8)):
            held = holding(name, f"gpu-{gpu}", name=f"{name}-{gpu}")
            objects.append(reserved(held, f"w-{name}-{gpu}"))
    six = claim(request(count=6), name="c")
    return World(evidence(*objects, device_class(), six, pod("p", "c")))


def test_fifteen_hundred_nodes_are_one_screen_and_say_what_is_nearest() -> None:
    said = explain(_world(), Subject("pod", ("default", "p")))
    assert said.verdict is Verdict.PENDING
    shown = text(said).splitlines()
    assert len(shown) <= 30
    assert len(said.groups) <= 8
    assert sum(len(group.nodes) for group in said.groups) == NODES
    assert "5 of them free" in said.headline.replace("\n", " ")
    assert said.groups[0].answer.stop() is not None
    count = next(miss for miss in said.misses if miss.changes[0].kind.value == "count")
    assert count.changes[0].value == "5"
    five = next(group for group in said.groups if "5 of them free" in group.answer.reason)
    assert count.nodes == len(five.nodes)


def test_the_number_of_answers_is_that_of_the_kinds_of_nodes() -> None:
    world = _world()
    wanted = next(item for item in world.snapshot.claims if item.metadata.name == "c")
    question = Question(pod=world.pods["default", "p"], claims_of={(): (wanted,)})
    found = kinds(world, question, world.inventory.node_names())
    masks = 2**8  # of what is free, at most
    assert len(found) <= masks + 1
    assert sum(len(kind.nodes) for kind in found) == NODES


def test_wide_has_all_of_them() -> None:
    shown = text(explain(_world(), Subject("pod", ("default", "p"))), wide=True).splitlines()
    assert sum(line.startswith("  node-") for line in shown) == NODES
