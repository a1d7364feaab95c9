"""Values at the edges of the API's rules, by field: what generated writes put where a right value was.

Most fields share the pool of their schema type; those with rules of their own (names, quantities, versions,
expressions, addresses …) have a pool under their JSON name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NAMES: Final = (
    "a", "gpu-0", "A_b", "", "x" * 63, "x" * 64, "a.b", "-a", "a-", "ü", "a/b", "a" * 253, "x" * 254, "a b",
    "a\n", "a..b", "0", "A", "a_b", ".".join(["x" * 63] * 4)[:253], "٣",
)  # fmt: skip
DRIVERS: Final = (
    "gpu.example.com", "GPU.example.com", "x" * 63, "x" * 64, "", "gpu_example", "a..b", "x" * 254, "-a.b",
    "dra.example.com/x", "ſ.example.com", "é.com",
)  # fmt: skip
POOLS: Final = (
    "p", "node-a/gpu", "a/b/c", "/a", "a/", "a//b", "A/b", "x" * 253, "x" * 254, "", "a/" + "x" * 252, "a b",
)  # fmt: skip
ATTRIBUTES: Final = (
    "model", "gpu.example.com/model", "a/b/c", "/x", "x/", "1a", "x" * 32, "x" * 33, "_a", "a-b", "",
    "UPPER.example.com/x", "x" * 64 + "/a", "dra.example.com/" + "y" * 33, "ünï", "a.b/c.d", "é.com/x",
)  # fmt: skip
LABELS: Final = (
    "example.com/key", "key", "Key_1.x", "", "/key", "example.com/", "a/b/c", "x" * 63, "x" * 64, "-a",
    "EXAMPLE.com/key", "example..com/k", "x" * 254 + "/k", "k.", "kéy", "é.com/k", "nvidia.com/gpu",
)  # fmt: skip
LABEL_VALUES: Final = ("v", "", "x" * 63, "x" * 64, "-v", "v_.1", "v v", "ü", "v\n")
QUANTITIES: Final[tuple[Any, ...]] = (
    "1", "0", "-1", "1500m", "2Gi", "10Gi", "8Gi", "1e3", "1E3", "1E", "0.5", "1.", ".5", "+1", "1n", "1u",
    "0.1n", "1e-9", "1e-10", "1e+3", "9223372036854775807", "9223372036854775808", "1Ei", "16Ei", "1e20",
    "100000000000000000000Ei", "-0", "00012", "1.5Gi", "1.0000000001", "1k", "1M", "1Ki", "1.2e3", "12e",
    5, 0, -3, 1.5, 1e21, "-1500m", "1.50", "4Gi", "0.001", "123456789012345678901234567890", "3m",
)  # fmt: skip
UNREADABLE_QUANTITIES: Final[tuple[Any, ...]] = (
    "", " 1", "1 ", "1 Gi", "abc", "1KI", "0x10", "1_000", "--1", "1e", "1ee3", "NaN", "Inf", "1Gi1", True,
    [], {}, "1,5", "١", "1e3Gi", "+", ".", "1e1000",
)  # fmt: skip
VERSIONS: Final = (
    "1.2.3", "v1.2.3", "1.2", "1.2.3.4", "01.2.3", "1.2.3-rc.1", "1.2.3-01", "1.2.3+b.1", "1.2.3-", "",
    "1.2.3+", "99999999999999999999.0.0", "1.2.3-alpha+001", "1.2.3 ", "1.2.3-" + "a" * 58,
    "1.2.3-" + "a" * 59, "1.2.3-ü",
)  # fmt: skip
TEXTS: Final = (
    "H200",
    "",
    "x" * 64,
    "x" * 65,
    "ü" * 32,
    "ü" * 33,
    "a\tb\n",
    '"quoted"',
    "<&>",
    "\u2028",
    "🎉",
)
SELECTORS: Final = (
    "true", "false", "", "device.driver == 'gpu.example.com'", "device.attributes['gpu.example.com'].model",
    "device.attributes['gpu.example.com'].model == 'H200'", "1", "device.", "device.nope", "'a' +",
    "device.capacity['gpu.example.com'].memory.compareTo(quantity('8Gi')) >= 0", "true " * 2049,
    "x" * 10240, "x" * 10241, "true || " * 1200 + "true", "[" * 40 + "]" * 40, "device.allNodes",
    "[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, x + y + z > 0)))",
    "device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, true)))",
    "device.attributes['gpu.example.com'].exists(k, k == 'model')", "ünï == 1", "'\u00fc' == \"ü\"",
    "device.allowMultipleAllocations", "cel.bind(x, 1, x == 1)", "semver('1.2.3') < semver('2.0.0')",
    "device.attributes['gpu.example.com'].version.isLessThan(semver('2.0.0'))", "true\n&& false // note",
    "device.attributes['gpu.example.com'].tags.includes('a')", "dyn(1) == 1", "null", "quantity('x') == 1",
)  # fmt: skip
SHARES: Final = (
    "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-55555555555A", "", "x", "1" * 32,
    "{11111111-2222-4333-8444-555555555555}", "urn:uuid:11111111-2222-4333-8444-555555555555",
    "11111111-2222-4333-8444-555555555555-", "g1111111-2222-4333-8444-555555555555",
    "11111111222243338444555555555555", "00000000-0000-0000-0000-000000000000",
)  # fmt: skip
ADDRESSES: Final = (
    "10.0.0.1/24", "10.0.0.0/8", "2001:db8::1/64", "2001:DB8::1/64", "2001:db8:0:0::1/64", "10.0.0.1",
    "10.0.0.1/33", "::ffff:10.0.0.1/96", "::ffff:10.0.0.1/120", "010.0.0.1/24", "", "10.0.0.1/024", "::1/128",
    "fe80::1%eth0/64", "::/0", "1.2.3/8", "10.0.0.1/-1", "10.0.0.1/ 8", "10.0.0.1/+8", "::1.2.3.4/64", "a/8",
)  # fmt: skip
TIMES: Final[tuple[Any, ...]] = (
    "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+09:00", "2026-01-02T03:04:05.123Z", None,
)  # fmt: skip
UNREADABLE_TIMES: Final[tuple[Any, ...]] = (
    "", "2026-01-02", "2026-01-02 03:04:05Z", "2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z", 5,
    "2026-01-02T24:00:00Z", "2026-01-02T03:04:05", "2026-01-02T03:04:60Z", "2026-01-02t03:04:05z", {},
)  # fmt: skip
DOCUMENTS: Final[tuple[Any, ...]] = (
    {"a": 1}, {}, "x", 1, [1], True, 1.5, {"apiVersion": "v1", "kind": "X"}, {"a": "x" * 10200},
    {"a": "x" * 10240}, {"a": {"b": [None, {}]}}, {"a": "<&>ü"}, None, "", {"a": "ü" * 5110},
)  # fmt: skip
REFERENCES: Final = (
    "gpu", "gpu/a", "other", "gpu/other", "", "gpu/", "/a", "a/b/c", "GPU", "any", "any/small", "any/large",
    "any/nope", "x" * 64, "nic",
)  # fmt: skip
EXTENDED: Final = (
    "example.com/gpu", "gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "x.kubernetes.io/gpu", "",
    "example.com/", "/gpu", "example.com/" + "x" * 63, "example.com/" + "x" * 64, "a/b/c", "Example.com/gpu",
    "x" * 245 + "/g", "x" * 244 + "/g", "example.com/-x", "deviceclass.resource.kubernetes.io/x",
)  # fmt: skip
PROVIDERS: Final = ("", "aws:///x", "gce://y")
API_VERSIONS: Final = ("v1", "", "apps/v1", "a/b/c", "/v1", "v1/", "resource.k8s.io/v1")

BY_FIELD: Final[Mapping[str, tuple[Any, ...]]] = {
    "driver": DRIVERS, "pool": POOLS, "deviceClassName": NAMES, "nodeName": NAMES, "name": NAMES,
    "device": NAMES, "counterSet": NAMES, "matchAttribute": ATTRIBUTES, "distinctAttribute": ATTRIBUTES,
    "partitionTypeAttribute": ATTRIBUTES, "version": VERSIONS, "versions": VERSIONS, "string": TEXTS,
    "strings": TEXTS, "expression": SELECTORS, "shareID": SHARES, "ips": ADDRESSES, "request": REFERENCES,
    "requests": REFERENCES, "extendedResourceName": EXTENDED, "key": LABELS, "value": LABEL_VALUES,
    "values": LABEL_VALUES,
    "effect": ("NoSchedule", "NoExecute", "None", "PreferNoSchedule", "", "noSchedule"),
    "operator": ("Exists", "Equal", "", "In", "NotIn", "DoesNotExist", "Gt", "Lt", "exists", "Foo"),
    "allocationMode": ("ExactCount", "All", "", "all", "Any"),
    "source": ("FromClass", "FromClaim", "", "FromNode"),
    "bindingConditions": LABELS, "bindingFailureConditions": LABELS, "finalizers": (*LABELS, "orphan",
    "foregroundDeletion", "kubernetes", "resource.kubernetes.io/delete-protection"),
    "skipNodeOperations": ("*", "NodePrepareResources", "NodeUnprepareResources", "x", ""),
    "compatibilityGroups": NAMES, "type": (*LABELS, "Ready"), "reason": ("Because", "", "a b", "A_:,b", "A,",
    "1a", "x" * 1024, "x" * 1025), "message": ("m", "", "x" * 32768, "x" * 32769),
    "interfaceName": ("eth0", "", "x" * 256, "x" * 257), "hardwareAddress": ("aa:bb", "x" * 128, "x" * 129),
    "capacityKey": ("memory", "other", ""), "generateName": ("a-", "A-", "-", "x" * 64 + "-", "", "a."),
    "status": ("True", "False", "Unknown", "", "true"), "apiVersion": API_VERSIONS,
    "uid": ("u-1", "", "uid-0"), "resource": ("pods", "", "x"), "providerID": PROVIDERS,
    "resourceClaimName": NAMES, "resourceClaimTemplateName": NAMES, "nominatedNodeName": NAMES,
    "image": ("img", "", " img", "img ", "x" * 300), "podCIDRs": ("10.0.0.0/24", "", "x"),
    "holderIdentity": ("me", ""), "namespace": ("oracle", "", "default"),
}  # fmt: skip
"""JSON name of a field → what it may be given; of a list, what its items may be."""
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "attributes": ATTRIBUTES, "capacity": ATTRIBUTES, "requests": ATTRIBUTES, "consumedCapacity": ATTRIBUTES,
    "counters": NAMES, "labels": LABELS, "annotations": LABELS, "nodeSelector": LABELS,
    "nodeAllocatableResources": ("cpu", "memory", "hugepages-2Mi", "pods", "example.com/x", "", "hugepages-"),
    "allocatable": ("cpu", "memory", "pods", "example.com/gpu"),
}  # fmt: skip
"""JSON name of a map → what its keys may be."""
NUMBERS: Final[tuple[Any, ...]] = (0, 1, -1, 2, 5, 2**31 - 1, -(2**31))
LONG_NUMBERS: Final[tuple[Any, ...]] = (*NUMBERS, 2**63 - 1, -(2**63))
LENGTHS: Final = (0, 1, 1, 2, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129)
SHORT_LENGTHS: Final = (0, 1, 1, 1, 2, 2, 3, 5)
WRONG_TYPES: Final[tuple[Any, ...]] = (
    "text", "", 1, -1, 1.5, 1.0, True, [], {}, ["a"], {"a": "b"}, [None], 2**31, 2**63, 1e100, -0.0, [[]],
    [{}],
)  # fmt: skip
"""Some of them are wrong for any type."""
UNKNOWN: Final = (
    "sepc",
    "foo",
    "",
    "Name",
    "with.dot",
    "with/slash",
    "ü",
    'q"uote',
    "a" * 300,
    "a\nb",
    "[0]",
)
"""Names of fields that no type has."""
