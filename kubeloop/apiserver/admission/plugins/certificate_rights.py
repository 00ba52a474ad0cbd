"""CertificateApproval and CertificateSigning: require a permission on the signer to approve or sign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.request.context import User

if TYPE_CHECKING:
    from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest

_GROUP = "certificates.k8s.io"


class _SignerAuthorization(AdmissionPlugin):
    """Common part of both plugins; the signer is that of the stored object, which cannot be changed."""

    resources = frozenset({f"certificatesigningrequests.{_GROUP}"})
    operations = frozenset({"UPDATE"})

    def __init__(self, authorizer: UnionAuthorizer) -> None:
        self._authorizer = authorizer

    def _demand(self, attempt: Attributes, verb: str, signer: str) -> None:
        if not self._may(attempt.user, verb, signer):
            raise attempt.forbidden(f"user not permitted to {verb} requests with signerName {quote(signer)}")

    def _may(self, user: User, verb: str, signer: str) -> bool:
        """Return True if the user has the permission on the signer, or on all signers of its domain."""
        asked = AuthorizationAttributes(user, verb, _GROUP, "*", "signers", name=signer)
        domain = signer.partition("/")[0]
        return (
            self._authorizer.decide(asked).allowed
            or self._authorizer.decide(asked._replace(name=f"{domain}/*")).allowed
        )


class CertificateApproval(_SignerAuthorization):
    """Requires the `approve` permission on the signer for writes to the approval subresource."""

    name = "CertificateApproval"
    subresources = frozenset({"approval"})

    def check(self, attempt: Attributes) -> None:
        """Reject an approval without the permission."""
        assert attempt.old is not None
        old: CertificateSigningRequest = attempt.old
        self._demand(attempt, "approve", old.spec.signer_name)


class CertificateSigning(_SignerAuthorization):
    """Requires the `sign` permission on the signer for changes of certificate or conditions."""

    name = "CertificateSigning"
    subresources = frozenset({"status"})

    def check(self, attempt: Attributes) -> None:
        """Reject a signed certificate without the permission."""
        assert attempt.old is not None
        assert attempt.obj is not None
        old: CertificateSigningRequest = attempt.old
        new: CertificateSigningRequest = attempt.obj
        if (old.status.certificate, old.status.conditions) != (new.status.certificate, new.status.conditions):
            self._demand(attempt, "sign", old.spec.signer_name)
