"""The JSONPath of printer columns: fields, indices, ``[*]`` and filters that compare with a constant.

Source: ``k8s.io/client-go/util/jsonpath``, of which definitions may use only simple paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]\\])+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | (?P<all>\[\*\]|\.\*)
      | \[\s*(?P<quoted>'[^']*'|"[^"]*")\s*\]
      | \[\?\(\s*@(?P<path>[^=!<>\s]*)\s*(?P<operator>==|!=)\s*(?P<constant>'[^']*'|"[^"]*"|[^)\s]+)\s*\)\]
    """,
    re.VERBOSE,
)


class JsonPathError(ValueError):
    """The path is none that columns may have."""


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[re.Match[str], ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text in ("", "."):
        return ()
    steps, at = [], 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise JsonPathError(f"{path!r} is no simple JSONPath: cannot read {text[at:]!r}")
        steps.append(step)
        at = step.end()
    return tuple(steps)


def find(document: Any, path: str) -> list[Any]:
    """Every value that ``path`` leads to; none when the document lacks it. Raises ``JsonPathError``."""
    values = [document]
    for step in _steps(path):
        values = [found for value in values for found in _follow(value, step)]
    return values


def _follow(value: Any, step: re.Match[str]) -> Iterator[Any]:
    if step["all"]:
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif step["index"]:
        index = int(step["index"])
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]
    elif step["operator"]:
        wanted = _constant(step["constant"])
        for item in value if isinstance(value, list) else ():
            found = find(item, step["path"])
            if bool(found and found[0] == wanted) == (step["operator"] == "=="):
                yield item
    else:
        name = re.sub(r"\\(.)", r"\1", step["field"]) if step["field"] else step["quoted"][1:-1]
        if isinstance(value, dict) and name in value:
            yield value[name]


def _constant(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text
