"""Go's words for a pattern that is no regular expression; RE2 finds the same faults with other words."""

from __future__ import annotations

import re


def go_error(pattern: str, reason: str) -> str:
    """``error parsing regexp: …`` as Go's ``regexp`` prints it, from RE2's reason."""
    kind, _, argument = reason.partition(": ")
    if kind == "missing )":
        text = f"missing closing ): `{pattern}`"
    elif kind == "missing ]":
        text = f"missing closing ]: `{argument}`"
    elif kind == "unexpected )":
        text = f"unexpected ): `{pattern}`"
    elif kind == "no argument for repetition operator":
        text = f"missing argument to repetition operator: `{argument}`"
    elif kind == "bad repetition operator":
        text = f"invalid nested repetition operator: `{argument}`"
    elif kind == "invalid repetition size":
        text = f"invalid repeat count: `{argument}`"
    elif kind == "invalid named capture group":
        text = f"invalid named capture: `{argument}`"
    elif kind == "invalid perl operator":
        text = f"invalid or unsupported Perl syntax: `{_perl(pattern, argument)}`"
    elif kind == "trailing \\":
        text = "trailing backslash at end of expression: ``"
    else:
        text = f"{kind}: `{argument}`"
    return f"error parsing regexp: {text}"


def _perl(pattern: str, argument: str) -> str:
    """Go shows the group up to the first character that is no flag."""
    if argument != "(?":
        return argument
    match = re.search(r"\(\?(?!P<|<)[imsU-]*(?![imsU:)-]).", pattern)
    return match.group() if match else argument
