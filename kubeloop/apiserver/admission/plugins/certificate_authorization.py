# SPDX-License-Identifier: Apache-2.0
"""CertificateApproval and CertificateSigning: require a permission on the signer to approve or sign."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.request.context import User

if TYPE_CHECKING:
    from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest

_GROUP = "certificates.k8s.io"


class SignerAuthorization(AdmissionPlugin):
    """Decides by permissions on a signer; that of a request is the stored one, which cannot be changed."""

    resources = frozenset({f"certificatesigningrequests.{_GROUP}"})
    operations = frozenset({"UPDATE"})

    def __init__(self, authorizer: UnionAuthorizer) -> None:
        self._authorizer = authorizer

    async def _require(self, attempt: Attributes, verb: str, signer: str) -> None:
        if not await self._is_authorized(attempt.user, verb, signer):
            raise attempt.forbidden(f"user not permitted to {verb} requests with signerName {quote(signer)}")

    async def _is_authorized(self, user: User, verb: str, signer: str) -> bool:
        """Return True if the user has the permission on the signer, or on all signers of its domain."""
        asked = AuthorizationAttributes(user, verb, _GROUP, "*", "signers", name=signer)
        domain = signer.partition("/")[0]
        decision = await self._authorizer.wait_decision(asked)
        return decision.allowed or (await self._authorizer.wait_decision(asked._replace(name=f"{domain}/*"))).allowed


class CertificateApproval(SignerAuthorization):
    """Requires the `approve` permission on the signer for writes to the approval subresource."""

    name = "CertificateApproval"
    subresources = frozenset({"approval"})

    def validate(self, attempt: Attributes) -> Awaitable[None]:
        """Reject an approval without the permission."""
        assert attempt.old_obj is not None
        old: CertificateSigningRequest = attempt.old_obj
        return self._require(attempt, "approve", old.spec.signer_name)


class CertificateSigning(SignerAuthorization):
    """Requires the `sign` permission on the signer for changes of certificate or conditions."""

    name = "CertificateSigning"
    subresources = frozenset({"status"})

    def validate(self, attempt: Attributes) -> Awaitable[None] | None:
        """Reject a signed certificate without the permission."""
        assert attempt.old_obj is not None
        assert attempt.obj is not None
        old: CertificateSigningRequest = attempt.old_obj
        new: CertificateSigningRequest = attempt.obj
        if (old.status.certificate, old.status.conditions) != (new.status.certificate, new.status.conditions):
            return self._require(attempt, "sign", old.spec.signer_name)
        return None
