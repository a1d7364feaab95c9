"""One row per cause: what the evidence holds, and the code, step and words that the explanation must have."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from baro.diagnosis.evidence import Evidence
from baro.diagnosis.explain import Step, Verdict
from baro.model.findings import table
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Affinity, NodeAffinity, Taint
from baro.model.kinds.core import NodeSelector as NodeTerms
from baro.model.kinds.core import NodeSelectorRequirement as Requirement
from baro.model.kinds.core import NodeSelectorTerm as Term
from baro.model.kinds.resource import (
    CapacityRequirements,
    Counter,
    CounterSet,
    Device,
    DeviceClassSpec,
    DeviceCounterConsumption,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from tests.support.cluster import (
    claim,
    cluster,
    device,
    device_class,
    gpus,
    holding,
    node_slice,
    request,
)
from tests.support.explain import (
    evidence,
    node,
    owned,
    pod,
    pod_explained,
    reserved,
    selector,
    text,
)

TWO_FOURS = {"a": range(4), "b": range(4, 8)}
DOMAIN = "gpu.nvidia.com/nvlinkDomain"
MODEL = "device.attributes['gpu.nvidia.com'].productName"
Row = tuple[Callable[[], Evidence], str, Step, tuple[str, ...]]


def _one(*objects: object, busy: tuple[str, ...] = (), **node_parts: object) -> Evidence:
    """Node ``a`` with eight GPUs in two islands, and what is given."""
    known = cluster({"a": gpus(TWO_FOURS)}, busy={"a": busy}, nodes=[node("a", **node_parts)])  # type: ignore[arg-type]
    return evidence(known, *objects)  # type: ignore[arg-type]


def _template(name: str) -> ResourceClaimTemplate:
    spec = ResourceClaimTemplateSpec(spec=claim(request()).spec)
    return ResourceClaimTemplate(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def _deleting() -> Evidence:
    item = claim(request())
    meta = msgspec.structs.replace(
        item.metadata, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=("x/y",)
    )
    return _one(msgspec.structs.replace(item, metadata=meta), pod("p", "c"))


def _full() -> Evidence:
    shared = reserved(holding("a", "gpu-0", name="c"), *(f"w{number}" for number in range(256)))
    return _one(shared, pod("p", "c"))


def _elsewhere() -> Evidence:
    held = holding("a", "gpu-0", name="c")
    only_a = NodeTerms(
        node_selector_terms=(
            Term(match_fields=(Requirement(key="metadata.name", operator="In", values=("a",)),)),
        )
    )
    allocation = msgspec.structs.replace(held.status.allocation, node_selector=only_a)  # type: ignore[type-var]
    held = msgspec.structs.replace(held, status=msgspec.structs.replace(held.status, allocation=allocation))
    nodes = [node("a", unschedulable=True), node("b")]
    known = cluster({"a": gpus(TWO_FOURS), "b": gpus(TWO_FOURS)}, nodes=nodes)
    return evidence(known, held, pod("p", "c"))


def _exclusive() -> Evidence:
    hidden = {"baro.dev/selector": "device.driver == 'gpu.nvidia.com'"}
    item = device_class("gpu.baro.dev", "false", hidden)
    return _one(item, claim(request(class_name="gpu.baro.dev")), pod("p", "c"))


def _incomplete() -> Evidence:
    known = cluster({}, classes=[device_class()])
    item = node_slice("a", gpus(TWO_FOURS), count=2)
    return evidence(known, node("a"), item, claim(request()), pod("p", "c"))


def _invalid() -> Evidence:
    twice = (device("gpu-0", type="gpu"), device("gpu-0", type="gpu"))
    return evidence(cluster({"a": twice}, nodes=[node("a")]), claim(request()), pod("p", "c"))


def _tainted() -> Evidence:
    bad = tuple(
        msgspec.structs.replace(
            item, taints=(DeviceTaint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule"),)
        )
        for item in gpus({"a": range(2)})
    )
    return evidence(cluster({"a": bad}, nodes=[node("a")]), claim(request()), pod("p", "c"))


def _tainted_by_rule() -> Evidence:
    rule = DeviceTaintRule(
        metadata=ObjectMeta(name="r"),
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(driver="gpu.nvidia.com"),
            taint=DeviceTaint(key="maintenance", effect="NoExecute"),
        ),
    )
    return _one(rule, claim(request()), pod("p", "c"))


def _counters() -> Evidence:
    """One GPU of 8 memory slices: a 4g partition is held, a 7g one would need all."""

    def part(name: str, slices: int) -> Device:
        uses = DeviceCounterConsumption(counter_set="gpu", counters={"memory": Counter(value=str(slices))})
        return msgspec.structs.replace(device(name, type="mig"), consumes_counters=(uses,))

    counters = node_slice("a", [], name="a-counters", count=2)
    spec = msgspec.structs.replace(
        counters.spec,
        shared_counters=(CounterSet(name="gpu", counters={"memory": Counter(value="8")}),),
    )
    counters = msgspec.structs.replace(counters, spec=spec)
    parts = node_slice("a", [part("mig-4g", 4), part("mig-7g", 8)], name="a-parts", count=2)
    return evidence(
        cluster({}), node("a"), counters, parts, holding("a", "mig-4g"), claim(request()), pod("p", "c")
    )


def _small() -> Evidence:
    item = claim(request(capacity=CapacityRequirements(requests={"memory": "80Gi"})))
    cards = [device("gpu-0", type="gpu", memory="81559Mi")]
    return evidence(cluster({"a": cards}, nodes=[node("a")]), item, pod("p", "c"))


def _together() -> Evidence:
    one = [device("gpu-0", type="gpu")]
    item = claim(request("first"), request("second"))
    return evidence(cluster({"a": one}, nodes=[node("a")]), item, pod("p", "c"))


def _island() -> Evidence:
    item = claim(request(count=4), annotations={"baro.dev/topology": "required"})
    gated = pod("p", "c", gates=["baro.dev/placement"])
    return _one(item, gated, busy=("gpu-0", "gpu-4", "gpu-5"))


def _affinity() -> Affinity:
    wants = Requirement(key="zone", operator="In", values=("west",))
    return Affinity(
        node_affinity=NodeAffinity(
            required=NodeTerms(node_selector_terms=(Term(match_expressions=(wants,)),))
        )
    )


def _extended(allocatable: str, capacity: str, *users: str) -> Evidence:
    has = node("a", allocatable={"nvidia.com/gpu": allocatable}, capacity={"nvidia.com/gpu": capacity})
    running = [
        pod(f"w{number}", requests={"nvidia.com/gpu": count}, phase="Running", node_name="a")
        for number, count in enumerate(users)
    ]
    ended = pod("old", requests={"nvidia.com/gpu": "8"}, phase="Succeeded", node_name="a")
    return evidence(has, *running, ended, pod("p", requests={"nvidia.com/gpu": "2"}))


def _extended_by_dra() -> Evidence:
    item = device_class()
    spec = DeviceClassSpec(selectors=item.spec.selectors, extended_resource_name="nvidia.com/gpu")
    served = msgspec.structs.replace(item, spec=spec)
    known = cluster({"a": gpus({"a": range(2)})}, busy={"a": ["gpu-0"]}, classes=[served], nodes=[node("a")])
    return evidence(known, pod("p", requests={"nvidia.com/gpu": "2"}))


ROWS: dict[str, Row] = {
    "another gate": (
        lambda: _one(claim(request()), pod("p", "c", gates=["example.com/quota"])),
        "pending-gate", Step.GATE, ("example.com/quota", "apart from that it would fit now, on node a"),
    ),
    "baro's gate": (
        lambda: _one(claim(request()), pod("p", "c", gates=["baro.dev/placement"])),
        "pending-planner", Step.GATE, ("baro's planner", "would fit now, on node a"),
    ),
    "baro's gate and no island": (
        _island, "pending-planner", Step.GATE, ("requires one island: 5 free GPUs, largest island has 3",),
    ),
    "claim missing": (
        lambda: _one(claim(request(), name="training"), pod("p", "trainnig")),
        "pending-claim-missing", Step.REFERENCE,
        ("default/trainnig does not exist", "nearest name: training"),
    ),
    "template missing": (
        lambda: _one(_template("one-gpu"), pod("p", templates={"gpu": "one-gpus"})),
        "pending-template-missing", Step.REFERENCE, ("nearest name: one-gpu",),
    ),
    "claim not made yet": (
        lambda: _one(_template("one-gpu"), pod("p", templates={"gpu": "one-gpu"})),
        "pending-claim-not-made", Step.REFERENCE, ("apart from that it would fit now, on node a", "p-gpu"),
    ),
    "entry with neither name": (
        lambda: _one(pod("p", templates={"gpu": ""})),
        "pending-claim-entry-empty", Step.REFERENCE, ("names neither a claim nor a template",),
    ),
    "claim of an earlier pod": (
        lambda: _one(
            owned(claim(request(), name="p-gpu"), "p", uid="older"),
            msgspec.structs.replace(
                pod("p", templates={"gpu": "t"}),
                status=msgspec.convert(
                    {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}]},
                    type(pod("p").status),
                ),
            ),
            _template("t"),
        ),
        "pending-claim-of-other", Step.REFERENCE, ("was not created for Pod default/p (Pod is not owner)",),
    ),
    "claim being deleted": (
        _deleting, "pending-claim-deleting", Step.REFERENCE, ('"c" is being deleted', "finalizers: x/y"),
    ),
    "claim with 256 pods": (
        _full, "pending-claim-full", Step.REFERENCE, ("reserved for 256 pods",),
    ),
    "claim allocated where the pod cannot go": (
        _elsewhere, "pending-claim-elsewhere", Step.NODE,
        ("allocated on node a, where the pod cannot go: cordoned",),
    ),
    "class missing": (
        lambda: _one(claim(request(class_name="gpu.nvidia.co")), pod("p", "c")),
        "device-class-not-found", Step.CLASS,
        ("nearest name: gpu.nvidia.com", "could not retrieve device class gpu.nvidia.co",
         "with class gpu.nvidia.com in place of gpu.nvidia.co, it would fit on node a"),
    ),
    "exclusive class without the gate": (
        _exclusive, "pending-exclusive-class", Step.CLASS, ("allocated by baro's planner only",),
    ),
    "no slice anywhere": (
        lambda: evidence(node("a"), device_class(), claim(request()), pod("p", "c")),
        "autoscaler-no-resourceslice-template", Step.PUBLISHED, ("no driver has published",),
    ),
    "empty slice": (
        lambda: evidence(cluster({"a": []}, nodes=[node("a")]), claim(request()), pod("p", "c")),
        "empty-slice", Step.PUBLISHED, ("0 devices are published", "has no device in it"),
    ),
    "too few published": (
        lambda: _one(claim(request(count=9)), pod("p", "c")),
        "pending-no-devices", Step.PUBLISHED,
        ("9 devices needed, 8 published", "with 8 instead of 9 devices"),
    ),
    "pool incomplete": (
        _incomplete, "pool-incomplete", Step.POOL,
        ("1 of 2 slices", "once pool gpu.nvidia.com/a is complete (1 of 2 slices are missing)"),
    ),
    "pool invalid": (
        _invalid, "pool-invalid", Step.POOL, ("duplicate device name gpu-0",),
    ),
    "class of another driver": (
        lambda: _one(
            device_class("nic", "device.driver == 'nic.example.com'"),
            claim(request(class_name="nic")), pod("p", "c"),
        ),
        "pending-class-matches-nothing", Step.CLASS,
        ("class nic leaves 0 of 8", "driver = gpu.nvidia.com (8)"),
    ),
    "selector matches nothing": (
        lambda: _one(claim(request(selectors=selector(f"{MODEL} == 'H200'"))), pod("p", "c")),
        "pending-no-match", Step.SELECTOR,
        ("productName = NVIDIA H200 NVL (8)", f"with `{MODEL} == 'NVIDIA H200 NVL'` as selector 1"),
    ),
    "selector fails": (
        lambda: _one(
            claim(request(selectors=selector("device.attributes['gpu.nvidia.com'].modle == 'H200'"))),
            pod("p", "c"),
        ),
        "pending-selector-error", Step.SELECTOR,
        ("no such key: modle", "with `device.attributes['gpu.nvidia.com'].model == 'H200'` as selector 1"),
    ),
    "all in use": (
        lambda: _one(
            claim(request(count=2)), pod("p", "c"),
            busy=tuple(f"gpu-{number}" for number in range(7)),
        ),
        "pending-in-use", Step.FREE,
        ("8 match, 1 of them free",
         "held: gpu-0, gpu-1, gpu-2, gpu-3 and 3 more (claim default/held-a, no pod)",
         "freeing gpu-0, gpu-1"),
    ),
    "tainted": (
        _tainted, "pending-tainted", Step.TAINT,
        ("gpu.nvidia.com/xid=79:NoSchedule on gpu-0, gpu-1", "tolerated the device taint gpu.nvidia.com/xid"),
    ),
    "tainted by a rule": (
        _tainted_by_rule, "pending-tainted", Step.TAINT, ("maintenance:NoExecute on gpu-0, gpu-1",),
    ),
    "capacity too small": (
        _small, "pending-capacity", Step.CAPACITY, ("memory 81559Mi", "with memory 81559Mi in request gpu"),
    ),
    "constraint too small": (
        lambda: _one(
            claim(request(count=4), match=DOMAIN), pod("p", "c"), busy=("gpu-2", "gpu-6", "gpu-7"),
        ),
        "pending-constraint", Step.CONSTRAINT,
        ("largest group has 3", "values: a (3), b (2)", "with 3 instead of 4 devices"),
    ),
    "constraint on what nobody publishes": (
        lambda: _one(claim(request(), match="gpu.nvidia.com/nvlinkdomain"), pod("p", "c")),
        "unknown-constraint-attribute", Step.CONSTRAINT,
        (f"nearest published: {DOMAIN}", f"with `matchAttribute: {DOMAIN}` in place of"),
    ),
    "counters used up": (
        _counters, "pending-counters", Step.COUNTERS, ("counters that are used up", "freeing mig-4g"),
    ),
    "only together not": (
        _together, "pending-together", Step.SET, ("not all of them together",),
    ),
    "node cordoned": (
        lambda: _one(claim(request()), pod("p", "c"), unschedulable=True),
        "pending-node", Step.NODE, ("cordoned", "if the node were uncordoned, it would fit on node a"),
    ),
    "node tainted": (
        lambda: _one(claim(request()), pod("p", "c"), taints=(Taint(key="maint", effect="NoSchedule"),)),
        "pending-node", Step.NODE,
        ("maint:NoSchedule", "if the pod tolerated the node taint maint:NoSchedule"),
    ),
    "node not ready": (
        lambda: _one(
            claim(request()), pod("p", "c"),
            taints=(Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),),
        ),
        "pending-node", Step.NODE, ("the node is not ready",),
    ),
    "node selector": (
        lambda: _one(
            claim(request()), pod("p", "c", node_selector={"zone": "west"}), labels={"zone": "east"}
        ),
        "pending-node", Step.NODE, ("it has zone=east", "without the pod's nodeSelector zone=west"),
    ),
    "node affinity": (
        lambda: _one(claim(request()), pod("p", "c", affinity=_affinity()), labels={"zone": "east"}),
        "pending-node", Step.NODE, ("zone In [west]", "without the pod's node affinity"),
    ),
    "CPU short": (
        lambda: _one(
            claim(request()), pod("p", "c", requests={"cpu": "16"}),
            pod("w", requests={"cpu": "60"}, phase="Running", node_name="a"),
        ),
        "pending-resources", Step.RESOURCES, ("16 cpu needed, 4 of 64 free", "default/w (60)"),
    ),
    "memory never enough": (
        lambda: _one(claim(request()), pod("p", "c", requests={"memory": "1Ti"})),
        "pending-resources", Step.RESOURCES, ("1Ti memory needed, the node has 256Gi in all",),
    ),
    "counted GPUs used up": (
        lambda: _extended("8", "8", "4", "3"),
        "pending-extended-resource", Step.RESOURCES,
        ("2 nvidia.com/gpu needed, 1 of 8 free", "default/w0 (4), default/w1 (3)"),
    ),
    "counted GPUs unhealthy": (
        lambda: _extended("0", "16"),
        "pending-extended-resource", Step.RESOURCES, ("all 16 are unhealthy",),
    ),
    "device plugin gone": (
        lambda: _extended("0", "0"),
        "pending-extended-resource", Step.RESOURCES, ("0 of 0: its device plugin is gone",),
    ),
    "more in use than healthy": (
        lambda: _extended("7", "8", "8"),
        "pending-extended-resource", Step.RESOURCES,
        ("0 of 7 free (1 more unhealthy, pods ask for 1 more than are healthy)",),
    ),
    "counted GPUs behind a taint, beside a node without any": (
        lambda: evidence(
            node("cpu-1"), node("cpu-2"),
            node(
                "gpu-1", allocatable={"nvidia.com/gpu": "8"},
                taints=(Taint(key="nvidia.com/gpu", effect="NoSchedule"),),
            ),
            pod("p", requests={"nvidia.com/gpu": "1"}),
        ),
        "pending-node", Step.NODE,
        ("node gpu-1: taint nvidia.com/gpu:NoSchedule", "node taint nvidia.com/gpu:NoSchedule, it would fit"),
    ),
    "counted GPUs in use, beside nodes without any": (
        lambda: evidence(
            node("cpu-1"), node("cpu-2"), node("gpu-1", allocatable={"nvidia.com/gpu": "8"}),
            pod("w", requests={"nvidia.com/gpu": "8"}, phase="Running", node_name="gpu-1"),
            pod("p", requests={"nvidia.com/gpu": "1"}),
        ),
        "pending-extended-resource", Step.RESOURCES, ("node gpu-1: 1 nvidia.com/gpu needed, 0 of 8 free",),
    ),
    "resource that nobody has": (
        lambda: evidence(
            node("a", allocatable={"nvidia.com/gpu": "8"}), pod("p", requests={"nvidia.com/gpus": "1"})
        ),
        "pending-extended-resource", Step.RESOURCES, ("nearest: nvidia.com/gpu",),
    ),
    "counted GPUs served by DRA": (
        _extended_by_dra, "pending-in-use", Step.FREE, ("request container-0-request-0", "1 of them free"),
    ),
    "a rule that is not looked at": (
        lambda: _one(
            claim(request()),
            pod("p", "c", said="0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."),
        ),
        "pending-other-rule", Step.NODE, ("didn't match pod anti-affinity rules", "it would fit on node a"),
    ),
    "bound by hand": (
        lambda: _one(claim(request()), pod("p", "c", node_name="a")),
        "pending-not-allocated", Step.REFERENCE, ("is not allocated", "spec.nodeName was set by hand"),
    ),
    "not reserved": (
        lambda: _one(holding("a", "gpu-0", name="c"), pod("p", "c", node_name="a")),
        "claim-not-reserved-for-pod", Step.REFERENCE, ("status.reservedFor: empty",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_first_cause_has_the_code_the_step_and_the_words(row: Row) -> None:
    build, code, step, words = row
    said = pod_explained(build())
    shown = text(said, wide=True)
    assert said.causes, shown
    assert (said.causes[0].code, said.step) == (code, step), shown
    assert said.verdict in (Verdict.PENDING, Verdict.ERROR)
    joined = " ".join(shown.split())
    for piece in words:
        assert piece in joined, shown


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_screen_is_enough(row: Row) -> None:
    shown = text(pod_explained(row[0]())).splitlines()
    assert len(shown) <= 40
    assert max(map(len, shown)) <= 150


def test_every_code_is_in_the_findings_table() -> None:
    for _, code, _, _ in ROWS.values():
        assert code in table(), code
    own = {code for code in table() if code.startswith("pending-")}
    shown = {code for _, code, _, _ in ROWS.values()}
    rare = {
        "pending-island",  # behind the gate: told as "apart from that"
        "pending-feature", "pending-claim-refused", "pending-no-evidence", "pending-undecided",
        # test_rules and test_gangs, which read documents
        "pending-host-port", "pending-volume", "pending-spread", "pending-pod-affinity", "pending-gang",
    }  # fmt: skip
    assert own - shown == rare


def test_specs_of_the_table_are_what_they_say() -> None:
    """A template's claim is the same whether it is there already or not."""
    spec: ResourceClaimSpec = _template("t").spec.spec
    assert spec == claim(request()).spec
