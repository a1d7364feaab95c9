"""Consistent lists: pages that show one revision, however long the client takes between them."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right

import msgspec

from baro.apiserver.catalogue import Served
from baro.apiserver.registry.fields import field_value, is_indexed, with_names
from baro.apiserver.selectors import Selector
from baro.apiserver.status import Cause, StatusError, bad_request, expired, invalid, too_new
from baro.apiserver.storage import CompactedError, Key, Listing, Record, Store

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


class Window(msgspec.Struct, frozen=True):
    """Which part of a collection is asked for. ``limit`` 0 means all; ``revision`` None means the newest."""

    selector: Selector = Selector()
    limit: int = 0
    continue_token: str = ""
    revision: int | None = None
    match: str = ""


class Page(msgspec.Struct, frozen=True):
    """``remaining`` is None when it is not known without looking at every object."""

    records: tuple[Record, ...]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct, frozen=True):
    """Where to go on: after ``start``, at revision ``rv`` (-1: the newest)."""

    rv: int
    start: tuple[str, str]
    v: str = "meta.k8s.io/v1"


def read_page(store: Store, served: Served, namespace: str | None, window: Window) -> Page:
    """Raises 400 for a bad token, 410 for one too old, 504 for a revision of the future."""
    if window.continue_token:
        token = _decode(window.continue_token)
        if window.revision not in (None, 0):
            raise bad_request("specifying resource version is not allowed when using continue")
        at = token.rv if token.rv >= 0 else None
        try:
            listing = store.listing(served.key, namespace, at)
        except CompactedError:
            inconsistent = _encode(_Token(-1, token.start))
            raise expired(_TOO_OLD, inconsistent) from None
        return _cut(listing, window, token.start)
    return _cut(_listing(store, served, namespace, window), window, None)


def _listing(store: Store, served: Served, namespace: str | None, window: Window) -> Listing:
    current = store.revision
    if window.match and window.revision is None:
        raise _bad_options(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if window.match not in ("", "Exact", "NotOlderThan"):
        message = f'Unsupported value: "{window.match}": supported values: "Exact", "NotOlderThan", ""'
        cause = Cause("FieldValueNotSupported", "resourceVersionMatch", message)
        raise invalid("meta.k8s.io", "ListOptions", "", [cause])
    if window.revision is not None and window.revision > current:
        raise too_new(window.revision, current)
    name = window.selector.fields.exact("metadata.name")
    if window.match == "Exact" and window.revision:
        try:
            return store.listing(served.key, namespace, window.revision)
        except CompactedError:
            raise expired("The resourceVersion for the provided list is too old.") from None
    if name is not None and namespace is not None:
        record = store.get(Key(served.key, namespace, name))
        return Listing((record,) if record is not None else (), current)
    return store.listing(served.key, namespace)


def _cut(listing: Listing, window: Window, start: tuple[str, str] | None) -> Page:
    records = listing.records
    if start is not None:
        names = [(record.key.namespace, record.key.name) for record in records]
        records = records[bisect_right(names, start) :]
    if not window.selector.empty:
        records = tuple(record for record in records if selects(window.selector, record))
    if not 0 < window.limit < len(records):
        return Page(records, listing.revision)
    shown = records[: window.limit]
    last = (shown[-1].key.namespace, shown[-1].key.name)
    remaining = len(records) - window.limit if window.selector.empty else None
    return Page(shown, listing.revision, _encode(_Token(listing.revision, last)), remaining)


def selects(selector: Selector, record: Record) -> bool:
    if selector.empty:
        return True
    known = dict(record.index.fields)
    own = [name for name, _, _ in selector.fields.terms if not name.startswith("metadata.")]
    if own and not is_indexed(record.key.resource):  # a custom kind, whose selectable fields may change
        body = record.body()
        known = {name: field_value(body, name) for name in own}
    fields = with_names(known, record.key.namespace, record.key.name)
    return selector.matches(record.index.labels, fields)


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None


def _bad_options(field: str, message: str) -> StatusError:
    cause = Cause("FieldValueForbidden", field, f"Forbidden: {message}")
    return invalid("meta.k8s.io", "ListOptions", "", [cause])
