"""Google's C++ implementation of CEL beside ours, on the part of the language that both have.

Either side is reduced to what can be compared: compiles or not; true, false or an error. ``KNOWN`` lists
where the implementations disagree by design, each with an expression that shows it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, Program, compile_selector

SHARED = frozenset(
    ["standard", "bind", "optional", "strings", "format", "sets", "lists", "two-variables", "device"]
)
"""Groups of templates (``cel_generator``) that both sides know."""
_EXTENSIONS = ("bindings", "optional", "strings", "sets", "lists", "two-var-comprehensions")
_GPU, _NET = "gpu.example.com", "net.example.com"
VIEWS = (
    DeviceView(
        driver=_GPU,
        attributes={
            _GPU: {"index": 3, "product": "NVIDIA H100", "uuid": "GPU-1", "ready": True, "text": "a,b"},
            _NET: {"name": "eth0", "huge": 2**63 - 1},
        },
        allow_multiple_allocations=True,
    ),
    DeviceView(driver="other.example.com", attributes={_GPU: {"index": "x", "product": 0}, _NET: {}}),
)
"""Devices without versions and capacities, which the C++ library has no types for. Every domain that the
generator names is there: in C++ an unknown one is an error, not an empty map."""


class Compared(msgspec.Struct, frozen=True):
    """Both sides of one expression: compile errors (empty if there is none), then outcomes per device."""

    text: str
    our_error: str
    their_error: str
    ours: tuple[bool | str, ...] = ()
    theirs: tuple[bool | str, ...] = ()

    @property
    def differs(self) -> bool:
        if bool(self.our_error) != bool(self.their_error):
            return True
        pairs = zip(self.ours, self.theirs, strict=True)
        return any(_reduced(one) != _reduced(other) for one, other in pairs)


def _reduced(outcome: bool | str) -> bool | None:
    return outcome if isinstance(outcome, bool) else None


class Cpp:
    """One environment of the C++ library. Raises ``ImportError`` where the package is missing."""

    def __init__(self) -> None:
        cel: Any = importlib.import_module("cel_expr_python.cel")
        listed = "".join(f"- name: {name}\n" for name in _EXTENSIONS)
        kind = cel.Type
        attributes = kind.Map(kind.STRING, kind.Map(kind.STRING, kind.DYN))
        self._env = cel.NewEnv(
            config=cel.NewEnvConfigFromYaml(f"name: selectors\nextensions:\n{listed}"),
            variables={
                "device.attributes": attributes,
                "device.driver": kind.STRING,
                "device.allowMultipleAllocations": kind.BOOL,
            },
        )

    def compare(self, text: str) -> Compared:
        """Both sides of an expression."""
        our_error = their_error = ""
        program: Program | None = None
        theirs: Any = None
        try:
            program = compile_selector(text)
        except CelCompileError as error:
            our_error = error.message
        try:
            theirs = self._env.compile(text)
            name = theirs.return_type().name()
        except RuntimeError as error:
            their_error = str(error)
        else:
            their_error = "" if name in ("BOOL", "DYN") else f"is of type {name}"
        if program is None or their_error:
            return Compared(text, our_error, their_error)
        return Compared(
            text, "", "",
            tuple(_run(program, view) for view in VIEWS),
            tuple(self._evaluate(theirs, view) for view in VIEWS),
        )  # fmt: skip

    def _evaluate(self, expression: Any, view: DeviceView) -> bool | str:
        data: Mapping[str, Any] = {
            "device.attributes": {domain: dict(inner) for domain, inner in view.attributes.items()},
            "device.driver": view.driver,
            "device.allowMultipleAllocations": view.allow_multiple_allocations,
        }
        try:
            result = expression.eval(data=data)
            kind = result.type().name()
            return bool(result.value()) if kind == "BOOL" else f"{kind} {result.value()}"
        except (RuntimeError, TypeError, ValueError, MemoryError) as error:  # the others are the binding's
            return str(error)


def _run(program: Program, view: DeviceView) -> bool | str:
    try:
        return program.evaluate(view)
    except CelRuntimeError as error:
        return error.message


class Known(msgspec.Struct, frozen=True):
    """A class of differences: why, how to tell one, and an expression that is one."""

    reason: str
    matches: Callable[[Compared], bool]
    example: str


def _we_refuse(pattern: str) -> Callable[[Compared], bool]:
    search = re.compile(pattern).search
    return lambda seen: bool(seen.our_error) and not seen.their_error and search(seen.our_error) is not None


def _they_refuse(pattern: str) -> Callable[[Compared], bool]:
    search = re.compile(pattern).search
    return lambda seen: not seen.our_error and bool(seen.their_error) and search(seen.their_error) is not None


def _we_fail(pattern: str) -> Callable[[Compared], bool]:
    search = re.compile(pattern).search
    return lambda seen: any(isinstance(one, str) and search(one) is not None for one in seen.ours)


def _they_fail(pattern: str) -> Callable[[Compared], bool]:
    search = re.compile(pattern).search
    return lambda seen: any(isinstance(one, str) and search(one) is not None for one in seen.theirs)


def _in_text(pattern: str) -> Callable[[Compared], bool]:
    search = re.compile(pattern).search
    return lambda seen: not seen.our_error and not seen.their_error and search(seen.text) is not None


_UNKNOWN_TYPE = re.compile(r"\[\]|\{\}|optional\.none\(\)")


def _of_unknown_type(seen: Compared) -> bool:
    """One side finds no overload in a text with an empty literal or an empty optional."""
    message = seen.our_error or seen.their_error
    refused = any(words in message for words in ("no matching overload", "expected type", "must evaluate to"))
    one_side = bool(seen.our_error) != bool(seen.their_error)
    return one_side and refused and bool(_UNKNOWN_TYPE.search(seen.text))


KNOWN = (
    Known(
        "cel-go evaluates constant conversions, patterns and types when it plans a program",
        _we_refuse("^program instantiation failed|^PANIC"),
        "int('x') == 1 || true",
    ),
    Known(
        "Kubernetes checks literal patterns, times and durations when it compiles",
        _we_refuse("invalid (duration|timestamp|matches) argument"),
        "duration('1x') == duration('1s') || true",
    ),
    Known(
        "Kubernetes checks constant format strings when it compiles",
        _we_refuse("formatting|too many arguments supplied to string.format|index [0-9]+ out of range"),
        "'%d'.format(['a']) == '' || true",
    ),
    Known(
        "Kubernetes wants the elements of a list or map literal to be of one type",
        _we_refuse("expected type '.*' but found '"),
        "[1, 'a'].size() == 2",
    ),
    Known(
        "the order of overloads decides what an operand of unknown type is, and differs",
        _of_unknown_type,
        "['a'][[][0] - [][0]] == 'a'",
    ),
    Known(
        "C++ flattens any list",
        _we_refuse("no matching overload for 'flatten'"),
        "[1].flatten() == [1]",
    ),
    Known(
        "C++ takes what flatten gives for a list of anything, cel-go keeps the type of its items",
        lambda seen: "flatten" in seen.text and bool(_we_refuse("no matching overload")(seen)),
        "[[1]].flatten()[0] < true",
    ),
    Known(
        "a place behind the end of a text is an error of C++'s indexOf and lastIndexOf",
        _they_fail("index out of range: [0-9]+$"),
        "'a'.lastIndexOf('a', 7) == 1",
    ),
    Known(
        "C++ does not walk over what has no type yet",
        _they_refuse("expression of type '.*' cannot be the range of a comprehension"),
        "{}.key.all(x, true)",
    ),
    Known(
        "C++ compares numbers of different types only through dyn here",
        _they_refuse(r"no matching overload for '_[<>]=?_' applied to '\(u?(int|double), u?(int|double)\)'"),
        "1 < 2.0",
    ),
    Known(
        "the variables here are dotted names, so that device alone is none",
        _they_refuse("undeclared reference to '(device|device.attributes)'"),
        "device == device",
    ),
    Known("cel-go refuses to order NaN", _in_text("NaN|0[.]0"), "double('NaN') < 1.0"),
    Known(
        "cel-go lets the last of equal keys of a map literal win",
        _they_fail("duplicate key in map"),
        "{'a': 1, 'a': 2}.size() == 1",
    ),
    Known(
        "numbers are formatted by Go's locale library, with groups of digits and raised exponents",
        _in_text("%[.0-9]*[ef]"),
        "'%f'.format([1234.5]) == '1,234.500000'",
    ),
    Known(
        "cel-go has no text for bytes that are no UTF-8",
        _we_fail("invalid UTF-8 in bytes"),
        r"'%s'.format([b'\xff']) == 'x'",
    ),
    Known(
        "a clause of format that does not suit its value is an error of cel-go's",
        _we_fail("^error during formatting"),
        "'%d'.format([dyn(1.0)]) == '1'",
    ),
    Known(
        "a failure inside of distinct and its kin is a panic in cel-go, which && and || cannot hide",
        _we_fail("^internal error"),
        "false && [device.attributes['gpu.example.com'].gone].distinct() == []"
        " || [device.attributes['gpu.example.com'].gone].distinct() == [] || true",
    ),
    Known(
        "C++ has no maps with keys that are doubles",
        lambda seen: "nvalid map key type" in str(seen.theirs) or "map key type" in seen.their_error,
        "dyn({1.5: 1}[1.5]) == 1",
    ),
    Known(
        "C++ refuses to look for a list or map among the keys of a map",
        _they_fail("No matching overloads found : @in"),
        "[] in {}",
    ),
    Known(
        "C++'s substring does not take the end of the text as its end",
        _they_fail("<start> or <end> is greater than <string>.size"),
        "'ab'.substring(0, 2) == 'ab'",
    ),
    Known(
        "the zero of a timestamp is the first day of year 1 in Go, and of 1970 in C++",
        _in_text("ofNonZeroValue.*timestamp"),
        "optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()",
    ),
    Known(
        "C++ makes an int of a bool whose type is not known while compiling",
        _we_fail(r"^no such overload: int\(bool\)"),
        "int(device.attributes['gpu.example.com'].ready) == 1",
    ),
    Known(
        "C++ cannot walk over a map of its Python data inside of some other loops",
        _they_fail("No matching overloads found : <iter_range>"),
        "device.attributes['gpu.example.com'].exists("
        "k, ['x'].sortBy(a, 2).all(b, c, device.attributes['net.example.com'].all(d, false)))",
    ),
    Known(
        "cel-go answers x in [] without looking at x",
        _in_text(r"in \(?\[\]"),
        "device.attributes['gpu.example.com'].gone in []",
    ),
)
"""What may differ. A new difference is a fault of ours until it is understood."""


def explained(seen: Compared) -> bool:
    """Whether a difference is one of the known."""
    return any(known.matches(seen) for known in KNOWN)
