"""The functions of CEL and of Kubernetes' libraries, one module per library.

Each module has ``IMPLEMENTATIONS``: overload id (see ``declarations``) → Python function of the argument
values, the target of a method first. An implementation may rely on the argument types its overload declares,
and raises ``CelRuntimeError`` with upstream's words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

Implementation = Callable[..., Any]


@functools.cache
def implementations() -> Mapping[str, Implementation]:
    """All implementations by overload id."""
    from baro.cel.functions import (  # noqa: PLC0415 not needed to parse and check
        conversions,
        lists,
        network,
        quantities,
        strings,
        times,
        urls,
    )

    found: dict[str, Implementation] = {}
    for module in (conversions, lists, network, quantities, strings, times, urls):
        found.update(module.IMPLEMENTATIONS)
    return found
