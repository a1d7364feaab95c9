"""A store on disk: what was acknowledged is there after a crash, and revisions go on from where they were.

Every write is one SQLite transaction in write-ahead mode, synced before anybody sees the change. Reading
happens in memory. The newest changes are kept beside the objects, so that a watch can resume across a
restart; one from before them is told to list again.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

import msgspec

from baro.apiserver.storage import LOG_LENGTH, Change, Index, Key, MemoryStore, Record, ResourceKey
from baro.model.errors import InputError

FILE: Final = "baro-apiserver.db"
FORMAT: Final = 2
"""Version of the file. A newer program reads older files; an older one refuses newer files."""
HISTORY: Final = 2_000
"""Changes that are kept on disk, unless the log in memory is shorter."""
_APPLICATION: Final = 0x6261726F
"""``baro`` in ASCII: how a file of ours is told from other SQLite files."""

_SCHEMA: Final = """
CREATE TABLE revision (newest INTEGER NOT NULL);
INSERT INTO revision VALUES (1);
CREATE TABLE objects (
    grp TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    revision INTEGER NOT NULL, data BLOB NOT NULL, selectable BLOB NOT NULL,
    PRIMARY KEY (grp, plural, namespace, name)
) WITHOUT ROWID;
"""
_HISTORY_SCHEMA: Final = """
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, type TEXT NOT NULL,
    grp TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    data BLOB NOT NULL, selectable BLOB NOT NULL,
    before_revision INTEGER, before_data BLOB, before_selectable BLOB
);
"""
"""Since format 2: what a change made of an object, and what that was before."""


class SqliteStore(MemoryStore):
    """A :class:`~baro.apiserver.storage.Store` whose objects outlive the process, in a folder of its own.

    Raises ``InputError`` when the folder cannot be used: no database of ours, one of a newer format, or one
    that another server has open.
    """

    def __init__(self, folder: str | Path, log_length: int = LOG_LENGTH) -> None:
        super().__init__(log_length)
        self.path = Path(folder) / FILE
        self._history = min(HISTORY, log_length)
        self._database = _open(self.path)
        try:
            self._load()
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Writes after this fail; reads go on."""
        with self._lock:
            self._database.close()

    def _load(self) -> None:
        columns = "grp, plural, namespace, name, revision, data, selectable"
        try:
            (self._revision,) = self._database.execute("SELECT newest FROM revision").fetchone()
            for row in self._database.execute(f"SELECT {columns} FROM objects"):  # noqa: S608 - a constant
                group, plural, namespace, name, revision, data, selectable = row
                index = msgspec.json.decode(selectable, type=Index)
                self._keep(Record(Key(ResourceKey(group, plural), namespace, name), revision, data, index))
            self._load_history()
        except (sqlite3.DatabaseError, msgspec.MsgspecError, TypeError, ValueError) as error:
            raise InputError(
                f"{self.path} is damaged: {error}", next_step="restore a copy, or start with an empty folder"
            ) from None

    def _load_history(self) -> None:
        """Takes over the changes on disk, if they lead to the newest revision without a gap."""
        found = [
            _change(row)
            for row in self._database.execute("SELECT * FROM changes ORDER BY revision").fetchall()
        ]
        revisions = [change.revision for change in found]
        if revisions == list(range(self._revision - len(found) + 1, self._revision + 1)):
            self._log.extend(found)

    def _commit(self, change: Change) -> None:
        key = change.record.key
        place = (*key.resource, key.namespace, key.name)
        with self._database:  # commits, or rolls back when something raises
            if change.type == "DELETED":
                where = "grp = ? AND plural = ? AND namespace = ? AND name = ?"
                self._database.execute(f"DELETE FROM objects WHERE {where}", place)  # noqa: S608 - a constant
            else:
                selectable = msgspec.json.encode(change.record.index)
                row = (*place, change.revision, change.record.data, selectable)
                self._database.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self._database.execute("UPDATE revision SET newest = ?", (change.revision,))
            marks = ", ".join("?" * 11)
            self._database.execute(f"INSERT INTO changes VALUES ({marks})", _row(change))  # noqa: S608
            oldest = change.revision - self._history
            self._database.execute("DELETE FROM changes WHERE revision <= ?", (oldest,))


def _row(change: Change) -> tuple[Any, ...]:
    record, before = change.record, change.previous
    now = (record.data, msgspec.json.encode(record.index))
    then: tuple[int | None, bytes | None, bytes | None] = (None, None, None)
    if before is not None:
        then = (before.revision, before.data, msgspec.json.encode(before.index))
    return (change.revision, change.type, *record.key.resource, *record.key[1:], *now, *then)


def _change(row: tuple[Any, ...]) -> Change:
    revision, type_, group, plural, namespace, name, data, selectable, then, before, before_selectable = row
    key = Key(ResourceKey(group, plural), namespace, name)
    record = Record(key, revision, data, msgspec.json.decode(selectable, type=Index))
    previous = None
    if then is not None:
        previous = Record(key, then, before, msgspec.json.decode(before_selectable, type=Index))
    return Change(revision, type_, record, previous)


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(path, timeout=0, check_same_thread=False, isolation_level="IMMEDIATE")
    except (OSError, sqlite3.Error) as error:
        raise InputError(
            f"cannot open {path}: {error}", next_step="name a folder that can be written"
        ) from None
    try:
        _prepare(database, path)
    except sqlite3.OperationalError as error:
        database.close()
        if "locked" in str(error):
            raise InputError(
                f"{path} is in use by another server", next_step="stop it, or name another folder"
            ) from None
        raise InputError(f"cannot use {path}: {error}", next_step="name another folder") from None
    except sqlite3.DatabaseError:
        database.close()
        raise _not_ours(path) from None
    except InputError:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    """Takes the file for this process alone, checks its format, and makes the tables of a new one."""
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    with database:
        database.execute("BEGIN IMMEDIATE")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if version == application == tables == 0:
            for statement in f"{_SCHEMA}{_HISTORY_SCHEMA}".split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {FORMAT}")
        elif application != _APPLICATION:
            raise _not_ours(path)
        elif version > FORMAT:
            raise InputError(
                f"{path} has format {version}, and this program knows formats up to {FORMAT}",
                next_step="use the newer baro that wrote it, or another folder",
            )
        elif version < FORMAT:
            database.execute(_HISTORY_SCHEMA)
            database.execute(f"PRAGMA user_version = {FORMAT}")


def _not_ours(path: Path) -> InputError:
    return InputError(f"{path} is no database of `baro apiserver`", next_step="name another folder")
