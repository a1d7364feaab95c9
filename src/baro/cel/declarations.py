"""Every function that a device selector may call: its overloads and their types.

One line per overload: ``name | id | argument types | result``, with ``-`` for no arguments; a leading dot
marks a method (the first type is the target). Capital letters are type parameters. The order of the overloads
of one name is upstream's: it decides what an operand of unknown type is taken to be. Source of the set: the
CEL environment of Kubernetes 1.37 (base environment of the API server plus ``cel.bind``); the meaning lives
in ``functions``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import msgspec

from baro.cel import types
from baro.cel.types import Type

NAMED = {
    "bool": types.BOOL, "int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "string": types.STRING,
    "bytes": types.BYTES, "null": types.NULL, "dyn": types.DYN, "duration": types.DURATION,
    "timestamp": types.TIMESTAMP, "quantity": types.struct("kubernetes.Quantity"),
    "semver": types.struct("kubernetes.Semver"), "url": types.struct("kubernetes.URL"),
    "ip": types.opaque("net.IP"), "cidr": types.opaque("net.CIDR"),
    "format": types.struct("kubernetes.NamedFormat"),
} | {
    name: types.struct(f"kubernetes.authorization.{name}")
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
}  # fmt: skip

_ORDERED = [
    *("bool", "int", "int-double", "int-uint", "uint", "uint-double", "uint-int"),
    *("double", "double-int", "double-uint", "string", "bytes", "timestamp", "duration"),
]
"""Types that can be compared for order, and pairs of them."""
_SORTABLE = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
_TIME_PARTS = [
    "FullYear",
    "Month",
    "DayOfYear",
    "DayOfMonth",
    "Date",
    "DayOfWeek",
    "Hours",
    "Minutes",
    "Seconds",
    "Milliseconds",
]
_DURATION_PARTS = ["Hours", "Minutes", "Seconds", "Milliseconds"]
_FORMATS = [
    "byte",
    "date",
    "datetime",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "labelValue",
    "qualifiedName",
    "uri",
    "uuid",
]

_STANDARD = """
!_ | logical_not | bool | bool
-_ | negate_double | double | double
-_ | negate_int64 | int | int
@in | in_list | A, list(A) | bool
@in | in_map | A, map(A, B) | bool
@not_strictly_false | not_strictly_false | bool | bool
_!=_ | not_equals | A, A | bool
_==_ | equals | A, A | bool
_%_ | modulo_int64 | int, int | int
_%_ | modulo_uint64 | uint, uint | uint
_&&_ | logical_and | bool, bool | bool
_||_ | logical_or | bool, bool | bool
_*_ | multiply_double | double, double | double
_*_ | multiply_int64 | int, int | int
_*_ | multiply_uint64 | uint, uint | uint
_/_ | divide_double | double, double | double
_/_ | divide_int64 | int, int | int
_/_ | divide_uint64 | uint, uint | uint
_+_ | add_bytes | bytes, bytes | bytes
_+_ | add_double | double, double | double
_+_ | add_duration_duration | duration, duration | duration
_+_ | add_duration_timestamp | duration, timestamp | timestamp
_+_ | add_timestamp_duration | timestamp, duration | timestamp
_+_ | add_int64 | int, int | int
_+_ | add_list | list(A), list(A) | list(A)
_+_ | add_string | string, string | string
_+_ | add_uint64 | uint, uint | uint
_-_ | subtract_double | double, double | double
_-_ | subtract_duration_duration | duration, duration | duration
_-_ | subtract_int64 | int, int | int
_-_ | subtract_timestamp_duration | timestamp, duration | timestamp
_-_ | subtract_timestamp_timestamp | timestamp, timestamp | duration
_-_ | subtract_uint64 | uint, uint | uint
_?_:_ | conditional | bool, A, A | A
_[_] | index_list | list(A), int | A
_[_] | index_map | map(A, B), A | B
_[_] | optional_list_index_int | optional(list(V)), int | optional(V)
_[_] | optional_map_index_value | optional(map(K, V)), K | optional(V)
_[?_] | list_optindex_optional_int | list(V), int | optional(V)
_[?_] | optional_list_optindex_optional_int | optional(list(V)), int | optional(V)
_[?_] | map_optindex_optional_value | map(K, V), K | optional(V)
_[?_] | optional_map_optindex_optional_value | optional(map(K, V)), K | optional(V)
bool | bool_to_bool | bool | bool
bool | string_to_bool | string | bool
bytes | bytes_to_bytes | bytes | bytes
bytes | string_to_bytes | string | bytes
double | double_to_double | double | double
double | int64_to_double | int | double
double | string_to_double | string | double
double | uint64_to_double | uint | double
duration | duration_to_duration | duration | duration
duration | string_to_duration | string | duration
dyn | to_dyn | A | dyn
int | int64_to_int64 | int | int
int | double_to_int64 | double | int
int | duration_to_int64 | duration | int
int | string_to_int64 | string | int
int | timestamp_to_int64 | timestamp | int
int | uint64_to_int64 | uint | int
string | string_to_string | string | string
string | bool_to_string | bool | string
string | bytes_to_string | bytes | string
string | double_to_string | double | string
string | duration_to_string | duration | string
string | int64_to_string | int | string
string | timestamp_to_string | timestamp | string
string | uint64_to_string | uint | string
string | ip_to_string | ip | string
string | cidr_to_string | cidr | string
timestamp | timestamp_to_timestamp | timestamp | timestamp
timestamp | int64_to_timestamp | int | timestamp
timestamp | string_to_timestamp | string | timestamp
type | type | A | type(A)
uint | uint64_to_uint64 | uint | uint
uint | double_to_uint64 | double | uint
uint | int64_to_uint64 | int | uint
uint | string_to_uint64 | string | uint
size | size_bytes | bytes | int
.size | bytes_size | bytes | int
size | size_list | list(A) | int
.size | list_size | list(A) | int
size | size_map | map(A, B) | int
.size | map_size | map(A, B) | int
size | size_string | string | int
.size | string_size | string | int
.contains | contains_string | string, string | bool
.endsWith | ends_with_string | string, string | bool
.startsWith | starts_with_string | string, string | bool
matches | matches | string, string | bool
.matches | matches_string | string, string | bool
optional.none | optional_none | - | optional(V)
optional.of | optional_of | V | optional(V)
optional.ofNonZeroValue | optional_ofNonZeroValue | V | optional(V)
optional.unwrap | optional_unwrap | list(optional(V)) | list(V)
.unwrapOpt | optional_unwrapOpt | list(optional(V)) | list(V)
.hasValue | optional_hasValue | optional(V) | bool
.value | optional_value | optional(V) | V
.or | optional_or_optional | optional(V), optional(V) | optional(V)
.orValue | optional_orValue_value | optional(V), V | V
"""

_LIBRARIES = """
cel.@mapInsert | @mapInsert_map_key_value | map(K, V), K, V | map(K, V)
cel.@mapInsert | @mapInsert_map_map | map(K, V), map(K, V) | map(K, V)
.charAt | string_char_at_int | string, int | string
.format | string_format | string, list(dyn) | string
.indexOf | string_index_of_string | string, string | int
.indexOf | string_index_of_string_int | string, string, int | int
.indexOf | list_a_index_of_int | list(A), A | int
.lastIndexOf | string_last_index_of_string | string, string | int
.lastIndexOf | string_last_index_of_string_int | string, string, int | int
.lastIndexOf | list_a_last_index_of_int | list(A), A | int
.join | list_join | list(string) | string
.join | list_join_string | list(string), string | string
.lowerAscii | string_lower_ascii | string | string
.upperAscii | string_upper_ascii | string | string
.replace | string_replace_string_string | string, string, string | string
.replace | string_replace_string_string_int | string, string, string, int | string
.split | string_split_string | string, string | list(string)
.split | string_split_string_int | string, string, int | list(string)
.substring | string_substring_int | string, int | string
.substring | string_substring_int_int | string, int, int | string
.trim | string_trim | string | string
strings.quote | strings_quote | string | string
.find | string_find_string | string, string | string
.findAll | string_find_all_string | string, string | list(string)
.findAll | string_find_all_string_int | string, string, int | list(string)
.distinct | list_distinct | list(T) | list(T)
.first | list_first | list(V) | optional(V)
.last | list_last | list(V) | optional(V)
.flatten | list_flatten | list(list(T)) | list(T)
.flatten | list_flatten_int | list(dyn), int | list(dyn)
.reverse | list_reverse | list(T) | list(T)
.slice | list_slice | list(T), int, int | list(T)
lists.range | lists_range | int | list(int)
sets.contains | list_sets_contains_list | list(T), list(T) | bool
sets.equivalent | list_sets_equivalent_list | list(T), list(T) | bool
sets.intersects | list_sets_intersects_list | list(T), list(T) | bool
quantity | string_to_quantity | string | quantity
isQuantity | is_quantity_string | string | bool
.add | quantity_add | quantity, quantity | quantity
.add | quantity_add_int | quantity, int | quantity
.sub | quantity_sub | quantity, quantity | quantity
.sub | quantity_sub_int | quantity, int | quantity
.asApproximateFloat | quantity_get_float | quantity | double
.asInteger | quantity_get_int | quantity | int
.isInteger | quantity_is_integer | quantity | bool
sign | quantity_sign | quantity | int
.compareTo | quantity_compare_to | quantity, quantity | int
.compareTo | semver_compare_to | semver, semver | int
.isGreaterThan | quantity_is_greater_than | quantity, quantity | bool
.isGreaterThan | semver_is_greater_than | semver, semver | bool
.isLessThan | quantity_is_less_than | quantity, quantity | bool
.isLessThan | semver_is_less_than | semver, semver | bool
semver | string_to_semver | string | semver
semver | string_bool_to_semver | string, bool | semver
isSemver | is_semver_string | string | bool
isSemver | is_semver_string_bool | string, bool | bool
.major | semver_major | semver | int
.minor | semver_minor | semver | int
.patch | semver_patch | semver | int
url | string_to_url | string | url
isURL | is_url_string | string | bool
.getScheme | url_get_scheme | url | string
.getHost | url_get_host | url | string
.getHostname | url_get_hostname | url | string
.getPort | url_get_port | url | string
.getEscapedPath | url_get_escaped_path | url | string
.getQuery | url_get_query | url | map(string, list(string))
ip | string_to_ip | string | ip
.ip | cidr_ip | cidr | ip
isIP | is_ip | string | bool
ip.isCanonical | ip_is_canonical | string | bool
.family | ip_family | ip | int
.isGlobalUnicast | ip_is_global_unicast | ip | bool
.isLinkLocalMulticast | ip_is_link_local_multicast | ip | bool
.isLinkLocalUnicast | ip_is_link_local_unicast | ip | bool
.isLoopback | ip_is_loopback | ip | bool
.isUnspecified | ip_is_unspecified | ip | bool
cidr | string_to_cidr | string | cidr
isCIDR | is_cidr | string | bool
.containsCIDR | cidr_contains_cidr_string | cidr, string | bool
.containsCIDR | cidr_contains_cidr | cidr, cidr | bool
.containsIP | cidr_contains_ip_string | cidr, string | bool
.containsIP | cidr_contains_ip_ip | cidr, ip | bool
.masked | cidr_masked | cidr | cidr
.prefixLength | cidr_prefix_length | cidr | int
format.named | format-named | string | optional(format)
.validate | format-validate | format, string | optional(list(string))
"""

_AUTHORIZATION = """
.path | authorizer_path | Authorizer, string | PathCheck
.group | authorizer_group | Authorizer, string | GroupCheck
.serviceAccount | authorizer_serviceaccount | Authorizer, string, string | Authorizer
.resource | groupcheck_resource | GroupCheck, string | ResourceCheck
.subresource | resourcecheck_subresource | ResourceCheck, string | ResourceCheck
.namespace | resourcecheck_namespace | ResourceCheck, string | ResourceCheck
.name | resourcecheck_name | ResourceCheck, string | ResourceCheck
.fieldSelector | authorizer_fieldselector | ResourceCheck, string | ResourceCheck
.labelSelector | authorizer_labelselector | ResourceCheck, string | ResourceCheck
.check | pathcheck_check | PathCheck, string | Decision
.check | resourcecheck_check | ResourceCheck, string | Decision
.allowed | decision_allowed | Decision | bool
.errored | decision_errored | Decision | bool
.error | decision_error | Decision | string
.reason | decision_reason | Decision | string
"""
# No device selector can get at an authorizer, but the names are declared, which shows in messages.

_OLD_LISTS = (
    ".indexOf | list_a_index_of_int | list(A), A | int",
    ".lastIndexOf | list_a_last_index_of_int | list(A), A | int",
)
_INCLUDES = ".includes | list_includes_dyn_dyn | dyn, dyn | bool"


class Overload(msgspec.Struct, frozen=True):
    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: frozenset[str]


Functions = dict[str, tuple[Overload, ...]]


def _generated() -> list[str]:
    lines = []
    for operator, word in (("<", "less"), ("<=", "less_equals"), (">", "greater"), (">=", "greater_equals")):
        for kind in _ORDERED:
            first, _, second = kind.partition("-")
            suffix = kind.replace("-", "_")
            lines.append(f"_{operator}_ | {word}_{suffix} | {first}, {second or first} | bool")
    for part in _TIME_PARTS:
        lines.append(f".get{part} | timestamp_to_{part} | timestamp | int")
        lines.append(f".get{part} | timestamp_to_{part}_tz | timestamp, string | int")
    lines += [f".get{part} | duration_to_{part.lower()} | duration | int" for part in _DURATION_PARTS]
    for kind in _SORTABLE:
        lines.append(f".isSorted | list_{kind}_is_sorted_bool | list({kind}) | bool")
        lines.append(f".sort | list_{kind}_sort | list({kind}) | list({kind})")
        lines.append(f".min | list_{kind}_min_{kind} | list({kind}) | {kind}")
        lines.append(f".max | list_{kind}_max_{kind} | list({kind}) | {kind}")
        lines.append(f".@sortByAssociatedKeys | list_{kind}_sortBy | list(T), list({kind}) | list(T)")
    lines += [
        f".sum | list_{kind}_sum_{kind} | list({kind}) | {kind}" for kind in [*_SORTABLE[:3], "duration"]
    ]
    lines += [f"format.{name} | format.{name} | - | format" for name in _FORMATS]
    return lines


def _split(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [part.strip() for part in [*parts, current] if part.strip()]


def _type(text: str) -> Type:
    match = re.fullmatch(r"(\w+)\((.*)\)", text)
    if match is None:
        return NAMED[text] if text in NAMED else types.param(text)
    params = [_type(part) for part in _split(match[2])]
    if match[1] == "map":
        return types.map_of(params[0], params[1])
    make: Callable[[Type], Type] = {
        "list": types.list_of, "optional": types.optional_of, "type": types.type_of,
    }[match[1]]  # fmt: skip
    return make(params[0])


@functools.cache
def functions(with_includes: bool) -> Functions:
    """All functions by name; ``includes`` only exists for stored expressions (feature gate)."""
    found: dict[str, list[Overload]] = {}
    lines = [
        *_STANDARD.splitlines(),
        *_generated(),
        *_LIBRARIES.splitlines(),
        *_AUTHORIZATION.splitlines(),
        _INCLUDES * with_includes,
    ]
    if not with_includes:  # the older library of lists, which comes before the one of strings
        lines = [line for line in lines if line in _OLD_LISTS] + [
            line for line in lines if line not in _OLD_LISTS
        ]
    for line in filter(None, lines):
        name, identifier, args, result = (part.strip() for part in line.split(" | "))
        member, name = name.startswith("."), name.removeprefix(".")
        arg_types = () if args == "-" else tuple(_type(part) for part in _split(args))
        params = frozenset(re.findall(r"\b[A-Z]\b", f"{args} {result}"))
        found.setdefault(name, []).append(Overload(identifier, member, arg_types, _type(result), params))
    return {name: tuple(overloads) for name, overloads in found.items()}
