"""One rule at a time: what it says, where it points, and when it keeps silent."""

# ruff: noqa: E501 - tables of manifests, one a line

from __future__ import annotations

from collections.abc import Callable

import pytest

from baro.diagnosis.catalogue import of_documents
from baro.diagnosis.lint import Judged, Target, lint_all
from baro.diagnosis.lint.engine import make_run
from baro.diagnosis.lint.registry import note, rule
from baro.model.findings import table
from baro.model.load import load_bytes

TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    image: x
    resources: {claims: [{name: mine}]}
  resourceClaims:
  - name: mine
    resourceClaimTemplateName: gpus
---
"""
CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mine}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}
---
"""


def slices(*devices: str, name: str = "s", driver: str = "gpu.nvidia.com", count: int = 1) -> str:
    lines = "".join(f"  - {device}\n" for device in devices)
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}}}
spec:
  driver: {driver}
  nodeName: node-a
  pool: {{name: pool, generation: 1, resourceSliceCount: {count}}}
  devices:
{lines}---
"""


def judge(text: str, target: Target | None = None, silenced: str = "") -> tuple[Judged, ...]:
    documents = load_bytes(text.encode(), "f.yaml")
    silent = frozenset({silenced} if silenced else ())
    return lint_all(documents, of_documents(documents), target=target, silenced=silent)


def codes(text: str, target: Target | None = None) -> list[str]:
    return sorted(finding.code for one in judge(text, target) for finding in one.findings)


def messages(text: str) -> str:
    return "\n".join(finding.message for one in judge(text) for finding in one.findings)


def test_a_pod_and_its_template_that_fit_together_give_nothing() -> None:
    assert codes(TEMPLATE + POD + CLASS) == ["class-not-in-files"]
    assert codes(TEMPLATE + POD) == []


def in_deployment(pod: str) -> str:
    spec = pod.partition("spec:\n")[2].replace("---\n", "").replace("\n", "\n    ")
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: d}}
spec:
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
    {spec}
---
"""


def in_cron_job(pod: str) -> str:
    spec = pod.partition("spec:\n")[2].replace("---\n", "").replace("\n", "\n        ")
    return f"""\
apiVersion: batch/v1
kind: CronJob
metadata: {{name: d}}
spec:
  schedule: "@daily"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
        {spec}
---
"""


@pytest.mark.parametrize(
    "made", [lambda pod: pod, in_deployment, in_cron_job], ids=["pod", "deployment", "cronjob"]
)
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("x\n", "x\n", []),
        ("resourceClaimTemplateName: gpus", "resourceClaimTemplateName: gpu", ["claim-not-in-files", "claim-unused"]),
        ("claims: [{name: mine}]", "claims: [{name: mine, request: gpus}]", ["request-unknown"]),
        ("claims: [{name: mine}]", "claims: [{name: other}]", ["manifest-invalid", "pod-claim-unused"]),
        ("resources: {claims: [{name: mine}]}", "resources: {}", ["pod-claim-unused"]),
        ("resources: {", "resources: {limits: {nvidia.com/gpu: 1}, ", ["both-gpu-and-claims"]),
        ("resources: {", "resources: {limits: {cpu: 1}, ", []),
        ("  containers", "  schedulingGates: [{name: baro.dev/placment}]\n  containers", ["gate-unknown"]),
        ("  containers", "  schedulingGates: [{name: baro.dev/placement}]\n  containers", []),
    ],
)  # fmt: skip
def test_slips_in_pods_and_in_what_makes_pods(
    old: str, new: str, expected: list[str], made: Callable[[str], str]
) -> None:
    assert codes(TEMPLATE + made(POD.replace(old, new, 1))) == expected


def test_a_gate_without_claims_waits_for_ever() -> None:
    pod = POD.partition("    resources")[0] + "  schedulingGates: [{name: baro.dev/placement}]\n"
    assert codes(pod) == ["gate-without-claims"]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ("{baro.dev/topology: required}", []),
        ("{baro.dev/topology: requird}", ["topology-annotation"]),
        ("{baro.dev/topolgy: required}", ["annotation-unknown"]),
        ("{example.com/topolgy: required}", []),
    ],
)
def test_annotations_of_the_planner(annotations: str, expected: list[str]) -> None:
    claim = TEMPLATE.replace("Template", "").replace("{spec: {devices", "{devices").replace("]}}}", "]}}")
    assert codes(claim.replace("{name: gpus}", f"{{name: gpus, annotations: {annotations}}}")) == expected


def test_an_annotation_on_the_template_itself_is_read_by_nobody() -> None:
    text = TEMPLATE.replace("{name: gpus}", "{name: gpus, annotations: {baro.dev/topology: required}}")
    assert codes(text) == ["annotation-misplaced"]
    assert "spec.metadata" in messages(text)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{selectors: [{cel: {expression: \"device.driver == 'a'\"}}]}", []),
        ("{}", ["class-selects-everything"]),
        ('{selectors: [{cel: {expression: "false"}}]}', ["exclusive-class-without-selector"]),
        ("{selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].type == 'gpu'\"}}]}", ["unguarded-attribute"]),
    ],
)  # fmt: skip
def test_classes(spec: str, expected: list[str]) -> None:
    head = CLASS.partition("spec:")[0]
    assert codes(f"{head}spec: {spec}\n") == expected


def test_an_exclusive_class_keeps_kube_scheduler_off_and_says_what_baro_takes() -> None:
    hidden = "annotations: {baro.dev/selector: \"device.attributes['gpu.nvidia.com'].model == 'H'\"}"
    text = CLASS.replace("{name: mine}", f"{{name: mine, {hidden}}}")
    found = codes(text)
    assert "exclusive-class-open" in found
    closed = text.replace("device.driver == 'gpu.nvidia.com'", "false")
    assert "exclusive-class-open" not in codes(closed)


def test_a_request_of_a_loose_class_may_meet_devices_of_other_drivers() -> None:
    request = "exactly: {deviceClassName: mine, selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].type == 'gpu'\"}}]}"
    claim = TEMPLATE.replace("exactly: {deviceClassName: gpu.nvidia.com}", request)
    loose = CLASS.replace("device.driver == 'gpu.nvidia.com'", "true")
    assert "unguarded-attribute" in codes(claim + loose)
    assert "unguarded-attribute" not in codes(claim + CLASS)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("count: 1", "count: 2", ["alternative-unreachable"]),
        ("count: 2", "count: 1", []),
        ("count: 1", "allocationMode: All", []),
        ("count: 1, selectors: [{cel: {expression: \"device.driver == 'a'\"}}]", "count: 1", []),
        ("count: 1", "count: 1, selectors: [{cel: {expression: \"device.driver == 'a'\"}}]", ["alternative-unreachable"]),
        ("count: 1", "count: 1, tolerations: [{key: a, operator: Exists}]", []),
    ],
)  # fmt: skip
def test_alternatives_that_are_never_taken(first: str, second: str, expected: list[str]) -> None:
    alternatives = ", ".join(
        f"{{name: {name}, deviceClassName: x, {text}}}" for name, text in (("a", first), ("b", second))
    )
    text = TEMPLATE.replace("exactly: {deviceClassName: gpu.nvidia.com}", f"firstAvailable: [{alternatives}]")
    assert codes(text) == expected
    tied = text.replace("requests: [{", "constraints: [{matchAttribute: a.b/c}], requests: [{")
    assert codes(tied) == []


def test_tolerations_of_taints_that_a_driver_never_sets() -> None:
    request = "exactly: {deviceClassName: gpu.nvidia.com, tolerations: [{key: KEY, operator: Exists}]}"
    text = TEMPLATE.replace("exactly: {deviceClassName: gpu.nvidia.com}", request)
    assert codes(text.replace("KEY", "gpu.nvidia.com/xid")) == []
    assert codes(text.replace("KEY", "example.com/mine")) == []
    assert codes(text.replace("KEY", "gpu.nvidia.com/xids")) == ["toleration-unknown"]
    device = "{name: d, taints: [{key: gpu.nvidia.com/xids, effect: NoSchedule}]}"
    assert "toleration-unknown" not in codes(text.replace("KEY", "gpu.nvidia.com/xids") + slices(device))


def test_admin_access_is_judged_where_the_namespace_is_known() -> None:
    request = "exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}"
    text = TEMPLATE.replace("exactly: {deviceClassName: gpu.nvidia.com}", request)
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {LABEL: 'true'}}\n---\n"
    assert codes(text) == ["admin-access-label"]
    assert codes(space.replace("LABEL", "resource.kubernetes.io/admin-access") + text) == []
    assert codes(space.replace("LABEL", "other") + text) == ["manifest-invalid"]


# --- slices ----------------------------------------------------------------------------------------------


def test_pools_that_do_not_add_up() -> None:
    one, other = slices("{name: a}"), slices("{name: b}", name="t")
    assert codes(one) == []
    assert codes(one + other) == ["pool-inconsistent", "pool-inconsistent"]
    both = one.replace("Count: 1", "Count: 2") + other.replace("Count: 1", "Count: 2")
    assert codes(both) == []
    assert codes(both.replace("{name: b}", "{name: a}")) == ["pool-invalid", "pool-invalid"]
    assert codes(one.replace("Count: 1", "Count: 2")) == ["pool-slices-not-here"]


def test_a_counter_that_no_slice_has_makes_the_pool_invalid() -> None:
    device = "{name: a, consumesCounters: [{counterSet: x, counters: {memory: {value: 1Gi}}}]}"
    assert codes(slices(device)) == ["pool-invalid"]
    counters = slices(name="t", count=2).replace(
        "  devices:\n", "  sharedCounters: [{name: x, counters: {C: {value: 1Gi}}}]\n"
    )
    assert codes(slices(device, count=2) + counters.replace("C:", "memory:")) == []
    assert codes(slices(device, count=2) + counters.replace("C:", "other:")) == ["pool-invalid"]


def test_a_selector_that_no_device_given_matches_names_the_condition() -> None:
    request = "exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].type == 'gpu' && device.attributes['gpu.nvidia.com'].productName == 'NAME'\"}}]}"
    claim = TEMPLATE.replace("exactly: {deviceClassName: gpu.nvidia.com}", request)
    device = (
        "{name: d, attributes: {type: {string: gpu}, productName: {string: Tesla T4}, uuid: {string: a}}}"
    )
    assert codes(claim.replace("NAME", "Tesla T4") + slices(device)) == []
    text = claim.replace("NAME", "Tesla P4") + slices(device)
    assert codes(text) == ["selector-matches-nothing"]
    assert "no device has device.attributes['gpu.nvidia.com'].productName == 'Tesla P4'" in messages(text)
    unique = claim.replace("productName == 'NAME'", "uuid == 'b'")
    assert codes(unique + slices(device)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{taint: {key: a, effect: NoSchedule}}", ["taint-rule-hits-everything"]),
        ("{taint: {key: a, effect: NoExecute}, deviceSelector: {driver: gpu.nvidia.com}}", []),
        ("{taint: {key: a, effect: None}}", []),
        ("{taint: {key: a, effect: NoSchedule}, deviceSelector: {device: x}}", ["taint-rule-hits-nothing"]),
    ],
)
def test_taint_rules(spec: str, expected: list[str]) -> None:
    text = (
        f"apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {{name: r}}\nspec: {spec}\n---\n"
    )
    assert codes(text + slices("{name: d}")) == expected


# --- targets, versions, kinds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "target", "expected"),
    [
        ("v1", None, []),
        ("v1", "1.34", []),
        ("v1beta2", None, ["deprecated-api-version"]),
        ("v1beta2", "1.36", ["api-version-not-served"]),
        ("v1beta2", "1.38", ["api-version-not-served"]),
        ("v1alpha3", None, ["api-version-not-served"]),
        ("v1beta3", None, ["api-version-not-served"]),
    ],
)
def test_api_versions(version: str, target: str | None, expected: list[str]) -> None:
    text = TEMPLATE.replace("k8s.io/v1", f"k8s.io/{version}")
    assert codes(text, Target(kube_version=target)) == expected


def test_a_field_behind_a_gate_is_dropped_without_a_word() -> None:
    device = "{name: d, attributes: {numas: {ints: [0, 1]}, type: {string: a}}}"
    text = slices(device)
    assert codes(text) == ["alpha-field"]
    on = Target(gates=frozenset({"DRAListTypeAttributes"}))
    assert codes(text, on) == []
    tolerating = TEMPLATE.replace(
        "gpu.nvidia.com}", "gpu.nvidia.com, tolerations: [{key: a, operator: Exists}]}"
    )
    assert codes(tolerating) == []
    assert codes(tolerating, Target(kube_version="1.35")) == ["field-dropped"]


def test_kinds_that_are_nobodys_business_are_left_alone() -> None:
    text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {anything: [1, {a: b}]}\n"
    (one,) = judge(text)
    assert (one.notes, one.server) == ((), None)
    assert codes("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: w}\ndata: {a: b}\n") == []


def test_a_kind_of_the_group_that_is_misspelt() -> None:
    assert codes(TEMPLATE.replace("ResourceClaimTemplate", "ResourceClaimTemplates")) == ["kind-unknown"]
    assert codes(TEMPLATE.replace("resource.k8s.io/v1", "v1")) == ["kind-unknown"]


# --- silence ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "# baro: ignore class-selects-everything\n" + CLASS.partition("spec:")[0] + "spec: {}\n",
        CLASS.partition("spec:")[0] + "spec: {}  # baro: ignore class-selects-everything, cel-syntax\n",
        CLASS.partition("spec:")[0] + "# baro: ignore class-selects-everything\nspec: {}\n",
        "# baro: ignore-file class-selects-everything\n---\n"
        + CLASS
        + CLASS.partition("spec:")[0]
        + "spec: {}\n",
    ],
)
def test_a_comment_silences_a_code_where_it_stands(text: str) -> None:
    assert codes(text) == []


def test_a_comment_silences_nothing_else() -> None:
    text = CLASS.partition("spec:")[0] + "spec: {}  # baro: ignore cel-syntax\n"
    assert codes(text) == ["class-selects-everything"]
    assert codes(text.replace("ignore cel-syntax", "ignore")) == ["class-selects-everything"]


def test_an_option_silences_a_code_everywhere() -> None:
    (one,) = judge(CLASS.partition("spec:")[0] + "spec: {}\n", silenced="class-selects-everything")
    assert one.findings == ()


# --- the table of rules ----------------------------------------------------------------------------------


def test_a_rule_says_only_what_the_table_knows() -> None:
    (document,) = load_bytes(CLASS.encode())
    assert rule("Nothing")(lambda manifest, run: iter(())) is not None
    with pytest.raises(Exception, match="no finding has the code 'not-a-code'"):
        note("not-a-code", "x", document.where)
    assert list(make_run([document], of_documents([document])).classes) == ["mine"]


def test_every_type_in_any_place_is_taken_without_a_crash() -> None:
    kinds = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule")
    for kind in (*kinds, "Pod"):
        api = "v1" if kind == "Pod" else "resource.k8s.io/v1"
        for spec in ("1", "[]", "[1]", "'x'", "{devices: 1}", "{devices: [1]}", "{devices: {requests: 1}}",
                     "{devices: {requests: [1, {name: 1, exactly: 1}], constraints: [1, {matchAttribute: 1}]}}",
                     "{spec: [1]}", "{selectors: 1, extendedResourceName: 1}", "{resourceClaims: [1, {source: 1}]}",
                     "{selectors: [1, {cel: 1}, {cel: {expression: 1}}]}", "{pool: 1, driver: 1, devices: [[]]}",
                     "{devices: [{name: 1, attributes: 1, basic: 1, consumesCounters: [1]}], pool: {generation: a}}",
                     "{taint: 1, deviceSelector: 1}", "{containers: [1, {resources: {claims: [1], limits: 1}}]}"):  # fmt: skip
            for metadata in (
                "{name: x}",
                "1",
                "{name: 1, annotations: {baro.dev/topology: 1}, namespace: []}",
            ):
                codes(f"apiVersion: {api}\nkind: {kind}\nmetadata: {metadata}\nspec: {spec}\n")


def test_every_code_that_lint_uses_is_in_the_table() -> None:
    import re
    from pathlib import Path

    import baro.diagnosis.lint as room

    used: set[str] = set()
    for file in Path(room.__file__).parent.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        used |= set(re.findall(r'(?:note|Found|say)\(\s*"([a-z-]+)"', text))
    assert len(used) > 35
    assert used <= table().keys()
