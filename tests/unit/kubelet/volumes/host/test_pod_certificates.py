# SPDX-License-Identifier: Apache-2.0
"""Pod certificates: requests, answers, renewal, and what is reported about them."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from kubeloop.api.errors import ServiceUnavailable
from kubeloop.api.generated.certificates_v1 import PodCertificateRequest, PodCertificateRequestStatus
from kubeloop.api.generated.core_v1 import Node, Pod, PodCertificateProjection, PodSpec, ServiceAccount
from kubeloop.api.generated.meta_v1 import Condition, ObjectMeta
from kubeloop.api.scalars.times import format_time
from kubeloop.kubelet.volumes.host.certificate_keys import new_key_and_request
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.host.pod_certificates import PodCertificateManager, clean_certificate_chain
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.unit.kubelet.fake_client import FakeClient

POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns", uid="u"), spec=PodSpec(node_name="n", service_account_name="sa")
)
SOURCE = PodCertificateProjection(signer_name="example.com/one", key_type="ED25519", user_annotations={"a": "b"})
CHAIN = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
HOUR = timedelta(hours=1)


async def new_key(kind: str) -> tuple[bytes, bytes]:
    return new_key_and_request(kind)  # virtual time does not wait for threads


class Issuer:
    """Manager with a client whose requests the test answers."""

    def __init__(self, loop: VirtualLoop) -> None:
        account = ServiceAccount(metadata=ObjectMeta(name="sa", namespace="ns", uid="sa-uid"))
        self.client = FakeClient(account, Node(metadata=ObjectMeta(name="n", uid="n-uid")))
        self.clock = VirtualClock(loop)
        self.events: list[tuple[str, str]] = []
        self.manager = PodCertificateManager(self.client.as_client(), self.clock, self._warn, new_key)

    def _warn(self, pod: Pod, reason: str, message: str) -> None:
        self.events.append((reason, message))

    async def get(self, source: PodCertificateProjection = SOURCE) -> bytes:
        return (await self.manager.get(POD, "v", 0, source)).key

    def requests(self) -> list[PodCertificateRequest]:
        return [one for one in self.client.objects.values() if isinstance(one, PodCertificateRequest)]

    def answer(self, type: str = "Issued", life: timedelta = 2 * HOUR) -> None:
        """Answer the last request."""
        now, request = self.clock.now(), self.requests()[-1]
        condition = Condition(type=type, status="True", reason="Why", message="because")
        status = PodCertificateRequestStatus(
            conditions=(condition,),
            certificate_chain=CHAIN,
            begin_refresh_at=format_time(now + life / 2),
            not_after=format_time(now + life),
        )
        self.client.put(msgspec.structs.replace(request, status=status))


@pytest.mark.parametrize("kind", ["RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"])
def test_requests_prove_the_possession_of_their_keys(kind: str) -> None:
    key, request = new_key_and_request(kind)
    found = x509.load_der_x509_csr(request)
    assert found.is_signature_valid
    assert len(found.subject) == 0
    public = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert found.public_key().public_bytes(*public) == load_pem_private_key(key, None).public_key().public_bytes(
        *public
    )


def test_unknown_keys_are_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(PayloadError, match='unknown key type "DSA"'):
            await Issuer(loop).get(PodCertificateProjection(signer_name="example.com/one", key_type="DSA"))

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_a_certificate_is_requested_once_and_used_when_it_is_issued() -> None:
    async def scenario() -> None:
        issuer = Issuer(loop)
        for _ in range(2):
            with pytest.raises(PayloadError, match="credential bundle is not issued yet"):
                await issuer.get()
        (request,) = issuer.requests()
        spec, owner = request.spec, request.metadata.owner_references[0]
        assert (spec.pod_name, spec.pod_uid, spec.node_name, spec.node_uid) == ("p", "u", "n", "n-uid")
        assert (spec.service_account_name, spec.service_account_uid) == ("sa", "sa-uid")
        assert (spec.signer_name, spec.unverified_user_annotations) == ("example.com/one", {"a": "b"})
        assert (owner.kind, owner.uid) == ("Pod", "u")
        issuer.answer()
        bundle = await issuer.manager.get(POD, "v", 0, SOURCE)
        assert bundle.key.startswith(b"-----BEGIN PRIVATE KEY-----")
        assert bundle.chain == CHAIN.encode()

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_a_certificate_is_renewed_with_a_new_key() -> None:
    async def scenario() -> None:
        issuer = Issuer(loop)
        with pytest.raises(PayloadError):
            await issuer.get()
        issuer.answer()
        first = await issuer.get()
        await loop.advance(HOUR.total_seconds() - 1)
        assert await issuer.get() == first
        assert len(issuer.requests()) == 1
        await loop.advance(302)  # the jitter is at most five minutes
        assert await issuer.get() == first, "the old one is used until the new one is issued"
        assert len(issuer.requests()) == 2
        issuer.answer()
        assert await issuer.get() != first
        assert issuer.events == []

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_failures_to_renew_are_reported_and_the_old_certificate_stays() -> None:
    async def scenario() -> None:
        issuer = Issuer(loop)
        with pytest.raises(PayloadError):
            await issuer.get()
        issuer.answer()
        first = await issuer.get()
        await loop.advance(3 * HOUR.total_seconds())
        issuer.client.failure = ServiceUnavailable("down")
        assert await issuer.get() == first
        issuer.client.failure = None
        for _ in range(2):
            assert await issuer.get() == first
        assert [reason for reason, _ in issuer.events] == ["CertificateOverdueForRefresh", "CertificateExpired"]

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


@pytest.mark.parametrize(("type", "verb"), [("Denied", "was denied"), ("Failed", "failed")])
def test_a_refused_request_is_final(type: str, verb: str) -> None:
    async def scenario() -> None:
        issuer = Issuer(loop)
        with pytest.raises(PayloadError):
            await issuer.get()
        issuer.answer(type)
        refused = f'^PodCertificateRequest was permanently {type.lower()}: reason="Why" message="because"$'
        for _ in range(2):
            with pytest.raises(PayloadError, match=refused):
                await issuer.get()
        name = issuer.requests()[0].metadata.name
        assert issuer.events == [
            (type, f'PodCertificateRequest ns/{name} {verb}, reason="Why", message="because"'),
        ]

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_a_deleted_request_is_created_again_after_a_while() -> None:
    async def scenario() -> None:
        issuer = Issuer(loop)
        with pytest.raises(PayloadError):
            await issuer.get()
        del issuer.client.objects[PodCertificateRequest, issuer.requests()[0].metadata.name]
        with pytest.raises(PayloadError):
            await issuer.get()
        assert issuer.requests() == []
        await loop.advance(901)
        for _ in range(2):
            with pytest.raises(PayloadError):
                await issuer.get()
        assert len(issuer.requests()) == 1

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_chains_are_cleaned() -> None:
    block = "-----BEGIN X-----\nHeader: x\n\nAAAA\nBBBB\n-----END X-----\n"
    wanted = b"-----BEGIN CERTIFICATE-----\nAAAA\nBBBB\n-----END CERTIFICATE-----\n"
    assert clean_certificate_chain(f"said {block} and {block}") == 2 * wanted
