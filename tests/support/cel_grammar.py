"""What a random CEL expression is made of: templates by result type, and leaves.

A hole ``‹int›`` is filled with an expression of that type, ``$int`` declares a variable of that type for the
rest of the template. ``T`` is the parameter of the result's type, ``U`` any type, the same in one template.
``list:T``, ``opt:T`` and ``map:T`` (string keys) are the parametric types. Each group of templates can be
left out, since other implementations of CEL lack some.
"""

from __future__ import annotations

Templates = dict[str, tuple[str, ...]]

BASE = (
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "timestamp",
    "duration",
    "null",
)
KUBERNETES = ("quantity", "semver", "url", "ip", "cidr")

STANDARD: Templates = {
    "bool": (
        "‹bool› && ‹bool›", "‹bool› || ‹bool›", "!‹bool›", "‹bool› && ‹bool› || ‹bool›", "‹U› == ‹U›",
        "‹U› != ‹U›", "‹U› in ‹list:U›", "‹string› in ‹map:U›", "‹dyn› == ‹U›", "‹U› != ‹dyn›",
        "‹dyn› in ‹list:U›", "‹int› < ‹int›", "‹double› > ‹double›", "‹string› < ‹string›",
        "‹bytes› >= ‹bytes›", "‹timestamp› < ‹timestamp›", "‹duration› >= ‹duration›", "‹bool› < ‹bool›",
        "‹dyn› < ‹int›", "‹dyn› >= ‹dyn›", "‹string›.contains(‹string›)", "‹string›.startsWith(‹string›)",
        "‹string›.endsWith(‹string›)", "‹string›.matches(‹pattern›)", "matches(‹string›, ‹pattern›)",
        "bool(‹string›)", "‹list:U›.all($U, ‹bool›)", "‹list:U›.exists($U, ‹bool›)",
        "‹list:U›.exists_one($U, ‹bool›)", "‹map:U›.all($string, ‹bool›)",
        "‹map:U›.exists_one($string, ‹bool›)", "has(‹map:U›.key)", "type(‹U›) == ‹type›",
        "type(‹dyn›) == type(‹U›)", "‹dyn› && ‹bool›", "‹bool› || ‹dyn›", "dyn(‹U›) == ‹int›",
    ),
    "int": (
        "‹int› + ‹int›", "‹int› - ‹int›", "‹int› * ‹int›", "‹int› / ‹int›", "‹int› % ‹int›", "-‹int›",
        "size(‹string›)", "‹string›.size()", "size(‹list:U›)", "‹list:U›.size()", "‹map:U›.size()",
        "size(‹bytes›)", "int(‹string›)", "int(‹double›)", "int(‹uint›)", "int(‹timestamp›)", "int(‹dyn›)",
        "‹dyn› + ‹int›", "‹timestamp›.getFullYear()", "‹timestamp›.getDayOfWeek(‹zone›)",
        "‹timestamp›.getHours()", "‹duration›.getSeconds()", "‹duration›.getHours()",
        "‹timestamp›.getMilliseconds()", "‹timestamp›.getDayOfYear()", "‹timestamp›.getDate(‹zone›)",
    ),
    "uint": (
        "‹uint› + ‹uint›", "‹uint› - ‹uint›", "‹uint› * ‹uint›", "‹uint› / ‹uint›", "‹uint› % ‹uint›",
        "uint(‹int›)", "uint(‹double›)", "uint(‹string›)",
    ),
    "double": (
        "‹double› + ‹double›", "‹double› - ‹double›", "‹double› * ‹double›", "‹double› / ‹double›",
        "-‹double›", "double(‹int›)", "double(‹uint›)", "double(‹string›)",
    ),
    "string": (
        "‹string› + ‹string›", "string(‹int›)", "string(‹uint›)", "string(‹double›)", "string(‹bool›)",
        "string(‹bytes›)", "string(‹timestamp›)", "string(‹duration›)", "string(‹dyn›)", "string(‹string›)",
    ),
    "bytes": ("‹bytes› + ‹bytes›", "bytes(‹string›)"),
    "timestamp": (
        "‹timestamp› + ‹duration›", "‹duration› + ‹timestamp›", "‹timestamp› - ‹duration›",
        "timestamp(‹int›)", "timestamp(‹moment›)",
    ),
    "duration": (
        "‹duration› + ‹duration›", "‹duration› - ‹duration›", "‹timestamp› - ‹timestamp›",
        "duration(‹span›)",
    ),
    "list:T": (
        "[‹T›]", "[‹T›, ‹T›]", "[‹T›, ‹T›, ‹T›]", "‹list:T› + ‹list:T›", "‹list:T›.filter($T, ‹bool›)",
        "‹list:U›.map($U, ‹T›)", "‹list:U›.map($U, ‹bool›, ‹T›)", "‹map:U›.map($string, ‹T›)",
    ),
    "map:T": ("{‹string›: ‹T›}", "{‹string›: ‹T›, 'key': ‹T›}", "{'a': ‹T›, 'key': ‹T›}"),
    "type": ("type(‹U›)", "type(‹dyn›)", "type(‹list:U›)"),
    "dyn": ("dyn(‹U›)", "dyn(‹list:U›)", "dyn(‹map:U›)"),
    "T": (
        "‹bool› ? ‹T› : ‹T›", "‹list:T›[‹int›]", "‹list:T›[0]", "‹map:T›[‹string›]", "‹map:T›.key",
        "[‹T›, ‹T›][‹int›]",
    ),
}  # fmt: skip

MIXED_NUMBERS: Templates = {
    "bool": (
        "‹int› >= ‹double›", "‹uint› < ‹int›", "‹double› <= ‹uint›", "‹int› != ‹dyn›",
        "dyn(‹uint›) == ‹double›",
    ),
}  # fmt: skip

BIND: Templates = {
    "T": ("cel.bind($U, ‹U›, ‹T›)",),
}  # fmt: skip

OPTIONAL: Templates = {
    "bool": ("‹opt:U›.hasValue()", "‹opt:U› == ‹opt:U›"),
    "T": ("‹opt:T›.value()", "‹opt:T›.orValue(‹T›)"),
    "opt:T": (
        "optional.of(‹T›)", "optional.ofNonZeroValue(‹T›)", "‹map:T›.?key", "‹map:T›[?‹string›]",
        "‹list:T›[?‹int›]", "‹opt:T›.or(‹opt:T›)", "‹opt:U›.optMap($U, ‹T›)",
        "‹opt:U›.optFlatMap($U, ‹opt:T›)",
    ),
    "list:T": ("[?‹opt:T›]", "[‹T›, ?‹opt:T›]"),
    "map:T": ("{?'key': ‹opt:T›}",),
}  # fmt: skip

STRINGS: Templates = {
    "int": (
        "‹string›.indexOf(‹string›)", "‹string›.indexOf(‹string›, ‹int›)", "‹string›.lastIndexOf(‹string›)",
        "‹string›.lastIndexOf(‹string›, ‹int›)",
    ),
    "string": (
        "‹string›.charAt(‹int›)", "‹string›.lowerAscii()", "‹string›.upperAscii()", "‹string›.trim()",
        "‹string›.replace(‹string›, ‹string›)", "‹string›.replace(‹string›, ‹string›, ‹int›)",
        "‹string›.substring(‹int›)", "‹string›.substring(‹int›, ‹int›)", "‹list:string›.join()",
        "‹list:string›.join(‹string›)", "strings.quote(‹string›)",
    ),
    "list:string": ("‹string›.split(‹string›)", "‹string›.split(‹string›, ‹int›)"),
}  # fmt: skip

FORMAT: Templates = {
    "string": (
        "'%s'.format([‹U›])", "'%d|%x'.format([‹int›, ‹uint›])", "'%.2f %e'.format([‹double›, ‹double›])",
        "'%s %s'.format([‹list:U›, ‹map:U›])", "'%b %o %X'.format([‹int›, ‹int›, ‹string›])",
        "‹string›.format([‹U›])", "'%5d%%'.format([‹int›])", "'%x %X'.format([‹bytes›, ‹uint›])",
        "'%s'.format(‹list:U›)", "'%d'.format([‹dyn›])", "'%.3e|%.0f'.format([‹double›, ‹int›])",
        "'%s'.format([dyn(‹U›)])",
    ),
}  # fmt: skip

SETS: Templates = {
    "bool": (
        "sets.contains(‹list:U›, ‹list:U›)", "sets.equivalent(‹list:U›, ‹list:U›)",
        "sets.intersects(‹list:U›, ‹list:U›)",
    ),
}  # fmt: skip

LISTS: Templates = {
    "list:T": (
        "‹list:T›.reverse()", "‹list:T›.slice(‹int›, ‹int›)", "‹list:T›.slice(0, 1)",
        "[‹list:T›].flatten()", "‹list:T›.distinct()", "‹list:T›.sortBy($T, ‹int›)",
    ),
    "list:int": ("lists.range(‹int›)", "lists.range(3)", "‹list:int›.sort()"),
    "list:string": ("‹list:string›.sort()",),
    "list:double": ("‹list:double›.sort()",),
}  # fmt: skip

TWO_VARIABLES: Templates = {
    "bool": (
        "‹list:U›.all($int, $U, ‹bool›)", "‹list:U›.exists($int, $U, ‹bool›)",
        "‹map:U›.existsOne($string, $U, ‹bool›)", "‹map:U›.all($string, $U, ‹bool›)",
    ),
    "list:T": ("‹list:U›.transformList($int, $U, ‹T›)", "‹map:U›.transformList($string, $U, ‹bool›, ‹T›)"),
}  # fmt: skip

TRANSFORM_MAP: Templates = {
    "map:T": (
        "‹map:U›.transformMap($string, $U, ‹T›)", "‹map:U›.transformMap($string, $U, ‹bool›, ‹T›)",
        "‹list:U›.transformMapEntry($int, $U, {string(0): ‹T›})",
    ),
}  # fmt: skip

DEVICE: Templates = {
    "bool": (
        "device.allowMultipleAllocations", "device.driver == ‹string›",
        "has(device.attributes['gpu.example.com'].uuid)", "'index' in device.attributes['gpu.example.com']",
        "device.attributes['gpu.example.com'].exists($string, ‹bool›)",
        "device.attributes['net.example.com'].all($string, ‹bool›)",
    ),
    "string": ("device.driver",),
    "dyn": (
        "device.attributes['gpu.example.com'].index", "device.attributes['gpu.example.com'].product",
        "device.attributes['gpu.example.com']['uuid']", "device.attributes['gpu.example.com'].ready",
        "device.attributes['net.example.com'].name", "device.attributes['gpu.example.com'].gone",
        "device.attributes['gpu.example.com'].text", "device.attributes['gpu.example.com'].date",
        "device.attributes['net.example.com'].huge",
    ),
    "map:dyn": ("device.attributes['gpu.example.com']", "device.attributes['net.example.com']"),
    "opt:dyn": (
        "device.attributes['gpu.example.com'].?index", "device.attributes['gpu.example.com'][?'gone']",
        "device.attributes[?'net.example.com'].?name",
    ),
}  # fmt: skip

CLUSTER: Templates = {
    "bool": (
        "‹quantity›.isGreaterThan(‹quantity›)", "‹quantity›.isLessThan(‹quantity›)",
        "‹quantity›.isInteger()", "isQuantity(‹string›)", "‹semver›.isGreaterThan(‹semver›)",
        "‹semver›.isLessThan(‹semver›)", "isSemver(‹string›)", "isSemver(‹string›, ‹bool›)",
        "isURL(‹string›)", "isIP(‹string›)", "isCIDR(‹string›)", "‹ip›.isLoopback()",
        "‹ip›.isGlobalUnicast()", "‹cidr›.containsIP(‹ip›)", "‹cidr›.containsIP(‹string›)",
        "‹cidr›.containsCIDR(‹cidr›)", "‹list:int›.isSorted()", "‹list:string›.isSorted()",
        "ip.isCanonical(‹string›)", "‹dyn›.includes(‹U›)", "‹dyn›.includes(‹dyn›)",
        "has(device.attributes['other.example.com'].x)", "device.capacity == device.capacity",
        "device.attributes.exists($string, ‹bool›)", "device.attributes == device.attributes",
        "'gpu.example.com' in device.attributes", "‹bool› && ‹dyn›.isGreaterThan(‹semver›)",
    ),
    "int": (
        "‹quantity›.compareTo(‹quantity›)", "‹semver›.compareTo(‹semver›)", "‹quantity›.asInteger()",
        "sign(‹quantity›)", "‹semver›.major()", "‹ip›.family()", "‹cidr›.prefixLength()",
        "‹list:int›.sum()", "‹list:int›.max()", "‹list:int›.min()", "‹list:U›.indexOf(‹U›)",
        "‹list:U›.lastIndexOf(‹U›)", "‹dyn›.major()",
    ),
    "double": ("‹quantity›.asApproximateFloat()", "‹list:double›.sum()", "‹list:double›.max()"),
    "string": (
        "‹string›.find(‹pattern›)", "‹url›.getHost()", "‹url›.getHostname()", "‹url›.getPort()",
        "‹url›.getScheme()", "‹url›.getEscapedPath()", "string(‹ip›)", "string(‹cidr›)",
    ),
    "list:string": (
        "‹string›.findAll(‹pattern›)", "‹string›.findAll(‹pattern›, ‹int›)", "‹url›.getQuery()['k']",
        "format.dns1123Label().validate(‹string›).orValue([])",
        "format.named(‹format›).value().validate(‹string›).orValue([])",
        "format.named(‹string›).value().validate(‹string›).value()",
    ),
    "quantity": (
        "quantity(‹amount›)", "‹quantity›.add(‹quantity›)", "‹quantity›.sub(‹int›)",
        "device.capacity['gpu.example.com'].memory", "quantity(‹string›)",
    ),
    "semver": ("semver(‹version›)", "semver(‹version›, ‹bool›)", "semver(‹string›)"),
    "url": ("url(‹address›)",),
    "ip": ("ip(‹host›)", "‹cidr›.ip()"),
    "cidr": ("cidr(‹net›)", "‹cidr›.masked()"),
    "dyn": (
        "device.attributes['gpu.example.com'].driverVersion",
        "device.attributes['gpu.example.com'].numbers", "device.attributes['gpu.example.com'].names",
        "device.attributes['other.example.com'].x",
    ),
    "opt:quantity": ("device.capacity['gpu.example.com'].?memory", "device.capacity[?'x'].?memory"),
    "map:quantity": ("device.capacity['gpu.example.com']",),
}  # fmt: skip

LEAVES: Templates = {
    "bool": ("true", "false"),
    "int": ("0", "1", "2", "-1", "7", "0x1F", "9223372036854775807", "-9223372036854775808", "1000000007"),
    "uint": ("0u", "1u", "3u", "0xFFu", "18446744073709551615u"),
    "double": (
        "0.0", "1.0", "-1.5", "0.1", "1e300", "1e-7", "2.5e6", "-0.0", "9007199254740993.0", "123456.789",
        "(1.0 / 0.0)", "(-1.0 / 0.0)", "double('NaN')",
    ),
    "string": (
        "''", "'a'", "'key'", '"gpu"', "'NVIDIA H100'", "'héllo'", "'日本'", "'\\u00e9\\n'", "r'\\d'",
        "'🎉x'",
        "'1'", "'true'", "'a,b,c'", "'%s'", "'10Gi'", "'1.2.3'", "'\\x41'", '"""tri\nple"""', "'A' + 'b'",
        "'2024-01-02T03:04:05Z'",
    ),
    "bytes": ("b''", "b'ab'", "b'\\xff\\x00'", "b'é'"),
    "timestamp": (
        "timestamp('2024-02-29T12:34:56.789Z')", "timestamp('0001-01-01T00:00:00Z')",
        "timestamp('9999-12-31T23:59:59.999999999Z')", "timestamp(0)",
    ),
    "duration": ("duration('1s')", "duration('-1h30m')", "duration('0.5ms')", "duration('2562047h')"),
    "null": ("null",),
    "type": (
        "int", "string", "bool", "list", "map", "null_type", "double", "uint", "bytes", "type",
        "google.protobuf.Timestamp",
    ),
    "dyn": ("dyn(1)", "dyn('a')", "dyn(null)", "dyn(1.0)", "dyn([])"),
    "quantity": (
        "quantity('1Gi')", "quantity('0')", "quantity('-5m')", "quantity('1e3')",
        "quantity('9223372036854775807')",
    ),
    "semver": ("semver('1.2.3')", "semver('0.0.0-rc.1')", "semver('10.0.1+x')"),
    "url": ("url('https://user@h.example:8080/p%20q?k=v&k=w#f')", "url('/a/b')"),
    "ip": ("ip('127.0.0.1')", "ip('::1')", "ip('fe80::1')", "ip('10.1.2.3')"),
    "cidr": ("cidr('10.0.0.0/8')", "cidr('::/0')", "cidr('192.168.1.7/24')"),
    "pattern": (
        "'^a'", "'[0-9]+'", "'H[12]00'", "'(a|b)*c?'", "'['", "'\\\\d{2,}'", "'(?i)GPU'", "'.{0,3}$'", "''",
        "'a(?=b)'", "'\\\\pL+'", "'(?P<n>x)'", "'x{1001}'",
    ),
    "zone": ("'UTC'", "'Asia/Seoul'", "'+02:00'", "'-03:30'", "'Nowhere'"),
    "moment": (
        "'2024-01-02T03:04:05Z'", "'2024-01-02T03:04:05.5+09:00'", "'1969-12-31T23:59:59Z'", "'nonsense'",
    ),
    "span": ("'1h'", "'90s'", "'1.5h'", "'-2m3s'", "'1x'"),
    "format": (
        "'dns1123Label'", "'dns1123SubdomainPrefix'", "'dns1035Label'", "'qualifiedName'", "'labelValue'",
        "'uri'", "'uuid'", "'byte'", "'date'", "'datetime'", "'other'",
    ),
    "amount": ("'1'", "'80Gi'", "'1.5'", "'500m'", "'1e6'", "'x'", "'1Ki'", "'0.1'", "'-3M'"),
    "version": ("'1.0.0'", "'v1.2'", "'1.2.3-alpha.1'", "'01.2.3'", "'2.0.0+b'", "'1'"),
    "address": (
        "'https://example.com:80/x'", "'http://[::1]:9/'", "'ftp://h/%zz'", "'/rel'", "'not a url'",
        "'https://h?k=v'",
    ),
    "host": ("'10.0.0.1'", "'::ffff:1.2.3.4'", "'fe80::1%eth0'", "'1.2.3'", "'::1'", "'2001:DB8::1'"),
    "net": ("'10.0.0.0/8'", "'10.0.0.1/33'", "'2001:db8::/32'", "'1.2.3.4'", "'192.168.0.1/16'"),
}  # fmt: skip

GROUPS: dict[str, Templates] = {
    "standard": STANDARD, "mixed-numbers": MIXED_NUMBERS, "bind": BIND, "optional": OPTIONAL,
    "strings": STRINGS, "format": FORMAT, "sets": SETS, "lists": LISTS, "two-variables": TWO_VARIABLES,
    "transform-map": TRANSFORM_MAP, "device": DEVICE, "cluster": CLUSTER,
}  # fmt: skip
