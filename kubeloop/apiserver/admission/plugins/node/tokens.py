# SPDX-License-Identifier: Apache-2.0
"""Checks that a pod mounts what its node requests for it: a token audience, or a certificate of a signer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeloop.apiserver.admission import Lookup

_STORAGE = "storage.k8s.io"


def has_mounted_audience(pod: Any, audience: str, lookup: Lookup) -> bool:
    """Return True if a projected volume, or a CSI driver that requests tokens, has the audience."""
    for volume in pod.spec.volumes:
        if volume.projected is not None:
            for source in volume.projected.sources or ():
                token = source.service_account_token
                if token is not None and token.audience == audience:
                    return True
    drivers = (lookup.get_object("csidrivers", "", name, _STORAGE) for name in _drivers_of(pod, lookup))
    return any(
        request.audience == audience
        for driver in drivers
        if driver is not None
        for request in driver.spec.token_requests
    )


def has_mounted_signer(pod: Any, signer: str) -> bool:
    """Return True if a projected volume of the pod requests a certificate of the signer."""
    return any(
        source.pod_certificate is not None and source.pod_certificate.signer_name == signer
        for volume in pod.spec.volumes
        if volume.projected is not None
        for source in volume.projected.sources or ()
    )


def _drivers_of(pod: Any, lookup: Lookup) -> Iterator[str]:
    for volume in pod.spec.volumes:
        claim_name = ""
        if volume.csi is not None:
            yield volume.csi.driver
        elif volume.persistent_volume_claim is not None:
            claim_name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            claim_name = f"{pod.metadata.name}-{volume.name}"
        claim = lookup.get_object("persistentvolumeclaims", pod.metadata.namespace, claim_name) if claim_name else None
        bound = lookup.get_object("persistentvolumes", "", claim.spec.volume_name) if claim is not None else None
        if bound is not None and bound.spec.csi is not None:
            yield bound.spec.csi.driver
