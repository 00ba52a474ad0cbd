# SPDX-License-Identifier: Apache-2.0
"""Checkpoint files: checksums as upstream computes them, and writes that are complete or have not happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop.kubelet.checkpoints.checksum import fnv32a, go_map, go_slice, go_struct, string_checksum
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint, decode_data, encode_data


def test_checksum_of_a_struct_is_that_of_a_kubelet() -> None:
    """The file of every node with the policy none has this checksum."""
    fields = {
        "PolicyName": ("string", "none"),
        "DefaultCPUSet": ("string", ""),
        "Entries": ("map[string]map[string]string", go_map({})),
        "Checksum": ("checksum.Checksum", "0"),
    }
    assert fnv32a(f"(*state.CPUManagerCheckpoint){go_struct(fields)}") == 1353318690


def test_go_values_are_printed_in_order() -> None:
    assert go_map({"b": "2", "a": "1"}) == "map[a:1 b:2]"
    assert go_map(None) == go_slice(None) == "<nil>"
    assert go_slice(["x", "y"]) == "[x y]"
    assert string_checksum("a") == fnv32a("(string)a")


def test_data_is_read_back_and_damage_is_found() -> None:
    content = encode_data({"entries": {"u1": [1, 2]}})
    assert decode_data(content) == {"entries": {"u1": [1, 2]}}
    for broken in (content.replace(b"u1", b"u2"), content[:-5], b"", b"{}", b"[]"):
        with pytest.raises(CorruptCheckpoint):
            decode_data(broken)


def test_a_failed_write_keeps_the_file_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path / "state")
    assert store.read("x") is None
    store.write("x", b"one")
    assert store.read("x") == b"one"

    def fail(self: Path, target: Path) -> Path:
        raise OSError("full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="full"):
        store.write("x", b"two")
    assert store.read("x") == b"one"
    assert [one.name for one in (tmp_path / "state").iterdir()] == ["x"]
    store.remove("x")
    store.remove("x")
    assert store.read("x") is None
