# SPDX-License-Identifier: Apache-2.0
"""Keyring: credentials are matched with images, and hashed, as upstream does."""

from __future__ import annotations

import base64
import json
import logging
from hashlib import sha256
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import Secret
from kubeloop.clock import SystemClock
from kubeloop.kubelet.credentialprovider.docker_config import (
    DockerConfigEntry,
    DockerConfigError,
    NodeDockerConfig,
    decode_docker_config_json,
    decode_dockercfg,
)
from kubeloop.kubelet.credentialprovider.keyring import (
    CredentialSource,
    DockerKeyring,
    ObjectCoordinates,
    TrackedAuthConfig,
    hash_credentials,
)
from kubeloop.kubelet.credentialprovider.pull_keyring import decode_pull_secret
from kubeloop.kubelet.images.references import repository_of


def users(servers: dict[str, str], image: str) -> list[str]:
    keyring = DockerKeyring()
    keyring.add({server: DockerConfigEntry(user) for server, user in servers.items()})
    return [one.entry.username for one in keyring.lookup(repository_of(image))]


@pytest.mark.parametrize(
    ("server", "image", "is_match"),
    [
        ("reg.io", "reg.io/a", True),
        ("https://reg.io", "reg.io/a", True),
        ("http://reg.io/", "reg.io/a", True),
        ("https://reg.io/v1/", "reg.io/a", True),
        ("https://reg.io/v2/", "reg.io/a", True),
        ("https://reg.io/v2/ns", "reg.io/ns/a", True),
        ("reg.io/ns", "reg.io/ns/a", True),
        ("reg.io/ns", "reg.io/nsx/a", True),  # the begin of a path, not of its segments
        ("reg.io/ns", "reg.io/other/a", False),
        ("reg.io", "reg.io:5000/a", False),
        ("reg.io:5000", "reg.io:5000/a", True),
        ("reg.io:5000", "reg.io/a", False),
        ("*.reg.io", "x.reg.io/a", True),
        ("*.reg.io", "reg.io/a", False),
        ("*.reg.io", "y.x.reg.io/a", False),
        ("x*.reg.io:80", "xy.reg.io:80/a", True),
        ("x?.reg.io", "xy.reg.io/a", False),  # the begin of a query
        ("[::1]:5000", "[::1]:5000/a", True),
        ("[::1]:5000", "[::1]:5001/a", False),
        ("https://index.docker.io/v1/", "nginx", True),
        ("index.docker.io", "me/app", True),
        ("docker.io", "nginx", True),
        ("reg.io", "nginx", False),
        ("https://index.docker.io/v1/", "reg.io/a", False),
    ],
)
def test_credentials_match(server: str, image: str, is_match: bool) -> None:
    assert users({server: "u"}, image) == (["u"] if is_match else [])


def test_credentials_of_longer_names_are_first() -> None:
    found = users({"reg.io": "host", "reg.io/a/b": "longest", "reg.io/a": "folder", "reg.io/c": "other"}, "reg.io/a/b")
    assert found == ["longest", "folder", "host"]


def test_several_credentials_of_a_registry_are_in_the_order_of_their_sources() -> None:
    keyring = DockerKeyring()
    keyring.add({"reg.io": DockerConfigEntry("one")})
    keyring.add({"https://reg.io/v1/": DockerConfigEntry("two")})
    assert [one.entry.username for one in keyring.lookup("reg.io/a")] == ["one", "two"]


@pytest.mark.parametrize("server", ["reg io", "reg.io:port", "reg.io/%zz", "reg\n.io", "[::1"])
def test_malformed_registries_are_logged_and_left_out(server: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert users({server: "bad", "reg.io": "good"}, "reg.io/a") == ["good"]
    assert "in dockercfg invalid" in caplog.text


def test_hashes_are_of_upstreams_json() -> None:
    expected = sha256(rb'{"username":"u","password":"\u003cp\u0026\"","email":"e"}').hexdigest()
    assert hash_credentials(DockerConfigEntry("u", '<p&"', "e")) == expected
    assert hash_credentials(DockerConfigEntry("u")) == sha256(b'{"username":"u"}').hexdigest()


def test_records_name_the_source_of_credentials() -> None:
    entry, where = DockerConfigEntry("u", "p"), ObjectCoordinates("uid", "ns", "name")
    (secret,) = TrackedAuthConfig(entry, CredentialSource(secret=where)).pull_credentials.kubernetes_secrets
    assert secret.coordinates == ("ns", "name", "uid")
    assert secret.credential_hash == hash_credentials(entry)
    found = TrackedAuthConfig(entry, CredentialSource(service_account=where)).pull_credentials
    (account,) = found.kubernetes_service_accounts
    assert account.coordinates == ("ns", "name", "uid")
    assert TrackedAuthConfig(entry).pull_credentials.node_pods_accessible


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_all_forms_of_pull_secrets_are_read() -> None:
    auths = {"reg.io": {"auth": encode("u:p:w"), "username": "ignored"}}
    new = Secret(
        type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": json.dumps({"auths": auths}).encode()}
    )
    assert decode_pull_secret(new) == {"reg.io": DockerConfigEntry("u", "p:w")}
    content = b'{"reg.io": {"username": "u", "password": "p", "email": "e"}}'
    old = Secret(type="kubernetes.io/dockercfg", data={".dockercfg": content})
    assert decode_pull_secret(old) == {"reg.io": DockerConfigEntry("u", "p", "e")}
    assert decode_pull_secret(Secret(type="Opaque", data={".dockercfg": content})) == {}
    assert decode_pull_secret(Secret(type="kubernetes.io/dockercfg")) == {}


@pytest.mark.parametrize(("auth", "password"), [("dTpw", "p"), ("dTpwdw==", "pw"), ("dTpwdw", "pw"), ("dTo=", "")])
def test_padding_may_be_missing(auth: str, password: str) -> None:
    content = json.dumps({"reg.io": {"auth": auth}}).encode()
    assert decode_dockercfg(content) == {"reg.io": DockerConfigEntry("u", password)}


@pytest.mark.parametrize("entry", ['{"auth": "!"}', '{"auth": "dXA="}', "[]", '{"username": 1}'])
def test_malformed_entries_are_errors(entry: str) -> None:
    with pytest.raises(DockerConfigError):
        decode_docker_config_json(f'{{"auths": {{"reg.io": {entry}}}}}'.encode())
    assert decode_docker_config_json(b"{}") == {}


def test_the_node_has_credentials_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, home, here = tmp_path / "kubelet", tmp_path / "home", tmp_path / "here"
    for folder in (root, home / ".docker", here):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)

    def read() -> list[str]:
        return [one.username for one in NodeDockerConfig(root, home, SystemClock()).entries().values()]

    def write(file: Path, user: str, *, old: bool = False) -> None:
        entries = {"reg.io": {"username": user}}
        file.write_text(json.dumps(entries if old else {"auths": entries}))

    if not any((Path("/") / name).exists() for name in (".docker/config.json", ".dockercfg")):
        assert read() == []
    write(home / ".dockercfg", "old", old=True)
    assert read() == ["old"]
    write(home / ".docker/config.json", "home")
    assert read() == ["home"]
    write(here / "config.json", "here")
    assert read() == ["here"]
    write(root / "config.json", "root")
    assert read() == ["root"]
    (root / "config.json").write_text("{")
    assert read() == ["here"]
