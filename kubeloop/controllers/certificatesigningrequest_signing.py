# SPDX-License-Identifier: Apache-2.0
"""Signs approved requests for Kubernetes' own signers, or reports the reason for a refusal in a condition.

The signers are kubelet-serving, kube-apiserver-client-kubelet, kube-apiserver-client and legacy-unknown. All share the
files of --cluster-signing-cert-file and -key-file, or each has its own; a signer without files does not sign.

Watches: certificate signing requests.
Owns: nothing.
Writes: certificates and the condition Failed into requests' status.
Wakes itself: never.
Differs from upstream: one queue serves all signers. An unreadable request is not retried until it changes. Files are
  checked for each certificate, instead of every minute.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest
from kubeloop.api.scalars.times import format_time
from kubeloop.api.validation.certificates.pem import pem_blocks
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers import InvalidControllers
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.controllers.shared.certificates import rules
from kubeloop.controllers.shared.certificates.approval import has_failed, is_approved, preconditions_of, with_condition
from kubeloop.runtime.controller import Controller, TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.manager import Loop
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)
from kubeloop.runtime.queue.workqueue import WorkQueue

if TYPE_CHECKING:
    from kubeloop.controllers.shared.certificates.authority import CertificateAuthority

NAME: Final = "certificatesigningrequest-signing-controller"
QUEUE = "certificate"  # upstream's queue name, as dashboards know it
WORKERS = 5  # as upstream
FIRST_DELAY = 0.2  # as upstream, after a failure
MIN_DURATION: Final = timedelta(minutes=10)
Files = tuple[str, str]  # of a certificate and its key


def wire(context: ControllerContext) -> Loop:
    """Build the controller and register its event handlers; a disabled one if no signer has files."""
    config, clock = context.config, context.clock
    files = files_of(config)
    if not files:
        return DisabledController(NAME)
    for pair in set(files.values()):
        _check(pair)
    requests = context.informers.for_resource(resource_of_class(CertificateSigningRequest))
    longest = timedelta(seconds=config.cluster_signing_duration)
    signers = {name: Signer(pair, longest, clock) for name, pair in files.items()}
    reconciler = Reconciler(PatchOrUpdate(context.client), requests, signers, clock)
    limiter = MaxOfRateLimiter[ObjectKey](
        ItemExponentialFailureRateLimiter[ObjectKey](FIRST_DELAY), BucketRateLimiter(clock)
    )
    queue: WorkQueue[ObjectKey] = WorkQueue(clock, name=QUEUE, limiter=limiter, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )  # fmt: skip
    controller.watches(requests, own_key, lambda _, new: new is not None and awaits_signing(new, signers))
    return controller


class Signer:
    """Signer with its files and its longest duration."""

    def __init__(self, files: Files, longest: timedelta, clock: Clock) -> None:
        self._files = files
        self._longest = longest
        self._clock = clock

    def certificate(self, request: CertificateSigningRequest, asked: Any) -> bytes:
        """Sign the request and return the certificate as PEM."""
        life = signing_duration(request.spec.expiration_seconds, self._longest)
        return self._authority.sign(asked, request.spec.usages, life, self._clock.now())

    @cached_property
    def _authority(self) -> CertificateAuthority:
        from kubeloop.controllers.shared.certificates.authority import (
            CertificateAuthority,  # slow to load, so only when needed
        )

        return CertificateAuthority(*self._files)


class Reconciler:
    """Signs requests by key."""

    def __init__(self, writer: PatchOrUpdate, requests: Informer, signers: Mapping[str, Signer], clock: Clock) -> None:
        self._writer = writer
        self._requests = requests
        self._signers = signers
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> None:
        """Sign the request, or report the problem in a condition."""
        request: CertificateSigningRequest | None = self._requests.get(*key)
        if request is None or not awaits_signing(request, self._signers):
            return
        from kubeloop.controllers.shared.certificates.csr import UnreadableRequest, parse_csr

        try:
            asked = parse_csr(request.spec.request)
        except UnreadableRequest as error:
            raise TerminalError(f'unable to parse csr "{key.name}": {error}') from None
        signer = request.spec.signer_name
        problem = rules.RULES[signer](asked, request.spec.usages)
        if problem:
            await self._write(request, {"conditions": self._failed(request, problem)})
            return
        certificate = self._signers[signer].certificate(request, asked)
        await self._write(request, {"certificate": base64.b64encode(certificate).decode()})

    def _failed(self, request: CertificateSigningRequest, why: str) -> list[Any]:
        now = format_time(self._clock.now())
        return with_condition(
            request, type="Failed", status="True", reason="SignerValidationFailure", message=why, lastUpdateTime=now
        )

    async def _write(self, request: CertificateSigningRequest, status: dict[str, Any]) -> None:
        """Write the status only to the evaluated state, so that a withdrawn approval causes a conflict."""
        patch = {"metadata": preconditions_of(request), "status": status}
        await self._writer.patch(self._requests.resource, request.metadata.name, patch, subresource="status")


def awaits_signing(request: CertificateSigningRequest, signers: Mapping[str, Any]) -> bool:
    """Return True if the request is approved and still waits for one of these signers."""
    return (
        request.spec.signer_name in signers
        and not request.status.certificate
        and is_approved(request)
        and not has_failed(request)
    )


def signing_duration(seconds: int | None, longest: timedelta) -> timedelta:
    """Return the requested duration, limited to the supported range."""
    if seconds is None:
        return longest
    asked = timedelta(seconds=seconds)
    return longest if asked > longest else max(asked, MIN_DURATION)


def files_of(config: ManagerConfig) -> dict[str, Files]:
    """Return the files of each configured signer. Raises UnusableChoice if shared and specific files are mixed."""
    shared = (config.cluster_signing_cert_file, config.cluster_signing_key_file)
    specific = {
        rules.KUBELET_SERVING: (
            config.cluster_signing_kubelet_serving_cert_file,
            config.cluster_signing_kubelet_serving_key_file,
        ),
        rules.KUBELET_CLIENT: (
            config.cluster_signing_kubelet_client_cert_file,
            config.cluster_signing_kubelet_client_key_file,
        ),
        rules.API_CLIENT: (
            config.cluster_signing_kube_apiserver_client_cert_file,
            config.cluster_signing_kube_apiserver_client_key_file,
        ),
        rules.LEGACY: (
            config.cluster_signing_legacy_unknown_cert_file,
            config.cluster_signing_legacy_unknown_key_file,
        ),
    }
    own = {signer: pair for signer, pair in specific.items() if any(pair)}
    if all(shared) and own:
        raise InvalidControllers("cannot specify default and per controller certs at the same time")
    if own:
        return own
    return dict.fromkeys(rules.RULES, shared) if all(shared) else {}


def _check(files: Files) -> None:
    """Check the files without the slow cryptography library; raises UnusableChoice."""
    for path, wanted in zip(files, ("CERTIFICATE", "PRIVATE KEY"), strict=True):
        if not path:
            raise InvalidControllers("the certificate and the key of a signer must be given together")
        try:
            blocks = [one for one in pem_blocks(Path(path).read_bytes()) if one.type.endswith(wanted)]
        except OSError as error:
            raise InvalidControllers(f"unable to read a signer's file: {error}") from None
        if not blocks or (wanted == "CERTIFICATE" and len(blocks) != 1):
            raise InvalidControllers(f"{path} must contain one {wanted.lower()}, but contains {len(blocks)}")
