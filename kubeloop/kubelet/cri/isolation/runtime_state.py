# SPDX-License-Identifier: Apache-2.0
"""State of the container runtime: its conditions, handlers and features, read every five seconds."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from kubeloop.api.generated.core_v1 import (
    NodeFeatures,
    NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures,
    NodeStatus,
)
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.messages.runtime import (
    RuntimeCondition,
    RuntimeFeatures,
    RuntimeHandlerFeatures,
    RuntimeStatus,
    StatusResponse,
)
from kubeloop.kubelet.cri.services import RuntimeService

_STATUS_SECONDS = 5.0
_NO_FEATURES = RuntimeHandlerFeatures()

log = logging.getLogger(__name__)


class RuntimeState:
    """Last answer of the runtime's Status. Handlers and features are kept while the runtime is not ready."""

    def __init__(self, runtime: RuntimeService) -> None:
        self._runtime = runtime
        self._runtime_error = self._network_error = ""
        self._handlers: dict[str, RuntimeHandlerFeatures] = {}
        self._features: RuntimeFeatures | None = None

    @property
    def error(self) -> str:
        """Reason why the runtime or its network is not ready; empty if both are, or nothing is known yet."""
        return ", ".join(filter(None, (self._runtime_error, self._network_error)))

    def handler_features(self, handler: str) -> RuntimeHandlerFeatures | None:
        """Return the features of a handler; None if the runtime does not list it."""
        return self._handlers.get(handler)

    @property
    def lists_handlers(self) -> bool:
        """True if the runtime lists its handlers; older ones do not."""
        return bool(self._handlers)

    def set_node_status(self, status: NodeStatus) -> NodeStatus:
        """Return a node's status with the handlers and features of the runtime."""
        features = None
        if self._features is not None:
            features = NodeFeatures(supplemental_groups_policy=self._features.supplemental_groups_policy)
        handlers = tuple(
            NodeRuntimeHandler(
                name=name,
                features=NodeRuntimeHandlerFeatures(
                    recursive_read_only_mounts=one.recursive_read_only_mounts, user_namespaces=one.user_namespaces
                ),
            )
            for name, one in self._handlers.items()
        )
        return msgspec.structs.replace(status, runtime_handlers=handlers, features=features or status.features)

    async def run(self) -> None:
        """Read the status forever."""
        while True:
            try:
                await self.update()
            except RpcError as error:  # the PLEG reports it
                log.debug("the status of the container runtime could not be read: %s", error.format())
            await asyncio.sleep(_STATUS_SECONDS)

    async def update(self) -> None:
        """Read the status once. Raises `RpcError`."""
        self.handle(await self._runtime.status())

    def handle(self, found: StatusResponse) -> None:
        """Record an answer of the runtime."""
        status = found.status or RuntimeStatus()
        self._network_error = _error_of(status, "NetworkReady", "container runtime network not ready")
        self._runtime_error = _error_of(status, "RuntimeReady", "container runtime not ready")
        if not self._runtime_error:
            self._handlers = {one.name: one.features or _NO_FEATURES for one in found.runtime_handlers}
            self._features = found.features


def _error_of(status: RuntimeStatus, type: str, message: str) -> str:
    found = next((one for one in status.conditions if one.type == type), None)
    if found is not None and found.status:
        return ""
    return f"{message}: {_format(found) if found is not None else '<nil>'}"


def _format(condition: RuntimeCondition) -> str:
    said = str(condition.status).lower()
    return f"{condition.type}={said} reason:{condition.reason} message:{condition.message}"
