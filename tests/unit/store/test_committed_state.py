# SPDX-License-Identifier: Apache-2.0
"""Pages of keys, at the edges of prefixes."""

from __future__ import annotations

import pytest

from kubeloop.store.base import Record
from kubeloop.store.committed_state import Keyspace


def keyspace(*keys: str) -> Keyspace:
    return Keyspace({key: Record(key, b"", 2, 2) for key in keys})


@pytest.mark.parametrize("prefix", ["", "a", "a\U0010ffff", "\U0010ffff", "\U0010ffff\U0010ffff", "b\ud7ff"])
def test_page_has_exactly_the_keys_of_its_prefix(prefix: str) -> None:
    keys = ["a", "a\U0010ffff", "a\U0010ffffx", "b", "b\ud7ff", "b\ue000", "\U0010ffff", "\U0010ffff\U0010ffffz"]
    page, remaining = keyspace(*keys).page(prefix, "", 0, {})
    assert [record.key for record in page] == [key for key in keys if key.startswith(prefix)]
    assert remaining == 0


@pytest.mark.parametrize(("start_after", "found"), [("", 2), ("/a", 2), ("/b/1", 1), ("/b/2", 0), ("/c", 0), ("/z", 0)])
def test_a_page_may_start_outside_its_prefix(start_after: str, found: int) -> None:
    page, _ = keyspace("/a/1", "/b/1", "/b/2", "/c/1").page("/b/", start_after, 0, {})
    assert len(page) == found
