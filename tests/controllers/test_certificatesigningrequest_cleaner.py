# SPDX-License-Identifier: Apache-2.0
"""Old requests for certificates go."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers import certificatesigningrequest_signing as signing
from kubeloop.controllers.certificatesigningrequest_cleaner import expiration_of, expiry_of, wire
from kubeloop.testing import Cluster
from tests.controllers.certificate_requests import approve, authority_in, signing_request
from tests.controllers.permissions import start_as

HOUR = 3600


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    start_as(cluster, "certificate-controller", wire)
    cluster.client.create(signing_request())
    return cluster


def start_signing(cluster: Cluster, folder: Path) -> None:
    certificate, key = authority_in(folder, cluster.clock.now())
    start_as(
        cluster,
        "certificate-controller",
        signing.wire,
        cluster_signing_cert_file=certificate,
        cluster_signing_key_file=key,
    )


def is_there(cluster: Cluster) -> bool:
    try:
        cluster.client.get(CertificateSigningRequest, "csr")
    except NotFound:
        return False
    return True


def test_pending_request_is_deleted_after_a_day(plane: Cluster) -> None:
    plane.advance(24 * HOUR - 5)
    assert is_there(plane)
    plane.advance(10)
    assert not is_there(plane)


def test_denied_request_is_deleted_after_an_hour(plane: Cluster) -> None:
    plane.advance(5 * HOUR)
    approve(plane, decision="Denied")
    plane.advance(HOUR - 5)
    assert is_there(plane)
    plane.advance(10)
    assert not is_there(plane)


def test_issued_request_is_deleted_after_an_hour(plane: Cluster, tmp_path: Path) -> None:
    start_signing(plane, tmp_path)
    approve(plane)
    plane.advance(HOUR - 5)
    assert is_there(plane)
    plane.advance(10)
    assert not is_there(plane)


def test_request_with_an_expired_certificate_is_deleted(cluster: Cluster, tmp_path: Path) -> None:
    start_as(cluster, "certificate-controller", wire)
    start_signing(cluster, tmp_path)
    cluster.client.create(signing_request(expirationSeconds=600))
    approve(cluster)
    cluster.advance(600 - 5)
    assert is_there(cluster)
    cluster.advance(10)
    assert not is_there(cluster)


def test_approved_unsigned_request_is_deleted_after_a_day(plane: Cluster) -> None:
    plane.advance(5 * HOUR)
    approve(plane)
    plane.advance(24 * HOUR - 5)
    assert is_there(plane)
    plane.advance(10)
    assert not is_there(plane)


def test_failed_request_is_deleted_after_an_hour(plane: Cluster) -> None:
    failed = {"type": "Failed", "status": "True", "reason": "Test"}
    patch = {"status": {"conditions": [failed]}}
    plane.client.patch(CertificateSigningRequest, "csr", patch, subresource="status")
    plane.advance(HOUR + 5)
    assert not is_there(plane)


def test_request_being_deleted_is_ignored() -> None:
    moment = Time("2024-01-01T00:00:00Z")
    meta = ObjectMeta(name="csr", creation_timestamp=moment)
    assert expiration_of(CertificateSigningRequest(metadata=meta)) is not None
    gone = ObjectMeta(name="csr", creation_timestamp=moment, deletion_timestamp=moment)
    assert expiration_of(CertificateSigningRequest(metadata=gone)) is None


@pytest.mark.parametrize("chain", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_unparsable_certificate_never_expires(chain: bytes) -> None:
    assert expiry_of(chain) is None


def test_expiration_is_that_of_the_first_certificate(cluster: Cluster, tmp_path: Path) -> None:
    now = cluster.clock.now().replace(microsecond=0)
    files = [authority_in(tmp_path / name, now, timedelta(days=days))[0] for name, days in (("a", 1), ("b", 2))]
    chain = b"".join(Path(one).read_bytes() for one in files)
    assert expiry_of(chain) == now + timedelta(days=1)
