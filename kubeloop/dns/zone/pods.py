# SPDX-License-Identifier: Apache-2.0
"""Records of pods by address: `10-1-2-3.NAMESPACE.pod.ZONE`."""

from __future__ import annotations

from typing import Literal

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.dns.wire.names import join_labels
from kubeloop.dns.zone.addresses import pack_address, pod_address
from kubeloop.dns.zone.service_records import RecordEntry

PodsMode = Literal["disabled", "insecure", "verified"]


class PodRecords:
    """Addresses of pods that exist; in insecure mode every address is taken to exist."""

    def __init__(self, mode: PodsMode) -> None:
        self.mode = mode
        # Names of pods by namespace and address: an address may pass from one pod to the next before a deletion shows.
        self._pods: dict[tuple[str, bytes], set[str]] = {}
        self._addresses: dict[tuple[str, str], bytes] = {}

    def set(self, pod: Pod) -> None:
        """Record a pod; one that is being deleted has no record."""
        self.delete(pod)
        address = pack_address(pod.status.pod_ip)
        if address is not None and pod.metadata.deletion_timestamp is None:
            namespace, name = pod.metadata.namespace, pod.metadata.name
            self._addresses[namespace, name] = address
            self._pods.setdefault((namespace, address), set()).add(name)

    def delete(self, pod: Pod) -> None:
        """Remove a pod."""
        namespace, name = pod.metadata.namespace, pod.metadata.name
        address = self._addresses.pop((namespace, name), None)
        if address is not None:
            names = self._pods[namespace, address]
            names.discard(name)
            if not names:
                del self._pods[namespace, address]

    def find(self, label: bytes, namespace: bytes, zone: bytes) -> RecordEntry | None:
        """Return the entry of a pod's name in an existing namespace; None if there is no such pod."""
        address = pod_address(label)
        if address is None or self.mode == "disabled":
            return None
        if self.mode == "verified" and (namespace.decode(), address) not in self._pods:
            return None
        return RecordEntry(join_labels((label, namespace, b"pod"))[:-1] + zone, address, 0)
