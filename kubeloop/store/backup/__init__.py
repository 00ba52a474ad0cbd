# SPDX-License-Identifier: Apache-2.0
"""Copies of a store's content.

migrate.py: save, restore and move ─▶ snapshot.py: sealed SQLite file ─▶ a SQLite store or etcd
fork.py: clones a SQLite store. formats.py: migrates stored values from older formats.
"""
