"""Names of drivers and domains: slips for names that are known, and names that no driver can have.

A driver is called like a host (``gpu.nvidia.com``). People write the resource (``nvidia.com/gpu``), the class
(``mig.nvidia.com``), the vendor (``nvidia.com``), or leave a letter out; CEL compares letter by letter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Final

from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint.found import Found
from baro.diagnosis.lint.reads import Reads
from baro.diagnosis.published import known_drivers

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LETTERS: Final = 3
_NEAR: Final = 0.9
"""So alike are two names that differ in a letter; names of two drivers differ in more."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant: a letter less, the vendor alone, the parts in another order."""
    names = sorted(known)
    parts = sorted(re.split(r"[./]", name))
    same = [one for one in names if sorted(one.split(".")) == parts or one.endswith(f".{name}")]
    if same:
        return same[0] if len(same) == 1 else None
    close = difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)
    return close[0] if close else None


def drivers(text: str, found: Reads, catalogue: Catalogue) -> Iterator[Found]:
    """``device.driver`` compared with what is no driver."""
    for test in found.driver_tests:
        if test.value in catalogue.drivers:
            continue
        owner = next((name for name, facts in known_drivers().items() if test.value in facts.classes), None)
        near = owner or nearest(test.value, catalogue.drivers)
        code = "attribute-value-unknown"
        if owner is not None:
            code = "attribute-not-seen"  # somebody may call a driver so all the same
            message = f"{test.value} is a DeviceClass of the driver {owner}"
        elif not _NAME.fullmatch(test.value):
            message = f"no driver can be called {test.value!r}: names of drivers are like names of hosts"
            message += f"; the nearest is {near}" if near else ""
        elif near is not None:
            code = code if len(near) - len(test.value) < _LETTERS else "attribute-not-seen"
            message = f"no driver {test.value} is known; the nearest is {near}"
        else:
            continue
        quote = text[test.start]
        new = f"{quote}{near}{quote}" if near and quote in "'\"" else None
        yield Found(code, message, test.start, test.end, new if code == "attribute-value-unknown" else None)
