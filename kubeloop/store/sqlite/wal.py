# SPDX-License-Identifier: Apache-2.0
"""Detects that SQLite is about to drop acknowledged writes from a damaged write-ahead log.

After a crash SQLite replays the log up to the first frame that is not intact, and takes the rest
for the remains of the crash. So it is, if the last transaction was cut off. But one that was
followed by another had been flushed and acknowledged: then the frame has been damaged since, and
to go on would lose data silently. The layout is SQLite's published file format.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

from kubeloop.store.errors import StoreCorrupt
from kubeloop.store.sqlite.file import uri_of

_LOG_HEADER = struct.Struct(">8I")  # magic, version, page size, sequence, two salts, two checksums
_FRAME_HEADER = struct.Struct(">6I")  # page, size of the database if a commit, two salts, two checksums
_LAST_FRAME_OFFSET = 16  # of the last intact commit's frame number, in the shared memory file
_MAGIC = (0x377F0682, 0x377F0683)  # the lowest bit says that checksums are big-endian


def refuse_lost_commits(path: str) -> None:
    """Raise `StoreCorrupt` if the log of the database at `path` holds commits that SQLite would not replay.

    To be called before the database is opened for writing: closing it would remove the evidence.
    """
    log_path = f"{path}-wal"
    if not os.path.exists(log_path) or os.path.getsize(log_path) <= _LOG_HEADER.size:
        return
    replayed = _replayed_frames(path)
    with open(log_path, "rb") as log:
        if replayed is not None and _has_acknowledged_commit(_frames_after(log, replayed)):
            raise StoreCorrupt(f"its write-ahead log is unreadable after frame {replayed}, although more was written")


def _replayed_frames(path: str) -> int | None:
    """Return the number of frames that SQLite recovers, read-only so that nothing is changed."""
    with closing(sqlite3.connect(uri_of(path, "ro"), uri=True)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    # Only now that it is closed: closing a file drops the locks that SQLite has on it in this process.
    try:
        with open(f"{path}-shm", "rb") as shared:
            (frames,) = struct.unpack_from("=I", shared.read(_LAST_FRAME_OFFSET + 4), _LAST_FRAME_OFFSET)
    except (FileNotFoundError, struct.error):
        return None
    return int(frames)


def _frames_after(log: BinaryIO, number: int) -> Iterator[bool]:
    """Yield for each later frame of the log's present generation True if it is a commit."""
    head = log.read(_LOG_HEADER.size)
    _, _, page_size, _, *salts, _, _ = _LOG_HEADER.unpack(head)
    intact = _is_intact(head)
    if not intact:
        page_size = _page_size_of_main(log.name.removesuffix("-wal"))
    log.seek(_LOG_HEADER.size + number * (_FRAME_HEADER.size + page_size))
    while len(header := log.read(_FRAME_HEADER.size)) == _FRAME_HEADER.size:
        _, commit_size, *frame_salts, _, _ = _FRAME_HEADER.unpack(header)
        # The salts of a damaged header cannot be trusted: all frames count that agree with the first that is not zero,
        # as one is in the hole that a log has after it was truncated while in use.
        if not intact and any(frame_salts):
            salts, intact = frame_salts, True
        # Another generation differs in both salts, so that one alone is damage. Zeros were never written.
        if any(own == of_log != 0 for own, of_log in zip(frame_salts, salts, strict=True)):
            yield commit_size > 0
        log.seek(page_size, os.SEEK_CUR)


def _has_acknowledged_commit(frames: Iterator[bool]) -> bool:
    """Return True if a commit is followed by another frame: it was flushed before that."""
    return any(is_commit and next(frames, None) is not None for is_commit in frames)


def _is_intact(head: bytes) -> bool:
    magic, *_, first, second = _LOG_HEADER.unpack(head)
    if magic not in _MAGIC:
        return False
    words = struct.unpack(">6I" if magic & 1 else "<6I", head[:24])
    sum1 = sum2 = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        sum1 = (sum1 + even + sum2) & 0xFFFFFFFF
        sum2 = (sum2 + odd + sum1) & 0xFFFFFFFF
    return (sum1, sum2) == (first, second)


def _page_size_of_main(path: str) -> int:
    with open(path, "rb") as main:
        size = int.from_bytes(main.read(18)[16:18], "big")
    return 65536 if size == 1 else size
