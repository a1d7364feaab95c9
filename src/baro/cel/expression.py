"""Source text to checked tree, and the words for what cannot be planned.

What type the expression must have is asked by those who know what it stands for: ``program``, ``derived``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from baro.cel.ast import Node
from baro.cel.checker import check
from baro.cel.code import PlanError
from baro.cel.environment import Environment
from baro.cel.errors import CelCompileError, Source
from baro.cel.parser import parse
from baro.cel.validators import validate

_NO_TEXT = re.compile("[\ud800-\udfff]")  # halves of characters; upstream never sees what is no UTF-8


def typed_tree(expression: str, env: Environment) -> Node:
    """Parse, check the types, run the validators. Raises ``CelCompileError``.

    The caller provides for a deep Python stack (``computation.deep_stack``).
    """
    source = Source(_NO_TEXT.sub("\ufffd", expression))
    tree = parse(source)
    issues = check(tree, env, source) or validate(tree, source)
    if issues:
        raise source.compile_error(issues)
    return tree


@contextlib.contextmanager
def planning() -> Iterator[None]:
    """Raises what cannot be planned inside as ``CelCompileError``, in upstream's words."""
    try:
        yield
    except PlanError as error:
        text = str(error)
        text = text if text.startswith("PANIC") else f"program instantiation failed: {text}"
        raise CelCompileError(text) from None
