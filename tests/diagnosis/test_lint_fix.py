"""Files mended in place: only what is meant changes, comments stay, and a second run changes nothing."""

# ruff: noqa: E501 - tables of manifests, one a line

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from baro.cel import check_expression
from baro.diagnosis.catalogue import built_in, of_documents
from baro.diagnosis.lint import Judged, lint_all
from baro.diagnosis.lint.fixing import Fixed, fix
from baro.model.errors import InputError
from baro.model.load import Loaded, load_bytes
from baro.model.textio import Limits, check, replace_file
from baro.model.validation import judge_create
from baro.model.validation.rules import Rules
from tests.support import shared


def judge(documents: Any) -> tuple[Judged, ...]:
    return lint_all(documents, of_documents(documents))


def mend(text: str, file: str = "file.yaml") -> Fixed:
    return fix(text, file, judge)


def codes(text: str, file: str = "file.yaml") -> set[str]:
    return {finding.code for one in judge(load_bytes(text.encode(), file)) for finding in one.findings}


# --- the mission's manifest ------------------------------------------------------------------------------


def test_the_missions_manifest_is_mended_in_its_own_text() -> None:
    inputs, expect = shared.case("049")
    result = mend(inputs["template.yaml"])
    assert (len(result.fixed), result.left) == (5, ())
    (body,) = [document.body for document in load_bytes(result.text.encode())]
    assert not judge_create(body, Rules("1.37"), cel=check_expression).causes
    assert codes(result.text) == set()
    request = body["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert request["selectors"][0]["cel"]["expression"] == expect["fixed_expression"]
    assert body["spec"]["metadata"]["annotations"] == {"baro.dev/topology": "required"}


# --- one mistake at a time -------------------------------------------------------------------------------

CLAIM = """\
# what the team asked for
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: c  # short
  labels: {team: "a", on: 'yes'}
spec:
  devices:
    requests:
    # the GPUs
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com   # whole
        count: 2
"""


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("count: 2", 'count: "2"', "count: 2"),
        ("count: 2", "coutn: 2", "count: 2"),
        ("count: 2", "count: 2\n        allocationMode: All", "allocationMode: All"),
        ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1"),
        ("kind: ResourceClaim", "kind: ResourceClaims", "kind: ResourceClaim\n"),
        ("      exactly:\n        deviceClassName: gpu.nvidia.com   # whole\n        count: 2",
         "      deviceClassName: gpu.nvidia.com   # whole\n      count: 2",
         "      exactly:\n        deviceClassName: gpu.nvidia.com   # whole\n        count: 2"),
        ("    - name: gpu\n      exactly:\n        deviceClassName: gpu.nvidia.com   # whole\n        count: 2",
         "    - deviceClassName: gpu.nvidia.com   # whole\n      name: gpu\n      # how many\n      count: 2",
         "    - exactly:\n        deviceClassName: gpu.nvidia.com   # whole\n        count: 2\n      name: gpu\n      # how many\n"),
    ],
)  # fmt: skip
def test_one_mistake_is_mended_where_it_stands(old: str, new: str, after: str) -> None:
    broken = CLAIM.replace(old, new, 1)
    assert codes(broken)
    result = mend(broken)
    assert after in result.text
    assert codes(result.text) == set()
    assert comments(result.text) == comments(broken)
    assert mend(result.text).text == result.text


FLAT = CLAIM.replace(
    "      exactly:\n        deviceClassName: gpu.nvidia.com   # whole\n        count: 2",
    "      deviceClassName: gpu.nvidia.com   # whole\n      count: 2",
)
EXPRESSION = "device.attributes['gpu.nvidia.com'].productName = 'NVIDIA H200'"
MENDED = EXPRESSION.replace(" = ", " == ")


@pytest.mark.parametrize(
    ("written", "after"),
    [
        (f'"{EXPRESSION}"', f'"{MENDED}"'),
        ("'" + EXPRESSION.replace("'", "''") + "'", "'" + MENDED.replace("'", "''") + "'"),
        (EXPRESSION, MENDED),
        ("|\n              " + EXPRESSION, "|\n              " + MENDED),
        (
            ">-\n              device.attributes['gpu.nvidia.com'].productName\n              = 'NVIDIA H200'",
            ">-\n              device.attributes['gpu.nvidia.com'].productName\n              == 'NVIDIA H200'",
        ),
        (
            "\"device.attributes['gpu.nvidia.com'].productName \\\n                = 'NVIDIA H200'\"",
            "\"device.attributes['gpu.nvidia.com'].productName \\\n                == 'NVIDIA H200'\"",
        ),
        ("|-\n\n              true &&\n              device.driver = 'gpu.nvidia.com'", "|-\n\n              true &&\n              device.driver == 'gpu.nvidia.com'"),
    ],
)  # fmt: skip
def test_an_expression_keeps_its_quotes_and_lines(written: str, after: str) -> None:
    selectors = f"        selectors:\n        - cel:\n            expression: {written}  # which\n"
    if "|" in written[:2] or ">" in written[:2]:
        selectors = selectors.replace("  # which", "")
    broken = CLAIM + selectors
    result = mend(broken)
    assert after in result.text
    assert comments(result.text) == comments(broken)
    assert codes(result.text) == set()


def test_json_stays_json() -> None:
    (document,) = load_bytes(CLAIM.replace("count: 2", 'count: "2"').encode())
    body = {**document.body, "apiVersion": "resource.k8s.io/v1beta2"}
    for text in (json.dumps(body), json.dumps(body, indent=2)):
        result = mend(text, "file.json")
        assert json.loads(result.text)["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2
        assert result.text.count("\n") == text.count("\n")


def test_windows_line_ends_stay() -> None:
    broken = FLAT.replace("\n", "\r\n")
    result = mend(broken)
    assert "exactly:\r\n" in result.text
    assert result.text.count("\n") == result.text.count("\r\n")
    assert codes(result.text) == set()


def test_a_word_that_yaml_takes_for_a_boolean_gets_its_quotes() -> None:
    result = mend(
        CLAIM.replace("name: c ", "name: n ").replace(
            "deviceClassName: gpu.nvidia.com", "deviceClassName: on"
        )
    )
    assert 'name: "n"  # short' in result.text
    assert 'deviceClassName: "on"' in result.text


def test_an_alias_that_means_two_things_is_left_alone_and_said() -> None:
    text = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, annotations: {note: &n "2"}}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: *n}}]}}
"""
    result = mend(text)
    assert result.text == text
    assert [finding.code for finding in result.left] == ["manifest-decoding"]


def test_an_anchor_that_means_one_thing_is_mended_for_all_its_aliases() -> None:
    text = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - name: a
      exactly: {deviceClassName: gpu.nvidia.com, count: &n "2"}  # two
    - name: b
      exactly: {deviceClassName: gpu.nvidia.com, count: *n}
"""
    result = mend(text)
    assert "count: &n 2}  # two" in result.text
    assert codes(result.text) == set()


def test_documents_that_are_fine_keep_every_character() -> None:
    text = f"---\n# one\n{CLAIM}---\n\n{CLAIM.replace('count: 2', 'coutn: 2')}...\n---\n{CLAIM}"
    result = mend(text)
    assert result.text == text.replace("coutn", "count")


def test_lists_are_mended_inside() -> None:
    item = CLAIM.replace("count: 2", "coutn: 2").replace("\n", "\n  ").rstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n- {item}\n"
    assert codes(mend(text).text) == set()


def test_a_slice_of_v1beta1_loses_its_wrapper() -> None:
    text = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: x.example.com
  nodeName: node-a
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices:
  - name: a
    basic:
      # what it is
      attributes:
        type: {string: gpu}
      capacity:
        memory: {value: 80Gi}  # large
  - basic: {attributes: {type: {string: gpu}}}
    name: b
"""
    result = mend(text)
    devices = yaml.safe_load(result.text)["spec"]["devices"]
    assert devices[0] == {
        "name": "a",
        "attributes": {"type": {"string": "gpu"}},
        "capacity": {"memory": {"value": "80Gi"}},
    }
    assert devices[1] == {"name": "b", "attributes": {"type": {"string": "gpu"}}}
    assert comments(result.text) == comments(text)
    assert codes(result.text) == set()


LOST = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: c
  annotations: ANNOTATIONS
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]
    constraints:
    - matchAttribute: gpu.nvidia.com/nvlinkDomain  # the island
    - matchAttribute: gpu.nvidia.com/clique
"""


@pytest.mark.parametrize("annotations", ["{a: b}", "{}", "\n    a: b", "&x {a: b}"])
def test_a_constraint_goes_only_together_with_what_takes_its_place(annotations: str) -> None:
    result = mend(LOST.replace("ANNOTATIONS", annotations))
    body = yaml.safe_load(result.text)
    assert "constraints" not in body["spec"]["devices"]
    assert body["metadata"]["annotations"]["baro.dev/topology"] == "required"


def test_half_of_a_change_is_not_made() -> None:
    text = LOST.replace("ANNOTATIONS", "*x").replace("name: c", "name: c\n  labels: &x {a: b}")
    result = mend(text)
    assert result.text == text
    assert {finding.code for finding in result.left} == {"unknown-constraint-attribute"}


# --- files -----------------------------------------------------------------------------------------------


def test_a_file_that_changed_since_it_was_read_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\n")
    text = check(file.read_bytes(), str(file), Limits())
    file.write_text("a: 2\n")
    with pytest.raises(InputError, match="changed since it was read"):
        replace_file(file, text, "a: 3\n")
    assert file.read_text() == "a: 2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_encoding_permissions_and_links_stay(encoding: str, tmp_path: Path) -> None:
    file, link = tmp_path / "a.yaml", tmp_path / "link.yaml"
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    file.write_bytes(mark + "a: é\r\n".encode(encoding))
    file.chmod(0o640)
    link.symlink_to(file)
    text = check(link.read_bytes(), str(link), Limits())
    replace_file(link, text, "a: ü\r\n")
    assert link.is_symlink()
    assert file.read_bytes() == mark + "a: ü\r\n".encode(encoding)
    assert file.stat().st_mode & 0o777 == 0o640


# --- any manifest, any mistakes --------------------------------------------------------------------------


def comments(text: str) -> list[str]:
    """The comments of a text whose strings hold no ``#``, in order of the alphabet."""
    return sorted(match.strip() for match in re.findall(r"#.*", text))


GOOD = [
    "device.driver == 'gpu.nvidia.com'",
    "device.attributes['gpu.nvidia.com'].productName.contains('H100')",
    "device.attributes['resource.kubernetes.io'].numaNode == 0",
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
]
SLIPS = [
    "device.driver = 'gpu.nvidia.com'",
    "device.attributes['gpu.nvidia.com'].model == 'H100'",
    "device.attributes['resource.kubernetes.io'].numaNode == '0'",
    "device.attributes['gpu.nvidia.com'].architecture == \"hopper\"",
    "device.capacity['gpu.nvidia.com'].memory >= 80Gi",
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0",
    "device.driver == 'gpu.nvidia.com' and device.attributes['gpu.nvidia.com'].numaNode == 1",
]


@st.composite
def requests(draw: st.DrawFn, flat: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"deviceClassName": "gpu.nvidia.com"}
    found = draw(st.lists(st.sampled_from(GOOD + SLIPS), max_size=3))
    if found:
        body["selectors"] = [
            {"expression": text} if draw(st.integers(0, 5)) == 0 else {"cel": {"expression": text}}
            for text in found
        ]
    count = draw(st.sampled_from([None, 1, 4, "4"]))
    if count is not None:
        body["count"] = count
    if draw(st.booleans()):
        body["allocationMode"] = "ExactCount"
    keys = draw(st.permutations(list(body)))
    body = {key: body[key] for key in keys}
    name = draw(st.from_regex(r"[a-z]{1,8}", fullmatch=True))
    if not flat:
        return {"name": name, "exactly": body}
    entries = list(body.items())
    entries.insert(draw(st.integers(0, len(entries))), ("name", name))
    return dict(entries)


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    version = draw(st.sampled_from(["v1", "v1beta1", "v1beta2"]))
    flat = draw(st.booleans()) if version != "v1beta1" else True
    found = draw(st.lists(requests(flat), min_size=1, max_size=3, unique_by=lambda one: one["name"]))
    devices: dict[str, Any] = {"requests": found}
    attribute = draw(
        st.sampled_from(
            [
                None,
                "gpu.nvidia.com/nvlinkDomain",
                "gpu.nvidia.com/numaNode",
                "resource.kubernetes.io/pcieRoot",
            ]
        )
    )
    if attribute:
        devices["constraints"] = [{"requests": [found[0]["name"]], "matchAttribute": attribute}]
    template = draw(st.booleans())
    spec: dict[str, Any] = {"devices": devices}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "metadata": {"name": "c", "labels": {"team": "on", "number": "7"}},
        "spec": {"spec": spec} if template else spec,
    }


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str]:
    """A manifest as people write it: block or flow or both, any quotes, comments, line ends; or JSON."""
    body = draw(manifests())
    style = draw(st.sampled_from(["block", "mixed", "flow", "json", "pretty"]))
    if style in ("json", "pretty"):
        return json.dumps(body, indent=2 if style == "pretty" else None), "file.json"
    quotes = draw(st.sampled_from([None, "'", '"', "|", ">"]))
    flow = {"block": False, "mixed": None, "flow": True}[style]
    width = draw(st.sampled_from([40, 1000]))
    text = yaml.dump(body, sort_keys=False, default_flow_style=flow, default_style=quotes, width=width)
    if style == "block" and quotes not in ("|", ">") and width == 1000:
        lines = text.splitlines()
        for number in sorted(draw(st.sets(st.integers(0, len(lines) - 1), max_size=4)), reverse=True):
            if draw(st.booleans()):
                lines[number] += f"  # note {number}"
            else:
                blanks = len(lines[number]) - len(lines[number].lstrip())
                lines.insert(number, " " * blanks + f"# above {number}")
        text = "\n".join(lines) + "\n"
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text, "file.yaml"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate]
)
@given(texts())
def test_what_can_be_mended_is_mended_and_nothing_else_changes(pair: tuple[str, str]) -> None:
    text, file = pair
    before = yaml.safe_load(text)
    result = mend(text, file)
    after = yaml.safe_load(result.text)
    fixed = {finding.code for finding in result.fixed}
    assert result.left == ()
    assert not codes(result.text, file) & fixed
    kept = text if "constraints" in result.text else re.sub(r"(?s)\n[^\n]*constraints.*", "\n", text)
    assert set(comments(kept)) <= set(comments(result.text)) <= set(comments(text))
    assert mend(result.text, file).text == result.text
    assert {**after["metadata"], "annotations": 0} == {**before["metadata"], "annotations": 0}
    assert after["kind"] == before["kind"]
    assert [names(request) for request in requests_of(after)] == [
        names(request) for request in requests_of(before)
    ]
    if text.count("\r\n"):
        assert result.text.count("\n") == result.text.count("\r\n")
    (document,) = load_bytes(result.text.encode(), file)
    assert not [note for note in judge([document])[0].notes if note.server]


def requests_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    spec = body["spec"]
    found: list[dict[str, Any]] = (spec["spec"] if body["kind"].endswith("Template") else spec)["devices"][
        "requests"
    ]
    return found


def names(request: dict[str, Any]) -> tuple[Any, ...]:
    fields = {**request, **request.get("exactly", {})}
    return request["name"], fields["deviceClassName"], len(fields.get("selectors", ()))


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="ab:-[]{}\"'|>#&*!% \n\r\té", max_size=80))
def test_no_garbage_makes_the_fixer_crash(text: str) -> None:
    try:
        result = mend(CLAIM + text)
    except InputError:
        return
    assert isinstance(result.text, str)


def test_ignored_findings_are_not_mended() -> None:
    broken = CLAIM.replace("        count: 2", "        # baro: ignore manifest-decoding\n        coutn: 2")
    assert mend(broken).text == broken


def test_a_document_without_a_text_has_nothing_to_rewrite() -> None:
    (judged,) = lint_all(
        [Loaded({"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass"})], built_in()
    )
    assert judged.document.source is None
