# SPDX-License-Identifier: Apache-2.0
"""The file of the audit log."""

from __future__ import annotations

import stat

from kubeloop.apiserver.audit.log import AuditLog, LogLimits
from tests.unit.apiserver.conftest import ManualClock

MEGABYTE = 1 << 20


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_lines_are_appended_to_an_existing_file(tmp_path):
    for line in (b"one\n", b"two\n"):
        log = AuditLog(str(tmp_path / "audit.log"), LogLimits(), ManualClock())
        log.write(line)
        log.close()
    assert (tmp_path / "audit.log").read_bytes() == b"one\ntwo\n"


def test_file_is_readable_by_its_owner_only(tmp_path):
    AuditLog(str(tmp_path / "logs" / "audit.log"), LogLimits(), ManualClock()).close()
    assert stat.S_IMODE((tmp_path / "logs" / "audit.log").stat().st_mode) == 0o600


def test_large_file_is_rotated_and_old_ones_are_deleted(tmp_path):
    clock = ManualClock()
    log = AuditLog(str(tmp_path / "audit.log"), LogLimits(megabytes=1, backups=2), clock)
    (tmp_path / "audit-by-hand.log").write_text("not ours")
    for letter in b"abcd":
        log.write(bytes([letter]) * (MEGABYTE - 1) + b"\n")
        clock.advance(1)
    log.close()
    assert names(tmp_path) == [
        "audit-2026-05-10T12-00-02.000.log",
        "audit-2026-05-10T12-00-03.000.log",
        "audit-by-hand.log",
        "audit.log",
    ]
    assert (tmp_path / "audit.log").read_bytes()[:1] == b"d"
    assert (tmp_path / "audit-2026-05-10T12-00-03.000.log").read_bytes()[:1] == b"c"


def test_expired_files_are_deleted(tmp_path):
    clock = ManualClock()
    log = AuditLog(str(tmp_path / "audit.log"), LogLimits(megabytes=1, days=1), clock)
    for _ in range(3):
        log.write(b"x" * MEGABYTE)
        clock.advance(40 * 3600)
    log.close()
    assert names(tmp_path) == ["audit-2026-05-13T20-00-00.000.log", "audit.log"]
