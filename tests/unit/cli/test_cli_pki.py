# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates are made once, kept, and renewed for a reason."""

from __future__ import annotations

import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from kubeloop.cli.pki import files as pki_module
from kubeloop.cli.pki import issue
from kubeloop.cli.pki.files import (
    PkiFileError,
    ensure_pki,
    first_service_address,
    serving_names,
)
from kubeloop.clock import SystemClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ["localhost", "127.0.0.1", "::1"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} - {"checked.json"}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_first_start_creates_all_files_and_keys_are_private(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path / "deep" / "pki", NAMES, NOW)
    assert all(path.exists() for path in pki.files)
    for path in pki.files:
        assert path.stat().st_mode & 0o777 == (0o600 if path.suffix == ".key" else 0o644)
    assert pki.folder.stat().st_mode & 0o777 == 0o700


def test_certificates_have_subjects_and_usages(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path, NAMES, NOW)
    ca, serving, admin = map(certificate, (pki.ca, pki.serving_certificate, pki.admin_certificate))
    for leaf in (serving, admin):
        leaf.verify_directly_issued_by(ca)
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(str(name.value) for name in names) == sorted(NAMES)
    assert admin.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "kubernetes-admin"
    assert admin.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"
    for_kubelets = certificate(pki.kubelet_client_certificate)
    for_kubelets.verify_directly_issued_by(ca)
    assert for_kubelets.subject.rfc4514_string() == "CN=kube-apiserver-kubelet-client"


def test_certificates_pass_strict_verification(tmp_path: Path) -> None:
    """Python's clients verify strictly from 3.13 on."""
    pki = ensure_pki(tmp_path, NAMES, SystemClock().now())
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(pki.serving_certificate, pki.serving_key)
    client.load_cert_chain(pki.admin_certificate, pki.admin_key)
    for context in (server, client):
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(pki.ca)
    upward, downward = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(downward, upward, server_hostname="localhost"),
        server.wrap_bio(upward, downward, server_side=True),
    ]
    for end in ends * 2:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert all(end.getpeercert() for end in ends)


def test_certificates_without_authority_key_identifier_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(issue, "_identifier_of", lambda _: None)
        older.setattr(pki_module, "_RULES", 1)
        ensure_pki(tmp_path, NAMES, NOW)
    before = contents(tmp_path)
    ensure_pki(tmp_path, NAMES, NOW)
    renewed = {"apiserver.crt", "apiserver-kubelet-client.crt", "admin.crt", "front-proxy-client.crt"}
    assert changed(before, contents(tmp_path)) == renewed


def test_a_client_certificate_for_another_user_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = "apiserver-kubelet-client"
    with monkeypatch.context() as older:
        older.setitem(issue._CLIENTS, file, (pki_module.KUBELET_CLIENT_USER, "system:masters"))
        older.setattr(pki_module, "_RULES", 2)
        ensure_pki(tmp_path, NAMES, NOW)
    before = contents(tmp_path)
    pki = ensure_pki(tmp_path, NAMES, NOW)
    assert changed(before, contents(tmp_path)) == {f"{file}.crt"}
    assert "system:masters" not in certificate(pki.kubelet_client_certificate).subject.rfc4514_string()


def test_public_key_for_tokens_belongs_to_its_private_key(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NAMES, NOW)
    private = serialization.load_pem_private_key((tmp_path / "sa.key").read_bytes(), None)
    assert serialization.load_pem_public_key((tmp_path / "sa.pub").read_bytes()) == private.public_key()


def test_next_start_changes_nothing_and_loads_no_cryptography(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_pki(tmp_path, NAMES, NOW)
    before = contents(tmp_path)
    monkeypatch.setattr(issue, "issue_missing", None)
    ensure_pki(tmp_path, reversed(NAMES), NOW + timedelta(days=200))
    assert contents(tmp_path) == before


def test_new_name_renews_the_serving_certificate_only(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NAMES, NOW)
    before = contents(tmp_path)
    ensure_pki(tmp_path, [*NAMES, "10.1.2.3"], NOW)
    assert changed(before, contents(tmp_path)) == {"apiserver.crt"}


def test_removed_name_renews_nothing(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NAMES, NOW)
    before = contents(tmp_path)
    ensure_pki(tmp_path, NAMES[:1], NOW)
    assert changed(before, contents(tmp_path)) == set()


def test_expiring_certificates_are_renewed_with_their_keys(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path, NAMES, NOW)
    before = contents(tmp_path)
    later = NOW + timedelta(days=300)
    ensure_pki(tmp_path, NAMES, later)
    renewed = {"apiserver.crt", "apiserver-kubelet-client.crt", "admin.crt", "front-proxy-client.crt"}
    assert changed(before, contents(tmp_path)) == renewed
    assert certificate(pki.serving_certificate).not_valid_after_utc > later + timedelta(days=300)


def test_missing_file_is_recreated(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NAMES, NOW)
    before = contents(tmp_path)
    (tmp_path / "admin.key").unlink()
    ensure_pki(tmp_path, NAMES, NOW)
    assert changed(before, contents(tmp_path)) == {"admin.key", "admin.crt"}


def test_foreign_ca_reissues_everything(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ensure_pki(theirs, NAMES, NOW)
    ensure_pki(ours, NAMES, NOW)
    for name in ("ca.crt", "ca.key"):
        (ours / name).write_bytes((theirs / name).read_bytes())
    pki = ensure_pki(ours, NAMES, NOW)
    certificate(pki.serving_certificate).verify_directly_issued_by(certificate(theirs / "ca.crt"))
    certificate(pki.admin_certificate).verify_directly_issued_by(certificate(theirs / "ca.crt"))


@pytest.mark.parametrize("name", ["ca.key", "apiserver.crt", "sa.key"])
def test_corrupt_file_is_named_and_kept(name: str, tmp_path: Path) -> None:
    ensure_pki(tmp_path, NAMES, NOW)
    (tmp_path / name).write_bytes(b"not PEM")
    with pytest.raises(PkiFileError, match=f"{name}: contains no usable"):
        ensure_pki(tmp_path, NAMES, NOW)
    assert (tmp_path / name).read_bytes() == b"not PEM"


def test_serving_certificate_has_all_names_except_wildcards() -> None:
    names = serving_names(["0.0.0.0", "192.0.2.7", ""], "10.96.0.0/12", "somehost")
    assert {"localhost", "somehost", "127.0.0.1", "::1", "192.0.2.7", "10.96.0.1"} <= set(names)
    assert {"kubernetes", "kubernetes.default.svc.cluster.local"} <= set(names)
    assert "0.0.0.0" not in names
    assert "" not in names


def test_kubernetes_service_has_the_first_address_of_the_range() -> None:
    assert str(first_service_address("10.0.0.0/24")) == "10.0.0.1"
    assert str(first_service_address("fd00::/108")) == "fd00::1"
