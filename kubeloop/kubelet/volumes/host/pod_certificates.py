# SPDX-License-Identifier: Apache-2.0
"""Pod certificates: requests a certificate for each podCertificate source, and renews it before it expires.

no request ─▶ requested ─┬▶ issued ─▶ (time to renew) requested again, the old one stays in use ─▶ issued …
                         └▶ denied or failed: for good

State is not kept: a kubelet that starts again requests all certificates again, as upstream's does.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.certificates_v1 import PodCertificateRequest, PodCertificateRequestSpec
from kubeloop.api.generated.core_v1 import Node, Pod, PodCertificateProjection, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.scalars.times import parse_time
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.volumes.host.payload_error import PayloadError

# A request that cannot be found so long after it was created was deleted.
_ASSUME_DELETED = timedelta(minutes=10)
_OVERDUE = timedelta(minutes=10)
_JITTER_SECONDS = 300.0  # so that not all certificates are renewed at one time
_BLOCK = re.compile("-----BEGIN [^-]*-----(.*?)-----END [^-]*-----", re.DOTALL)

EmitWarning = Callable[[Pod, str, str], None]  # pod, reason, message
NewKey = Callable[[str], Awaitable[tuple[bytes, bytes]]]  # of a type; returns it with its request
log = logging.getLogger(__name__)


class CredentialBundle(NamedTuple):
    """Private key and certificates, as PEM."""

    key: bytes
    chain: bytes


class _Request(NamedTuple):
    """Request under way, with the key of the certificate."""

    name: str
    key: bytes
    abandon_at: datetime


class _Credential(NamedTuple):
    """Certificate in use."""

    bundle: CredentialBundle
    refresh_at: datetime
    expires_at: datetime


class _Record(NamedTuple):
    """State of one source of one pod."""

    credential: _Credential | None = None
    request: _Request | None = None
    refusal: str = ""  # why there will be no certificate
    is_overdue: bool = False  # reported
    is_expired: bool = False


class SourceKey(NamedTuple):
    """Source of a projected volume of a pod."""

    uid: str
    volume: str
    position: int


async def generate_key(kind: str) -> tuple[bytes, bytes]:
    """Return a new key and its request, made in a thread: large keys take seconds. Raises ValueError."""
    from kubeloop.kubelet.volumes.host.certificate_keys import new_key_and_request

    return await asyncio.to_thread(new_key_and_request, kind)


class PodCertificateManager:
    """Certificates of the pods of one node, by source."""

    def __init__(self, client: Client, clock: Clock, warn: EmitWarning, new_key: NewKey = generate_key) -> None:
        self._new_key = new_key
        self._client = client
        self._clock = clock
        self._warn = warn
        self._records: dict[SourceKey, _Record] = {}

    def remove_pod(self, uid: str) -> None:
        """Forget the certificates of a pod."""
        self._records = {key: one for key, one in self._records.items() if key.uid != uid}

    async def get(self, pod: Pod, volume: str, index: int, source: PodCertificateProjection) -> CredentialBundle:
        """Return the certificate of a source, and go on with its request. Raises `PayloadError`, `ApiError`."""
        key = SourceKey(pod.metadata.uid, volume, index)
        before = self._records.get(key, _Record())
        try:
            await self._advance(pod, source, key, before)
        except ApiError as error:
            if before.credential is None:
                raise
            log.warning("a certificate of pod %s could not be renewed: %s", pod.metadata.name, error)
        record = self._records.get(key, before)
        if record.refusal:
            raise PayloadError(record.refusal)
        if record.credential is None:
            raise PayloadError("credential bundle is not issued yet")
        return record.credential.bundle

    async def _advance(self, pod: Pod, source: PodCertificateProjection, key: SourceKey, record: _Record) -> None:
        """Request or renew a certificate; each step is recorded at once."""
        if record.refusal:
            return
        now, credential = self._clock.now(), record.credential
        if record.request is None and (credential is None or now >= credential.refresh_at):
            record = self._records[key] = record._replace(request=await self._create(pod, source))
        if record.request is not None:
            record = self._records[key] = await self._read_answer(pod, record, record.request)
        if record.credential is not None and record.credential is credential:
            self._records[key] = self._report_age(pod, record, record.credential)

    async def _read_answer(self, pod: Pod, record: _Record, request: _Request) -> _Record:
        where = f"{pod.metadata.namespace}/{request.name}"
        try:
            found = await self._client.get(PodCertificateRequest, request.name, pod.metadata.namespace)
        except NotFound:
            return record._replace(request=None) if self._clock.now() > request.abandon_at else record
        for condition in found.status.conditions:
            why = (f'reason="{condition.reason}"', f'message="{condition.message}"')
            if condition.type == "Denied":
                self._warn(pod, "Denied", f"PodCertificateRequest {where} was denied, {', '.join(why)}")
                return record._replace(refusal=f"PodCertificateRequest was permanently denied: {' '.join(why)}")
            if condition.type == "Failed":
                self._warn(pod, "Failed", f"PodCertificateRequest {where} failed, {', '.join(why)}")
                return record._replace(refusal=f"PodCertificateRequest was permanently failed: {' '.join(why)}")
            if condition.type == "Issued":
                return _Record(self._issued(found, request.key))
        return record

    def _issued(self, found: PodCertificateRequest, key: bytes) -> _Credential:
        status, now = found.status, self._clock.now()
        refresh_at = parse_time(status.begin_refresh_at) if status.begin_refresh_at else now
        expires_at = parse_time(status.not_after) if status.not_after else now
        bundle = CredentialBundle(key, clean_certificate_chain(status.certificate_chain))
        return _Credential(bundle, refresh_at + self._jitter(), expires_at)

    def _report_age(self, pod: Pod, record: _Record, credential: _Credential) -> _Record:
        """Report once that a certificate is not renewed in time, and once that it has expired."""
        now = self._clock.now()
        if now > credential.refresh_at + _OVERDUE and not record.is_overdue:
            record = record._replace(is_overdue=True)
            self._warn(pod, "CertificateOverdueForRefresh", "PodCertificate refresh overdue")
        if now > credential.expires_at and not record.is_expired:
            record = record._replace(is_expired=True)
            self._warn(pod, "CertificateExpired", "PodCertificate expired")
        return record

    async def _create(self, pod: Pod, source: PodCertificateProjection) -> _Request:
        """Create a key and a request for it, bound to the pod, its account and its node."""
        about, account = pod.metadata, pod.spec.service_account_name or "default"
        of_account = await self._client.get(ServiceAccount, account, about.namespace)
        node = await self._client.get(Node, pod.spec.node_name)
        try:
            key, proof = await self._new_key(source.key_type)
        except ValueError as error:
            raise PayloadError(f"while generating keypair: {error}") from None
        owner = OwnerReference(api_version="v1", kind="Pod", name=about.name, uid=about.uid)
        spec = PodCertificateRequestSpec(
            signer_name=source.signer_name,
            pod_name=about.name,
            pod_uid=about.uid,
            service_account_name=account,
            service_account_uid=of_account.metadata.uid,
            node_name=pod.spec.node_name,
            node_uid=node.metadata.uid,
            max_expiration_seconds=source.max_expiration_seconds,
            stub_pkcs10_request=proof,
            unverified_user_annotations=source.user_annotations,
        )
        metadata = ObjectMeta(namespace=about.namespace, generate_name="req-", owner_references=(owner,))
        made = await self._client.create(PodCertificateRequest(metadata=metadata, spec=spec))
        return _Request(made.metadata.name, key, self._clock.now() + _ASSUME_DELETED + self._jitter())

    def _jitter(self) -> timedelta:
        return timedelta(seconds=self._clock.random().uniform(0.0, _JITTER_SECONDS))


def clean_certificate_chain(text: str) -> bytes:
    """Return the certificates of a chain without headers, and without text between them."""
    blocks = []
    for content in _BLOCK.findall(text):
        body = content.strip().rpartition("\n\n")[2]  # headers end with an empty line
        blocks.append(f"-----BEGIN CERTIFICATE-----\n{body.strip()}\n-----END CERTIFICATE-----\n")
    return "".join(blocks).encode()
