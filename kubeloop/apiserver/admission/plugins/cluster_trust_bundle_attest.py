# SPDX-License-Identifier: Apache-2.0
"""ClusterTrustBundleAttest: requires a permission on the signer to publish its trust anchors."""

from __future__ import annotations

from collections.abc import Awaitable

from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission import Attributes
from kubeloop.apiserver.admission.plugins.certificate_authorization import SignerAuthorization
from kubeloop.apiserver.admission.plugins.gc_fields import is_only_gc_update


class ClusterTrustBundleAttest(SignerAuthorization):
    """Requires the `attest` permission on the signer of a ClusterTrustBundle."""

    name = "ClusterTrustBundleAttest"
    resources = frozenset({"clustertrustbundles.certificates.k8s.io"})
    operations = frozenset({"CREATE", "UPDATE"})

    def validate(self, attempt: Attributes) -> Awaitable[None] | None:
        """Reject a bundle of a signer without the permission, unless only the garbage collector's fields change."""
        assert attempt.obj is not None
        signer: str = attempt.obj.spec.signer_name
        if not signer or is_only_gc_update(attempt):
            return None
        return self._require_attest(attempt, signer)

    async def _require_attest(self, attempt: Attributes, signer: str) -> None:
        if not await self._is_authorized(attempt.user, "attest", signer):
            raise attempt.forbidden(f"user not permitted to attest for signerName {quote(signer)}")
