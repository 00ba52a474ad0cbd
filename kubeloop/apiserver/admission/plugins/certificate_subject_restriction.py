# SPDX-License-Identifier: Apache-2.0
"""CertificateSubjectRestriction: rejects requests for client certificates of the group system:masters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.apiserver.admission import AdmissionPlugin, Attributes

if TYPE_CHECKING:  # the kind's types are imported with its first object
    from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest

_SIGNER = "kubernetes.io/kube-apiserver-client"
_MASTERS_GROUP = "system:masters"


class CertificateSubjectRestriction(AdmissionPlugin):
    """Rejects CSRs for the kube-apiserver-client signer with the group system:masters."""

    name = "CertificateSubjectRestriction"
    resources = frozenset({"certificatesigningrequests.certificates.k8s.io"})

    def validate(self, attempt: Attributes) -> None:
        """Reject the CSR if its subject has the group."""
        assert attempt.obj is not None
        request: CertificateSigningRequest = attempt.obj
        if request.spec.signer_name != _SIGNER:
            return
        if _MASTERS_GROUP in _organizations(attempt, request):
            raise attempt.forbidden(f"use of {_SIGNER} signer with {_MASTERS_GROUP} group is not allowed")


def _organizations(attempt: Attributes, request: CertificateSigningRequest) -> set[str]:
    # Imported here to keep start-up fast: few servers need it.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        parsed = x509.load_pem_x509_csr(request.spec.request or b"")
    except ValueError as error:
        raise attempt.forbidden(f"failed to parse CSR: {error}") from None
    return {str(name.value) for name in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
