# SPDX-License-Identifier: Apache-2.0
"""SQLite store: a durable log in a single file.

SqliteStore ─▶ engine ─▶ SqliteLog (both in log.py): writer thread ─▶ file.py: rows and checks
checkpoint.py moves the write-ahead log into the main file; wal.py detects lost commits; filelock.py: one process.
"""
