# SPDX-License-Identifier: Apache-2.0
"""Tests of the kubeconfig: complete, and other content of the file is kept."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from kubeloop.cli.pki.files import Pki
from kubeloop.cli.pki.kubeconfig import (
    KubeconfigError,
    admin_kubeconfig,
    remove_context,
    server_url,
    write_kubeconfig,
)


@pytest.fixture
def text(tmp_path: Path) -> str:
    pki = Pki(tmp_path / "pki")
    pki.folder.mkdir()
    for path in pki.files:
        path.write_bytes(path.name.encode())
    return admin_kubeconfig(pki, pki.ca, "https://127.0.0.1:6443")


def test_kubeconfig_has_ca_certificate_and_key(text: str) -> None:
    config = yaml.safe_load(text)
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(b"ca.crt").decode(),
    }
    user = config["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == b"admin.crt"
    assert base64.b64decode(user["client-key-data"]) == b"admin.key"
    assert config["current-context"] == config["contexts"][0]["name"]


def test_new_kubeconfig_is_private_and_its_folder_is_created(text: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    write_kubeconfig(path, text)
    assert path.read_text() == text
    assert path.stat().st_mode & 0o777 == 0o600


def test_other_clusters_in_a_kubeconfig_are_kept(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    other = {"name": "prod", "cluster": {"server": "https://prod:6443"}}
    stale = {"name": "kubeloop", "cluster": {"server": "https://127.0.0.1:1"}}
    path.write_text(yaml.safe_dump({"clusters": [other, stale], "current-context": "prod", "preferences": {"x": 1}}))
    write_kubeconfig(path, text)
    merged = yaml.safe_load(path.read_text())
    assert [one["name"] for one in merged["clusters"]] == ["prod", "kubeloop"]
    assert merged["clusters"][1]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert merged["preferences"] == {"x": 1}
    assert merged["current-context"] == "prod"
    write_kubeconfig(path, text, switch=True)
    assert yaml.safe_load(path.read_text())["current-context"] == "kubeloop"


def test_removed_context_leaves_the_others(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    write_kubeconfig(path, text)
    write_kubeconfig(path, text.replace("kubeloop", "other"))
    remove_context(path, "kubeloop")
    left = yaml.safe_load(path.read_text())
    assert [one["name"] for part in ("clusters", "users", "contexts") for one in left[part]] == ["other"] * 3
    assert left["current-context"] == ""
    remove_context(path, "other")
    assert not path.exists()
    remove_context(path, "other")


@pytest.mark.parametrize("content", ["just text", "- a\n- list", "kind: Pod", "{", "a: b: c"])
def test_file_that_is_not_a_kubeconfig_is_rejected_and_kept(content: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(KubeconfigError, match="is not a kubeconfig"):
        write_kubeconfig(path, text)
    assert path.read_text() == content


def test_symlinked_kubeconfig_is_written_to_its_target(text: str, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    write_kubeconfig(tmp_path / "link", text)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == text


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:7"),
        ("0.0.0.0", "https://127.0.0.1:7"),
        ("192.0.2.1", "https://192.0.2.1:7"),
        ("::", "https://[::1]:7"),
        ("fd00::5", "https://[fd00::5]:7"),
    ],
)
def test_url_is_usable_on_this_machine(address: str, url: str) -> None:
    assert server_url(address, 7) == url
