"""``--fix`` in every style of YAML: blocks, folds, quotes, flow, anchors, aliases, merges, several slips.

An independent look: PyYAML reads both texts, and only values that a finding is about may differ.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from baro.diagnosis.catalogue import built_in
from baro.diagnosis.lint import lint_all
from baro.diagnosis.lint.fixing import Fixed, fix
from baro.model.load import load_bytes

GPU = "device.attributes['gpu.nvidia.com']"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"
SLIPS = (
    f"{GPU}.model == 'H100'",
    f"{GPU}.productName == 'NVIDIA-L40S'",
    f"{GPU}.productName.startsWith('A100')",
    f"{MEMORY} >= 40Gi",
    f"{MEMORY}.compareTo(quantity('40GB')) >= 0",
    f"{GPU}.driverVersion.isGreaterThan(semver('535.161.07'))",
    f"{GPU}.architecture == 'hopper'",
    "device.attributes['resource.kubernetes.io'].numaNode == '0'",
    "device.driver = 'gpu.nvidia.com' and device.driver != 'x'",
    f"{GPU}.productName.contains('H100 80GB') && {MEMORY}.compareTo(quantity('80Gi')) >= 0",
)
RIGHT = (
    "device.driver == 'gpu.nvidia.com'",
    f"{GPU}.productName.contains('H100')  ",
    f"{GPU}.type == 'gpu' && {MEMORY}.compareTo(quantity('4Gi')) >= 0",
)
STYLES = ("plain", "single", "double", "literal", "folded", "stripped", "flow")


def written(expression: str, style: str, indent: str) -> str:
    """A selector with the expression in a style of YAML."""
    if style == "flow":
        quoted = expression.strip().replace('"', '\\"')
        return f'{indent}- {{cel: {{expression: "{quoted}"}}}} # flow\n'
    head = f"{indent}- cel:\n{indent}    # about the next\n{indent}    expression:"
    if style == "plain":
        return f"{head} {expression.strip()} # plain\n"
    if style == "single":
        doubled = expression.strip().replace("'", "''")
        return f"{head} '{doubled}'   # single\n"
    if style == "double":
        escaped = expression.strip().replace('"', '\\"')
        return f'{head} "{escaped}"\n'
    mark = {"literal": "|", "folded": ">-", "stripped": "|-"}[style]
    words = expression.strip().split(" && ")
    body = f" &&\n{indent}      ".join(words)
    return f"{head} {mark}\n{indent}      {body}\n"


@st.composite
def claims(draw: st.DrawFn) -> str:
    """A claim with a few requests, some slips, and parts that several requests share."""
    expression = st.sampled_from(SLIPS + RIGHT)
    lines = ["apiVersion: resource.k8s.io/v1\n", "kind: ResourceClaim # a claim\n", "metadata: {name: c}\n"]
    lines += ["spec:\n", "  devices:\n", "    requests:\n"]
    shared = draw(st.sampled_from(("", "alias", "merge")))
    for number in range(draw(st.integers(1, 3))):
        anchor = " &first" if number == 0 and shared else ""
        lines.append(f"    # request {number}\n    - name: r{number}\n      exactly:{anchor}\n")
        lines.append("        deviceClassName: gpu.nvidia.com\n")
        lines.append(f"        count: {draw(st.sampled_from(('2', '!!int 2', '0x2')))} # how many\n")
        if draw(st.booleans()):
            amount = draw(st.sampled_from(("80Gi", "'80Gi'", "4Gi", "900Gi")))
            lines.append(f"        capacity: {{requests: {{memory: {amount}}}}} # how much\n")
        lines.append("        selectors:\n")
        for _ in range(draw(st.integers(1, 2))):
            lines.append(written(draw(expression), draw(st.sampled_from(STYLES)), "        "))
    if shared == "alias":
        lines.append("    - name: again\n      exactly: *first # the same\n")
    elif shared == "merge":
        lines.append("    - name: again\n      exactly:\n        <<: *first\n        count: 1\n")
    lines.append("# the end\n")
    return "".join(lines)


def judge(documents: Any) -> Any:
    return lint_all(documents, built_in())


def mend(text: str) -> Fixed:
    return fix(text, "a.yaml", judge)


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every scalar by its path."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in flat(item, f"{path}.{key}").items()}
    if isinstance(value, list):
        return {k: v for i, item in enumerate(value) for k, v in flat(item, f"{path}[{i}]").items()}
    return {path: value}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate]
)
@given(claims())
def test_only_what_a_finding_is_about_changes_in_any_style(text: str) -> None:
    found = judge(load_bytes(text.encode(), "a.yaml"))
    result = mend(text)
    before, after = flat(yaml.safe_load(text)), flat(yaml.safe_load(result.text))
    assert before.keys() == after.keys()
    changed = {path for path in before if before[path] != after[path]}
    assert all(re.search(r"\.expression$|\.memory$", path) for path in changed)
    assert mend(result.text).text == result.text
    again = judge(load_bytes(result.text.encode(), "a.yaml"))
    mendable = {note.finding.code for one in again for note in one.notes if note.edits}
    assert mendable <= {finding.code for finding in result.left}
    assert re.findall(r"#.*", result.text) == re.findall(r"#.*", text)
    if not any(note.edits for one in found for note in one.notes):
        assert result.text == text
    same = [line for line in result.text.splitlines() if line in text.splitlines()]
    kept = [line for line in text.splitlines() if "expression" not in line and "memory" not in line]
    assert sum("device." not in line for line in same) >= sum("device." not in line for line in kept)
