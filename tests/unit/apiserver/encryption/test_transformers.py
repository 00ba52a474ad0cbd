# SPDX-License-Identifier: Apache-2.0
"""Tests of stored ciphertexts and of rejected configurations."""

from __future__ import annotations

import base64
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.apiserver.encryption.configuration import EncryptionConfigError, ResourceTransformers, read_configuration
from kubeloop.apiserver.encryption.providers import AesCbc, AesGcm, DecryptionError, Secretbox
from kubeloop.apiserver.encryption.transformers import Transformer

KEY = bytes(range(32))
PLACE = "/registry/secrets/default/one"


def secret(number: int = 0, size: int = 32) -> str:
    return base64.b64encode(bytes([number]) * size).decode()


def keys(*names: str) -> dict[str, Any]:
    return {"keys": [{"name": name, "secret": secret(ord(name[-1]))} for name in names]}


def read(tmp_path: Path, *rules: tuple[list[str], list[dict[str, Any]]]) -> ResourceTransformers:
    resources = [{"resources": names, "providers": providers} for names, providers in rules]
    return read_document(tmp_path, {"resources": resources})


def read_document(tmp_path: Path, document: dict[str, Any]) -> ResourceTransformers:
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    path = tmp_path / "encryption.yaml"
    path.write_text(yaml.safe_dump(head | document))
    return read_configuration(path)


def secrets_with(tmp_path: Path, *providers: dict[str, Any]) -> Transformer:
    found = read(tmp_path, (["secrets"], list(providers))).of("", "secrets")
    assert found is not None
    return found


@settings(max_examples=50, deadline=None)
@given(plain=st.binary(max_size=300), size=st.sampled_from([16, 24, 32]))
def test_every_cipher_round_trips(plain: bytes, size: int) -> None:
    for cipher in (AesGcm(KEY[:size]), AesCbc(KEY[:size])):
        sealed = cipher.encrypt(plain, b"here")
        assert cipher.decrypt(sealed, b"here") == plain
        assert cipher.encrypt(plain, b"here") != sealed


def test_aes_cbc_has_upstreams_layout() -> None:
    """NIST SP 800-38A, F.2.5: a vector, then the blocks; the last one is padding."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    vector = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    block = bytes.fromhex("f58c4c04d6e5f1ba779eabfb5f7bfbd6")
    cipher = AesCbc(key)
    with pytest.raises(DecryptionError):  # the block is whole, so padding would have to follow
        cipher.decrypt(vector + block, b"")
    assert len(cipher.encrypt(bytes(16), b"")) == 16 + 32


def test_aes_gcm_is_bound_to_its_storage_key() -> None:
    sealed = AesGcm(KEY).encrypt(b"plain", b"here")
    with pytest.raises(DecryptionError, match="message authentication failed"):
        AesGcm(KEY).decrypt(sealed, b"elsewhere")


@pytest.mark.parametrize("cipher", [AesGcm(KEY), AesCbc(KEY)])
def test_short_or_corrupt_data_is_rejected(cipher: AesGcm | AesCbc) -> None:
    for sealed in (b"", b"short", cipher.encrypt(b"plain", b"")[:-3]):
        with pytest.raises(DecryptionError):
            cipher.decrypt(sealed, b"")


def test_secretbox_is_nonce_and_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is a stand-in here, so that what surrounds it can be tested without it."""

    class CryptoError(Exception):
        pass

    class SecretBox:
        def __init__(self, key: bytes) -> None:
            self.key = key

        def encrypt(self, plain: bytes, nonce: bytes) -> bytes:
            return nonce + self.key[:16] + plain

        def decrypt(self, sealed: bytes) -> bytes:
            if sealed[24:40] != self.key[:16]:
                raise CryptoError
            return sealed[40:]

    package, secret_module, exceptions = (types.ModuleType(name) for name in ("nacl", "nacl.secret", "nacl.exceptions"))
    secret_module.SecretBox = SecretBox  # type: ignore[attr-defined]
    exceptions.CryptoError = CryptoError  # type: ignore[attr-defined]
    for module in (package, secret_module, exceptions):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    box = Secretbox(KEY)
    assert box.decrypt(box.encrypt(b"plain", b""), b"") == b"plain"
    with pytest.raises(DecryptionError, match="output array was not large enough for encryption"):
        box.decrypt(Secretbox(bytes(32)).encrypt(b"plain", b""), b"")
    with pytest.raises(DecryptionError, match="shorter than the required size"):
        box.decrypt(bytes(39), b"")


def test_real_secretbox_round_trips() -> None:
    box = Secretbox(KEY)
    assert box.decrypt(box.encrypt(b"plain", b""), b"") == b"plain"


def test_secretbox_without_its_package_is_rejected_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl", None)
    monkeypatch.setitem(sys.modules, "nacl.secret", None)
    with pytest.raises(EncryptionConfigError, match=r"kubeloop\[secretbox\]"):
        secrets_with(tmp_path, {"secretbox": keys("a")})


@pytest.mark.parametrize("kind", ["aescbc", "aesgcm"])
def test_first_key_encrypts_and_any_key_decrypts(tmp_path: Path, kind: str) -> None:
    old = secrets_with(tmp_path, {kind: keys("key1")})
    stored = old.transform_to_storage(b"{}", PLACE)
    assert stored.startswith(f"k8s:enc:{kind}:v1:key1:".encode())
    assert not old.is_stale(stored)
    rotated = secrets_with(tmp_path, {kind: keys("key2", "key1")})
    assert rotated.transform_from_storage(stored, PLACE) == b"{}"
    assert rotated.is_stale(stored)
    assert rotated.transform_to_storage(b"{}", PLACE).startswith(f"k8s:enc:{kind}:v1:key2:".encode())


def test_providers_can_be_changed_in_both_directions(tmp_path: Path) -> None:
    on = secrets_with(tmp_path, {"aesgcm": keys("a")}, {"identity": {}})
    assert on.transform_from_storage(b"{}", PLACE) == b"{}"
    assert on.is_stale(b"{}")
    stored = on.transform_to_storage(b"{}", PLACE)
    off = secrets_with(tmp_path, {"identity": {}}, {"aesgcm": keys("a")})
    assert off.transform_from_storage(stored, PLACE) == b"{}"
    assert off.is_stale(stored)
    assert off.transform_to_storage(b"{}", PLACE) == b"{}"
    assert not off.is_stale(b"{}")


@pytest.mark.parametrize(
    ("providers", "stored", "message"),
    [
        ([{"aesgcm": keys("a")}], b"{}", "no matching prefix found"),
        ([{"aesgcm": keys("a")}], b"k8s:enc:aescbc:v1:a:x", "no matching prefix found"),
        (
            [{"aesgcm": keys("a")}],
            b"k8s:enc:aesgcm:v1:b:x",
            "no matching key was found for the provided AES transformer",
        ),
        ([{"identity": {}}], b"k8s:enc:aesgcm:v1:a:x", "identity transformer tried to read encrypted data"),
        (
            [{"aesgcm": keys("a")}, {"identity": {}}],
            b"k8s:enc:aesgcm:v1:a:x",
            "[the stored data was shorter than the required size, identity transformer tried to read encrypted data]",
        ),
    ],
)
def test_undecryptable_data_reports_upstreams_message(
    tmp_path: Path, providers: list[Any], stored: bytes, message: str
) -> None:
    with pytest.raises(DecryptionError) as raised:
        secrets_with(tmp_path, *providers).transform_from_storage(stored, PLACE)
    assert str(raised.value) == message


def test_two_providers_may_share_key_names(tmp_path: Path) -> None:
    writer = secrets_with(tmp_path, {"aescbc": keys("1")})
    other = {"keys": [{"name": "1", "secret": secret(9)}]}
    reader = secrets_with(tmp_path, {"aescbc": other}, {"aescbc": keys("1")})
    for _ in range(2000):  # a wrong key finds valid padding in one of 256 values
        assert reader.transform_from_storage(writer.transform_to_storage(b"{}", PLACE), PLACE) == b"{}"


def test_more_specific_rule_applies(tmp_path: Path) -> None:
    rules = read(
        tmp_path,
        (["secrets"], [{"aesgcm": keys("a")}]),
        (["*."], [{"aesgcm": keys("b")}]),
        (["*.*"], [{"aesgcm": keys("c")}]),
    )
    places = (("", "secrets"), ("", "configmaps"), ("apps", "deployments"))
    heads = [
        found.transform_to_storage(b"", PLACE)[18:20] for place in places if (found := rules.of(*place)) is not None
    ]
    assert heads == [b"a:", b"b:", b"c:"]
    assert read(tmp_path, (["secrets"], [{"identity": {}}])).of("", "configmaps") is None


GOOD: list[Any] = [{"identity": {}}]


@pytest.mark.parametrize(
    ("names", "providers", "message"),
    [
        ([], GOOD, "resources[0].resources: Required value: at least one resources[0].resources is required"),
        (["secrets"], [], "resources[0].providers: Required value: at least one resources[0].providers is required"),
        (["Secrets"], GOOD, "resource name should not contain capital letters"),
        (["*"], GOOD, "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"),
        (["serviceipallocations"], GOOD, "resources which do not have REST API/s cannot be encrypted"),
        (["events.events.k8s.io"], GOOD, "Use 'events' instead in the config file"),
        (["secrets.*"], GOOD, "encrypting the same resource across groups is not supported"),
        (["secrets", "secrets"], GOOD, "the same resource cannot be specified multiple times"),
        (["secrets", "*."], GOOD, "using overlapping resources such as 'secrets' and '*.'"),
        (["*.*", "pods"], GOOD, "using overlapping resources"),
        (["secrets"], [{}], "provider does not contain any of the expected providers"),
        (["secrets"], [{"identity": {}, "aesgcm": keys("a")}], "more than one provider specified in a single element"),
        (["secrets"], [{"aesgcm": {"keys": []}}], "providers[0].aesgcm.keys: Required value: at least one keys"),
        (["secrets"], [{"kms": {"name": "x"}}], "endpoint is a mandatory field for a kms"),
        (
            ["secrets"],
            [{"aescbc": {"keys": [{"name": "a", "secret": secret(0, 15)}]}}],
            'keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 15, '
            "expected one of [16 24 32]",
        ),
        (["secrets"], [{"secretbox": {"keys": [{"name": "a", "secret": secret(0, 16)}]}}], "expected one of [32]"),
        (["secrets"], [{"aescbc": {"keys": [{"name": "a", "secret": "-"}]}}], "secrets must be base64 encoded"),
        (["secrets"], [{"aescbc": {"keys": [{"secret": secret()}]}}], "name is a mandatory field for a key"),
        (["secrets"], [{"aescbc": {"keys": [{"name": "a"}]}}], "secret is a mandatory field for a key"),
    ],
)
def test_invalid_configuration_is_rejected_with_its_path_without_secrets(
    tmp_path: Path, names: list[str], providers: list[Any], message: str
) -> None:
    with pytest.raises(EncryptionConfigError) as raised:
        read(tmp_path, (names, providers))
    assert message in str(raised.value)
    assert secret(0, 15) not in str(raised.value)


def test_masked_rule_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(EncryptionConfigError, match=r'resource "secrets" is masked by earlier rule "\*\."'):
        read(tmp_path, (["*."], GOOD), (["secrets"], GOOD))


@pytest.mark.parametrize("text", ["[", "a: b", "kind: Pod\napiVersion: v1", "resources: 7"])
def test_file_of_another_kind_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(EncryptionConfigError):
        read_configuration(path)
