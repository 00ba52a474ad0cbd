# SPDX-License-Identifier: Apache-2.0
"""Tests of `kubeloop up --runtime`: how the container runtime is found, and the record of its node."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from kubeloop.apiserver.server import StartupError
from kubeloop.cli.kubelet.node_record import NodeRecord, load_node_record, remove_node_pods, save_node_record
from kubeloop.cli.up import real_node
from kubeloop.cli.up.real_node import find_runtime


@pytest.fixture
def on_linux_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("on_linux_as_root")
def test_socket_is_found_by_name_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        path = str(tmp_path / "s")
        assert find_runtime(f"unix://{path}") == f"unix://{path}"
        monkeypatch.setattr(real_node, "_SOCKETS", {"containerd": ("/no/such", path), "cri-o": ("/no/crio",)})
        assert find_runtime("containerd") == f"unix://{path}"
        with pytest.raises(StartupError, match="there is no socket at /no/crio; is crio running"):
            find_runtime("crio")


@pytest.mark.usefixtures("on_linux_as_root")
def test_missing_socket_and_unknown_runtime_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="there is no socket at"):
        find_runtime(f"unix://{tmp_path}/file")
    with pytest.raises(StartupError, match="'docker' is not one of containerd, cri-o and unix://PATH"):
        find_runtime("docker")


def test_other_systems_and_users_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(StartupError, match="needs Linux"):
        find_runtime("containerd")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(StartupError, match="needs root"):
        find_runtime("containerd")


def test_record_of_a_node_names_its_pods(tmp_path: Path) -> None:
    assert load_node_record(tmp_path) is None
    record = NodeRecord("host", "unix:///run/s", str(tmp_path / "kubelet"), "/")
    save_node_record(tmp_path, record)
    assert load_node_record(tmp_path) == record
    assert record.pod_uids() == []
    remove_node_pods(tmp_path)  # no pods: the runtime is not asked
    (tmp_path / "kubelet" / "pods" / "one").mkdir(parents=True)
    assert record.pod_uids() == ["one"]
