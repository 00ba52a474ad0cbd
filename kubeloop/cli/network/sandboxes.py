# SPDX-License-Identifier: Apache-2.0
"""Lists the sandboxes of a CRI runtime, to find addresses that no sandbox has."""

from __future__ import annotations

from kubeloop.grpc.channel import UnixChannel
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.network.cni.address_gc import ListSandboxes

_SECONDS = 10.0


def sandbox_lister(endpoint: str) -> ListSandboxes:
    """Return a function that lists the IDs of all sandboxes. It raises an error if the runtime does not answer."""
    path = endpoint.removeprefix("unix://")

    async def list_sandboxes() -> frozenset[str]:
        channel = UnixChannel(path)
        try:
            found = await RuntimeService(channel, _SECONDS).list_pod_sandboxes({})
        finally:
            await channel.close()
        return frozenset(one.id for one in found)

    return list_sandboxes
