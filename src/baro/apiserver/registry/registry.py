"""Create, read, update, patch and bind. Deletion and what follows from it is in ``deletion``.

Bodies go in as clients of a version send them and come out in the stored form (``from_stored`` makes the
client's form). Every write is a compare-and-swap on the revision that was read, tried again when someone
else was faster and the client did not insist on a revision.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any, Final

from baro.apiserver.catalogue import DEFINITIONS, Catalogue, Served
from baro.apiserver.customs import complete, established, ignored, status_of
from baro.apiserver.patching import Patch
from baro.apiserver.registry import deletion, ownership
from baro.apiserver.registry.admission import BOOT_NAMESPACES, admit_create, namespace_labels, unique_owners
from baro.apiserver.registry.base import Objects, check_revision
from baro.apiserver.registry.binding import bind as assign
from baro.apiserver.registry.defaults import set_defaults
from baro.apiserver.registry.fields import index
from baro.apiserver.registry.naming import Clock, Namer, utc_now
from baro.apiserver.registry.options import ATTEMPTS, DeleteOptions, WriteOptions
from baro.apiserver.registry.patches import patched
from baro.apiserver.registry.reading import Page, Window, read_page
from baro.apiserver.registry.strategy import (
    CREATE_ON_UPDATE,
    NAMESPACES,
    needs_resource_version,
    prepare_create,
    prepare_update,
)
from baro.apiserver.registry.versions import from_stored, kept, to_stored, without_nulls
from baro.apiserver.status import (
    MODIFIED,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    not_found,
)
from baro.apiserver.storage import Key, KeyTakenError, NoSuchKeyError, Record, StaleError, Store
from baro.apiserver.validation import (
    check_decoding,
    check_kind,
    check_patched,
    check_rules,
    missing_name,
    unconditional,
)

Body = dict[str, Any]

_RESTORED: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class Registry(Objects):
    """The API's objects over a store. Safe to use from several threads if the store is."""

    def __init__(
        self, store: Store, *, catalogue: Catalogue, clock: Clock = utc_now, random: Random | None = None
    ) -> None:
        super().__init__(store, catalogue, clock)
        self._namer = Namer(random if random is not None else Random())  # noqa: S311 - names, not secrets
        for record in store.listing(DEFINITIONS).records:
            self._define(record.body())
        namespaces = catalogue.find("", "v1", "namespaces")
        for name in BOOT_NAMESPACES:
            if namespaces is not None and store.get(Key(NAMESPACES, "", name)) is None:
                self.create(namespaces, "", {"metadata": {"name": name}}, WriteOptions())

    # --- reading ------------------------------------------------------------------------------------------

    def list(self, served: Served, namespace: str | None, window: Window) -> Page:
        return read_page(self.store, served, namespace, window)

    # --- creating -----------------------------------------------------------------------------------------

    def create(
        self, served: Served, namespace: str, body: Any, options: WriteOptions, *, track: bool = True
    ) -> Body:
        """The new object in its stored form. Raises the StatusErrors of the API.

        ``track`` is false when ``managedFields`` of the body are right already.
        """
        checked = check_kind(body, served)
        check_decoding(checked, served, options.field_validation, options.warnings)
        stored = to_stored(checked, served)
        metadata = stored.setdefault("metadata", {})
        unique_owners(metadata, options.warnings)
        self._set_namespace(served, metadata, namespace)
        base = str(metadata.get("generateName") or "")
        generated = not metadata.get("name") and bool(base)
        for attempt in range(ATTEMPTS):
            if generated:
                metadata["name"] = self._namer.name(base)
            candidate = self._new_object(served, copy.deepcopy(stored), options)
            _warn(served, candidate, options)
            if track:
                ownership.track(served, None, candidate, options, self.now())
            name = candidate["metadata"]["name"]
            if options.dry_run and self.store.get(Key(served.key, namespace, name)) is None:
                return candidate
            try:
                if options.dry_run:
                    raise KeyTakenError(name)
                key = Key(served.key, namespace, name)
                return self._created(served, key, candidate)
            except KeyTakenError:
                if not generated or attempt == ATTEMPTS - 1:
                    raise already_exists(served.resource, name) from None
        raise already_exists(served.resource, base)  # pragma: no cover - the loop ends by return or raise

    def _new_object(self, served: Served, stored: Body, options: WriteOptions) -> Body:
        metadata = stored["metadata"]
        if not metadata.get("name"):
            raise missing_name(served)
        namespace = str(metadata.get("namespace") or "")
        prepare_create(served, stored, self.now())
        set_defaults(served.key, stored, self.now())
        admit_create(self.store, served, namespace, stored)
        metadata["uid"] = self._namer.uid()
        metadata["creationTimestamp"] = self.now()
        self._check(served, stored, options)
        return stored

    def _created(self, served: Served, key: Key, body: Body) -> Body:
        body = kept(body, served)
        created = self.store.create(key, body, index(served, body)).body()
        if served.key == DEFINITIONS:
            self._define(created)
        return created

    def _define(self, definition: Body) -> None:
        if established(definition):
            self.catalogue.define(definition)

    def _check(
        self,
        served: Served,
        body: Body,
        options: WriteOptions,
        old: Body | None = None,
        subresource: str = "",
    ) -> None:
        """Raises 422 for a body that breaks a rule; a definition that does not gets its status."""
        if served.key == DEFINITIONS:
            complete(body)
        elif old is not None and served.storage is not None:
            old = from_stored(old, served)  # both in the version of the request
        labels = namespace_labels(self.store, body)
        check_rules(
            body,
            served,
            old=old,
            subresource=subresource,
            namespace_labels=labels,
            warnings=options.warnings,
        )
        if served.key == DEFINITIONS:
            body["status"] = status_of(body, self.now(), *self.catalogue.names_in_use(body))

    @staticmethod
    def _set_namespace(served: Served, metadata: Body, namespace: str) -> None:
        named = metadata.get("namespace")
        if not served.kind.namespaced:
            metadata.pop("namespace", None)
        elif named and named != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        else:
            metadata["namespace"] = namespace

    def restore(self, served: Served, namespace: str, body: Any) -> Body:
        """Takes an object of a dump or manifest over as it is: UID, times, finalizers and status are kept.

        A missing namespace is made. Raises the StatusErrors of :meth:`create`.
        """
        checked = check_kind(body, served)
        check_decoding(checked, served, "Ignore", [])
        stored = to_stored(checked, served)
        metadata = stored.setdefault("metadata", {})
        self._set_namespace(served, metadata, namespace)
        kept = {name: metadata[name] for name in _RESTORED if name in metadata}
        status = stored.get("status")
        namespaces = self.catalogue.stored(NAMESPACES)
        if namespace and self.store.get(Key(NAMESPACES, "", namespace)) is None:
            self.create(namespaces, "", {"metadata": {"name": namespace}}, WriteOptions())
        restored = self._new_object(served, stored, WriteOptions())
        restored["metadata"].update(kept)
        if status:
            restored["status"] = status
        key = Key(served.key, namespace, restored["metadata"]["name"])
        try:
            return self._created(served, key, restored)
        except KeyTakenError:
            raise already_exists(served.resource, key.name) from None

    # --- updating -----------------------------------------------------------------------------------------

    def update(
        self,
        served: Served,
        key: tuple[str, str],
        body: Any,
        options: WriteOptions,
        subresource: str = "",
    ) -> tuple[Body, bool]:
        """Replaces the object at ``key`` (namespace, name). Also says whether it was created by this."""
        namespace, name = key
        checked = check_kind(body, served)
        check_decoding(checked, served, options.field_validation, options.warnings)
        new = to_stored(checked, served)
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name"):
            text = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            raise bad_request(text)
        unique_owners(metadata, options.warnings)
        self._check_name(metadata, name)
        self._set_namespace(served, metadata, namespace)
        missing = self.store.get(Key(served.key, namespace, name)) is None
        if missing and not subresource and served.key in CREATE_ON_UPDATE:
            return self.create(served, namespace, body, options), True
        if not missing and not metadata.get("resourceVersion") and needs_resource_version(served):
            raise unconditional(served, name)
        return self.change(served, key, lambda _old: copy.deepcopy(new), options, subresource), False

    def patch(
        self,
        served: Served,
        key: tuple[str, str],
        patch: Patch,
        options: WriteOptions,
        subresource: str = "",
    ) -> Body:
        """Changes the object as ``patch`` does to the form that clients of ``served`` see."""
        namespace, name = key

        def change(old: Body) -> Body:
            document = from_stored(old, served)
            new_form = patched(patch, document, kind=served.kind.kind, api_version=served.kind.api_version)
            check_patched(new_form, served, patch, options.field_validation, options.warnings)
            new = to_stored(new_form, served)
            metadata = new.setdefault("metadata", {})
            unique_owners(metadata, options.warnings, when=" after mutating admission happens")
            self._check_name(metadata, name)
            self._set_namespace(served, metadata, namespace)
            return new

        return self.change(served, key, change, options, subresource, reapply=True)

    def apply(
        self, served: Served, key: tuple[str, str], config: Any, options: WriteOptions, subresource: str = ""
    ) -> tuple[Body, bool]:
        """Server-side apply of ``config``. Also says whether it created the object."""
        namespace, name = key
        checked = check_kind(config, served)
        if not config.get("apiVersion") or not config.get("kind"):
            raise bad_request("invalid object type: an applied object names its apiVersion and kind")
        wanted = without_nulls(checked)
        metadata = wanted.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request("metadata must be an object")
        self._check_name(metadata, name)
        self._set_namespace(served, metadata, namespace)
        ownership.check_config(served, wanted)
        check_decoding(checked, served, "Ignore", options.warnings)
        for _attempt in range(ATTEMPTS):
            try:
                if self.store.get(Key(served.key, namespace, name)) is None and not subresource:
                    body = ownership.applied(served, None, copy.deepcopy(wanted), options, self.now())
                    return self.create(served, namespace, body, options, track=False), True
                changed = self.change(
                    served,
                    key,
                    lambda old: to_stored(
                        ownership.applied(
                            served, old, copy.deepcopy(wanted), options, self.now(), subresource
                        ),
                        served,
                    ),
                    options,
                    subresource,
                    reapply=True,
                    track=False,
                )
                return changed, False
            except StatusError as error:  # somebody created or deleted it meanwhile
                if error.reason not in ("AlreadyExists", "NotFound") or subresource:
                    raise
        raise conflict(served.resource, name, MODIFIED)

    def change(
        self,
        served: Served,
        key: tuple[str, str],
        change: Callable[[Body], Body],
        options: WriteOptions,
        subresource: str,
        *,
        reapply: bool = False,
        track: bool = True,
    ) -> Body:
        """Writes what ``change`` makes of the stored object. Raises the StatusErrors of :meth:`update`.

        ``reapply``: ``change`` starts from what is stored, so a lost race is another try, no conflict.

        ``track`` is false when ``change`` sets ``managedFields`` itself.
        """
        namespace, name = key
        for _attempt in range(ATTEMPTS):
            record = self.get(served, namespace, name)
            old = record.body()
            new = change(record.body())
            insists = check_revision(served, new["metadata"], record, name)
            prepare_update(served, new, old, subresource)
            set_defaults(served.key, new, self.now())
            if track:
                ownership.track(served, old, new, options, self.now(), subresource)
            self._check(served, new, options, old, subresource)
            _warn(served, new, options)
            try:
                return self._write(served, record, old, new, dry_run=options.dry_run)
            except StaleError:
                if insists and not reapply:
                    raise conflict(served.resource, name, MODIFIED) from None
            except NoSuchKeyError:
                raise not_found(served.resource, name) from None
        raise conflict(served.resource, name, MODIFIED)

    def _write(self, served: Served, record: Record, old: Body, new: Body, *, dry_run: bool) -> Body:
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = kept(new, served)
        if ownership.same(new, old):
            return old
        if dry_run:
            return new
        if deletion.is_finished(served, new):
            deletion.remove(self, record)
            return new
        written = self.store.replace(record.key, new, index(served, new), record.revision).body()
        if served.key == NAMESPACES:
            deletion.finish_namespace(self, record.key.name)
        elif served.key == DEFINITIONS:
            self._define(written)
            deletion.finish_definition(self, record.key.name)
        return written

    @staticmethod
    def _check_name(metadata: Body, name: str) -> None:
        named = metadata.get("name")
        if named and named != name:
            raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({name})")
        metadata["name"] = name

    # --- binding and deleting -----------------------------------------------------------------------------

    def bind(self, namespace: str, name: str, binding: Any, *, dry_run: bool = False) -> None:
        """Assigns a pod to a node, once, as ``POST pods/NAME/binding`` does."""
        assign(self, namespace, name, binding, dry_run=dry_run)

    def delete(self, served: Served, namespace: str, name: str, options: DeleteOptions) -> tuple[Body, bool]:
        """The object's last state, and whether it is gone (finalizers or a namespace's content keep it)."""
        return deletion.delete(self, served, namespace, name, options)


def _warn(served: Served, body: Body, options: WriteOptions) -> None:
    """Says what of a definition is not done here."""
    if served.key == DEFINITIONS:
        options.warnings.extend(ignored(body))
