# SPDX-License-Identifier: Apache-2.0
"""Requests for pods' certificates don't stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kubeloop.api.generated.certificates_v1 import PodCertificateRequest
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.podcertificaterequest_cleaner import PodCertificateRequestCleaner
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.testing import Cluster


class FakeInformer:
    """Informer with the requests."""

    def __init__(self, *found: PodCertificateRequest) -> None:
        self._found = {(one.metadata.namespace, one.metadata.name): one for one in found}

    def get(self, namespace: str, name: str) -> PodCertificateRequest | None:
        return self._found.get((namespace, name))


class RecordingClient:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []

    async def delete(self, _: Any, name: str, namespace: str, *, preconditions: Preconditions) -> None:
        self.seen.append((namespace, name, preconditions.uid))


def test_request_is_deleted_after_fifteen_minutes(cluster: Cluster) -> None:
    made = cluster.clock.now()
    meta = ObjectMeta(namespace="a", name="r", uid="u", creation_timestamp=Time(format_time(made)))
    client: Any = RecordingClient()
    requests: Any = FakeInformer(PodCertificateRequest(metadata=meta))
    cleaner = PodCertificateRequestCleaner(client, requests, cluster.clock)
    early = cluster.run(cleaner.reconcile(ObjectKey("a", "r")))
    assert early is not None
    assert timedelta(seconds=early.requeue_after or 0) == timedelta(minutes=15)
    cluster.advance(early.requeue_after or 0)
    assert cluster.run(cleaner.reconcile(ObjectKey("a", "r"))) is None
    assert client.seen == [("a", "r", "u")]
    assert cluster.run(cleaner.reconcile(ObjectKey("a", "gone"))) is None
