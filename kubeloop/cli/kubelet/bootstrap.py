# SPDX-License-Identifier: Apache-2.0
"""TLS bootstrap and certificate rotation of a kubelet by CertificateSigningRequests.

no kubeconfig ─▶ bootstrap credentials: a request ─▶ approved, signed ─▶ certificate and kubeconfig on disk ─▶ a node
a node ────────▶ before its certificate expires, the same again; and for its serving certificate
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.cli.program.files import write_private
from kubeloop.client import Client
from kubeloop.client.config.server_config import load_config
from kubeloop.client.errors import ClientError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import Clock

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
_USE = {CLIENT_SIGNER: "client auth", SERVING_SIGNER: "server auth"}
_RETRY_SECONDS = 5.0
_PAUSE_SECONDS = 1.0  # between two watches
_LOOK_SECONDS = 60.0
_RENEWED_AFTER = 0.8  # of its life
_SHORTEST = timedelta(minutes=1)
CURRENT_CLIENT, CURRENT_SERVING = "kubelet-client-current.pem", "kubelet-server-current.pem"

log = logging.getLogger(__name__)


class CertificateNotIssued(Exception):
    """Request that was denied, or is gone."""


async def request_certificate(client: Client, node: str, signer: str, hosts: Sequence[str] = ()) -> bytes:
    """Request a certificate and wait until it is signed; returns it with its key. Raises `CertificateNotIssued`."""
    from kubeloop.cli.kubelet.keys import new_request

    key, request = new_request(node, hosts)
    spec = CertificateSigningRequestSpec(
        request=request, signer_name=signer, usages=("digital signature", _USE[signer])
    )
    made = await client.create(CertificateSigningRequest(metadata=ObjectMeta(generate_name="csr-"), spec=spec))
    name = made.metadata.name
    log.info("waiting for approval of certificate signing request %s", name)
    while True:
        try:
            certificate = await _signed(client, name)
        except NotFound:
            raise CertificateNotIssued(f"certificate signing request {name} was deleted") from None
        except (ApiError, ClientError) as error:  # keeps an existing request
            log.warning("certificate signing request %s: %s", name, error)
            certificate = None
        if certificate is not None:
            return certificate + key
        await asyncio.sleep(_PAUSE_SECONDS)


async def _signed(client: Client, name: str) -> bytes | None:
    """Return the certificate; None if the watch ends before it is issued."""
    one = await client.get(CertificateSigningRequest, name)
    if (certificate := _answer(one)) is not None:
        return certificate
    changes = client.watch(
        CertificateSigningRequest, fields=f"metadata.name={name}", resource_version=one.metadata.resource_version
    )
    async with aclosing(changes) as batches:  # type: ignore[type-var]  # a watch is a generator
        async for batch in batches:
            for event in batch:
                if event.type == "MODIFIED" and (certificate := _answer(event.object)) is not None:
                    return certificate
                if event.type == "DELETED":
                    raise NotFound(name)
    return None


def _answer(one: CertificateSigningRequest) -> bytes | None:
    bad = [condition for condition in one.status.conditions if condition.type in ("Denied", "Failed")]
    if bad:
        raise CertificateNotIssued(
            f"certificate signing request {one.metadata.name} was {bad[0].type.lower()}: {bad[0].message}"
        )
    return one.status.certificate or None


async def request_certificate_with_retry(client: Client, node: str, signer: str, hosts: Sequence[str] = ()) -> bytes:
    """Request a certificate until one is issued."""
    while True:
        try:
            return await request_certificate(client, node, signer, hosts)
        except (ApiError, ClientError, CertificateNotIssued) as error:
            log.warning("unable to obtain a certificate for node %s: %s", node, error)
        await asyncio.sleep(_RETRY_SECONDS)


async def bootstrap(node: str, by: Path, kubeconfig: Path, folder: Path, clock: Clock) -> None:
    """Create a node's kubeconfig with the bootstrap kubeconfig's credentials."""
    async with Client(HttpTransport(load_config(by), clock), user_agent="kubelet") as client:
        pem = await request_certificate_with_retry(client, node, CLIENT_SIGNER)
    _write(pem, by, kubeconfig, folder)


def _write(pem: bytes, by: Path, kubeconfig: Path, folder: Path) -> None:
    current = (folder / CURRENT_CLIENT).absolute()
    for parent in (folder, kubeconfig.parent):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(current, pem)
    write_private(kubeconfig, yaml.safe_dump(kubeconfig_of(yaml.safe_load(by.read_text()), by, current)).encode())


def kubeconfig_of(bootstrap: dict[str, Any], path: Path, pem: Path) -> dict[str, Any]:
    """Return a kubeconfig for the same cluster with a client certificate file."""
    context = _named(bootstrap, "contexts", bootstrap.get("current-context", "")).get("context") or {}
    cluster = dict(_named(bootstrap, "clusters", context.get("cluster", "")).get("cluster") or {})
    if authority := cluster.get("certificate-authority"):
        cluster["certificate-authority"] = str((path.parent / authority).absolute())
    user = {"client-certificate": str(pem), "client-key": str(pem)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "users": [{"name": "default-auth", "user": user}],
        "contexts": [{"name": "default-context", "context": {"cluster": "default-cluster", "user": "default-auth"}}],
        "current-context": "default-context",
    }


def _named(config: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    return next((one for one in config.get(part) or () if one.get("name") == name), {})


def needs_rotation(pem: Path, now: datetime) -> bool:
    """Return True if a certificate should be replaced: most of its life is over, or there is none."""
    life = _life_of(pem)
    return life is None or now > life[0] + _RENEWED_AFTER * (life[1] - life[0])


def is_valid(pem: Path, now: datetime) -> bool:
    """Return True if a file has a certificate that stays valid for a while."""
    life = _life_of(pem)
    return life is not None and life[0] <= now < life[1] - _SHORTEST


def _life_of(pem: Path) -> tuple[datetime, datetime] | None:
    from kubeloop.cli.kubelet.keys import life_of

    return life_of(pem.read_bytes()) if pem.is_file() else None


async def rotate_certificate(
    client: Client, node: str, signer: str, current: Path, hosts: Sequence[str], clock: Clock
) -> AsyncIterator[None]:
    """Rotate a certificate file before it expires; yields for each certificate in use."""
    shown = False
    while True:
        if needs_rotation(current, clock.now()):
            write_private(current, await request_certificate_with_retry(client, node, signer, hosts))
            shown = False
        if not shown:
            shown = True
            yield
        await asyncio.sleep(_LOOK_SECONDS)
