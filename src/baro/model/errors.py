"""The one error tree of baro. Every error says what is wrong, where, and what to do next.

::

    BaroError
    ├── InputError           a file, manifest, flag value or captured output is bad      exit code 3
    │   └── TooLargeError    the input is over a stated limit and was not read further   exit code 3
    ├── UnreachableError     a server or machine does not answer                         exit code 3
    ├── ForbiddenError       the server refuses; names verb and resource                 exit code 3
    └── InternalError        baro broke a promise of its own: always a bug               exit code 3

Exit code 1 is never an error: it means findings, or that nothing fits.
Errors of other libraries are mapped to this tree where the library is called.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The place an error or finding speaks of; every part may be missing.

    ``line`` and ``column`` count from 1. ``object`` is ``Kind namespace/name``;
    ``path`` is a field path in the API server's notation, such as ``spec.devices[0].name``.
    """

    file: str | None = None
    line: int | None = None
    column: int | None = None
    object: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place += f":{self.line}" if place else f"line {self.line}"
            if self.column is not None:
                place += f":{self.column}"
        return ", ".join(part for part in (place, self.object, self.path) if part)


class BaroError(Exception):
    """Base of all errors that baro raises on purpose.

    ``what`` is one sentence without a full stop, ``next_step`` says what the reader can do.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, where: Where | None = None, next_step: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where or Where()
        self.next_step = next_step

    def __str__(self) -> str:
        place = str(self.where)
        text = f"{place}: {self.what}" if place else self.what
        return f"{text} ({self.next_step})" if self.next_step else text


class InputError(BaroError):
    """A file, manifest, flag value or captured output cannot be used."""


class TooLargeError(InputError):
    """The input is over a stated limit; nothing beyond the limit was read."""


class UnreachableError(BaroError):
    """A server or machine does not answer."""


class ForbiddenError(BaroError):
    """The server refuses a call; ``what`` names verb and resource."""


class InternalError(BaroError):
    """baro broke a promise of its own. Always a bug."""
