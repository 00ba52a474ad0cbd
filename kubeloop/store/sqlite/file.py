# SPDX-License-Identifier: Apache-2.0
"""SQLite file: its schema, and functions that write, read and check rows.

    log(revision, prior, created, key, value, crc)   one row a revision; value NULL means deleted
    meta(name, value)                                schema, compact_revision, cluster_id; of a snapshot its seal

`prior` is the revision of the row before, so that a missing row shows; `created` is the
revision that made the key; `crc` covers all the others, so that a changed bit shows. Rows up
to `compact_revision` are there only if they are a key's current value, or if compaction has
not removed them yet. The view `current` is for people with the sqlite3 shell.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from typing import TypeAlias
from zlib import crc32

from kubeloop.store.base import EMPTY_REVISION, Record, StoreEvent
from kubeloop.store.errors import StoreCorrupt, StoreError
from kubeloop.store.history import superseded_by
from kubeloop.store.log import LoadedLog

SCHEMA_VERSION = 1
_SEAL = "seal"
PAGE_SIZE = 32768
_COLUMNS = 6
MAX_PARAMETERS = 32766  # in one statement, SQLite's limit
_ROWS_A_STATEMENT = MAX_PARAMETERS // _COLUMNS
_ROWS_A_FETCH = 1000

Row: TypeAlias = tuple[int, int, int, str, bytes | None, int]

_SCHEMA = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    prior INTEGER NOT NULL,
    created INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB,
    crc INTEGER NOT NULL
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE VIEW current AS
    SELECT key, max(revision) AS revision, created, CAST(value AS TEXT) AS value
    FROM log GROUP BY key HAVING value IS NOT NULL;
"""


def uri_of(path: str, mode: str) -> str:
    """Return SQLite's URI of a file that must exist; `mode` is `ro` or `rw`."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?mode={mode}"


def connect(path: str) -> sqlite3.Connection:
    """Open an existing file in autocommit mode with the pragmas that every user of it needs."""
    connection = sqlite3.connect(
        uri_of(path, "rw"), uri=True, isolation_level=None, check_same_thread=False, cached_statements=512
    )
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
    except BaseException:
        connection.close()
        raise
    return connection


def create_private(path: str) -> None:
    """Create an empty file that only its owner may read; SQLite gives its other files the same permissions."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def restrict_to_owner(path: str) -> None:
    """Remove the permissions of group and others from a store's files, which hold secrets."""
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):  # not there, or somebody else's file, or a read-only file system
            if os.stat(name).st_mode & 0o077:
                os.chmod(name, 0o600)


def create(path: str, content: LoadedLog, *, sealed: bool = False) -> None:
    """Write a whole new file beside its place, and move it there only when it is complete.

    So a file under the final name is never half-made: if it is empty or lacks its tables, it is damaged.
    """
    unfinished = f"{path}.new"
    _remove_if_there(unfinished)
    create_private(unfinished)
    connection = sqlite3.connect(unfinished, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(f"BEGIN;{_SCHEMA}")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", _meta_of(content).items())
        insert_rows(connection, list(_rows_of(content)))
        if sealed:
            connection.execute("INSERT INTO meta VALUES (?, ?)", (_SEAL, _digest(connection)))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()
    os.rename(unfinished, path)
    _sync_folder(path)


def check_seal(path: str) -> None:
    """Raise `StoreError` unless the file is a complete snapshot."""
    with closing(sqlite3.connect(f"{uri_of(path, 'ro')}&immutable=1", uri=True)) as connection:
        _check_structure(connection)
        _read_meta(connection)
        sealed = connection.execute("SELECT value FROM meta WHERE name = ?", (_SEAL,)).fetchone()
        if sealed is None:
            raise StoreError("it is a store's own file, not a snapshot")
        if sealed[0] != _digest(connection):
            raise StoreCorrupt("its checksum does not match")


def break_seal(connection: sqlite3.Connection) -> None:
    """Remove the seal: a snapshot that is opened as a store is a snapshot no longer."""
    if connection.execute("SELECT 1 FROM meta WHERE name = ?", (_SEAL,)).fetchone():
        connection.execute("DELETE FROM meta WHERE name = ?", (_SEAL,))


def _digest(connection: sqlite3.Connection) -> str:
    """Return the digest of everything but the seal itself."""
    digest = sha256()
    for name, value in connection.execute("SELECT name, value FROM meta WHERE name != ? ORDER BY name", (_SEAL,)):
        digest.update(f"{name}={value}\n".encode())
    for revision, prior, created, key, value, _ in _all_rows(connection):
        digest.update(f"{revision} {prior} {created} {-1 if value is None else len(value)} {key}\n".encode())
        digest.update(value or b"")
    return digest.hexdigest()


def rows_for(events: Iterable[StoreEvent], after: int) -> list[Row]:
    """Convert a batch to rows; `after` is the revision of the row before them."""
    rows = []
    for event in events:
        if (kept := event.record or event.previous) is None:
            raise StoreError(f"revision {event.revision} neither writes nor deletes anything")
        value = None if event.record is None else event.record.value
        rows.append(_row(event.revision, after, kept.create_revision, event.key, value))
        after = event.revision
    return rows


def insert_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert rows in as few statements as possible: each one costs a hand-over of the interpreter lock."""
    for start in range(0, len(rows), _ROWS_A_STATEMENT):
        part = rows[start : start + _ROWS_A_STATEMENT]
        values = ",".join(["(?,?,?,?,?,?)"] * len(part))
        connection.execute(f"INSERT INTO log VALUES {values}", [field for row in part for field in row])


def touch(connection: sqlite3.Connection) -> None:
    """Write something that changes nothing."""
    connection.execute("UPDATE meta SET value = value WHERE name = 'schema'")


def delete_rows(connection: sqlite3.Connection, revisions: Sequence[int]) -> None:
    """Delete the rows of revisions."""
    if revisions:
        connection.execute(f"DELETE FROM log WHERE revision IN ({','.join(['?'] * len(revisions))})", revisions)


def store_compact_revision(connection: sqlite3.Connection, revision: int) -> None:
    """Store the compact revision."""
    connection.execute("UPDATE meta SET value = ? WHERE name = 'compact_revision'", (revision,))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block of statements in a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled some failures back by itself
            connection.execute("ROLLBACK")
        raise


def fits_one_statement(rows: Sequence[Row]) -> bool:
    """Return True if the rows fit one statement, which is its own transaction."""
    return len(rows) <= _ROWS_A_STATEMENT


def _check_structure(connection: sqlite3.Connection) -> None:
    """Run SQLite's own check: a fifth of the loading time, and it sees what loading cannot.

    For example two uses of one page, by which the next write would overwrite something good.
    """
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreCorrupt(" ".join(str(found).split()))


def _read_meta(connection: sqlite3.Connection) -> LoadedLog:
    """Return an empty log with its metadata, after checking that the schema is known."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"log", "meta"} <= tables:
        raise StoreCorrupt("it is a database, but not one of this store (its tables are missing)")
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    schema, compacted, cluster_id = (meta.get(name) for name in ("schema", "compact_revision", "cluster_id"))
    if not isinstance(schema, int) or not isinstance(compacted, int) or not isinstance(cluster_id, str):
        raise StoreCorrupt("its meta table is incomplete")
    if schema != SCHEMA_VERSION:
        raise StoreError(f"its schema is version {schema}, and this program knows version {SCHEMA_VERSION}")
    return LoadedLog(revision=compacted, compact_revision=compacted, cluster_id=cluster_id)


def _meta_of(content: LoadedLog) -> dict[str, int | str]:
    return {
        "schema": SCHEMA_VERSION,
        "compact_revision": content.compact_revision,
        "cluster_id": content.cluster_id,
    }


def load(path: str, *, unchanging: bool = False) -> tuple[LoadedLog, list[int]]:
    """Check and read everything; also returns the rows that an interrupted compaction left to remove.

    Read-only: to close a connection that may write moves the write-ahead log into the main file,
    and damaged files should stay as they were found. Another process may be writing, unless `unchanging` is set:
    then the file may be on a read-only file system.
    """
    uri = uri_of(path, "ro") + ("&immutable=1" if unchanging else "")
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.execute("BEGIN")  # one moment's state, whatever is written meanwhile
        _check_structure(connection)
        return _replay(connection, _read_meta(connection))


def _replay(connection: sqlite3.Connection, loaded: LoadedLog) -> tuple[LoadedLog, list[int]]:
    compact_revision = loaded.compact_revision
    garbage: list[int] = []
    last = EMPTY_REVISION
    for row in _all_rows(connection):
        revision, prior, created, key, value, _ = row
        if not isinstance(value, bytes | None) or row != _row(revision, prior, created, key, value):
            raise StoreCorrupt(f"revision {revision} does not match its checksum")
        previous = loaded.records.pop(key, None)
        record = None if value is None else Record(key, value, created, revision)
        event = StoreEvent(revision, key, record, previous)
        if revision > compact_revision:
            _check_sequence(event, prior, created, last if last > compact_revision else 0)
            loaded.events.append(event)
            loaded.revision = revision
        else:
            garbage.extend(superseded_by(event))
        if record is not None:
            loaded.records[key] = record
        last = revision
    return loaded, garbage


def _check_sequence(event: StoreEvent, prior: int, created: int, last_kept: int) -> None:
    """Check that each row names the one before it, and that only an existing key is changed or deleted."""
    if last_kept and prior != last_kept:
        raise StoreCorrupt(f"revisions between {last_kept} and {event.revision} are missing")
    expected = event.revision if event.previous is None else event.previous.create_revision
    if created != expected:
        raise StoreCorrupt(f"the state before revision {event.revision} is missing")


def _all_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    cursor = connection.execute("SELECT revision, prior, created, key, value, crc FROM log ORDER BY revision")
    while rows := cursor.fetchmany(_ROWS_A_FETCH):
        yield from rows


def _rows_of(content: LoadedLog) -> Iterator[Row]:
    last = EMPTY_REVISION
    for record in sorted(content.before_events().values(), key=lambda record: record.mod_revision):
        yield _row(record.mod_revision, last, record.create_revision, record.key, record.value)
        last = record.mod_revision
    yield from rows_for(content.events, max(last, content.compact_revision))


def _row(revision: int, prior: int, created: int, key: str, value: bytes | None) -> Row:
    crc = crc32(f"{revision} {prior} {created} {value is None} {key}".encode())
    if value:
        crc = crc32(value, crc)
    return revision, prior, created, key, value, crc


def _remove_if_there(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal"):
        if os.path.exists(name):
            os.remove(name)


def _sync_folder(path: str) -> None:
    """Flush the folder, so that a rename is durable."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
