# SPDX-License-Identifier: Apache-2.0
"""Isolation that a pod asks for: runtime handler and user namespace. A pod never runs with less."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.node_v1 import RuntimeClass
from kubeloop.kubelet.cri.isolation.runtime_state import RuntimeState
from kubeloop.kubelet.cri.isolation.user_namespaces import (
    UserNamespaceError,
    UserNamespaceManager,
    UserNamespaceMapping,
)
from kubeloop.kubelet.cri.messages.security import IDMapping, NamespaceMode, UserNamespace

_SYNC_SECONDS = 10.0


class IsolationError(Exception):
    """Raised for a pod that cannot have the isolation that it asks for."""


class PodIsolation(NamedTuple):
    """Isolation of one pod."""

    handler: str = ""
    user_namespace: UserNamespace = UserNamespace(mode=NamespaceMode.NODE)
    has_recursive_read_only: bool = False  # the handler can mount recursively read-only


class RuntimeClassLister(Protocol):
    """Informer of runtime classes, as far as it is needed here."""

    def get(self, namespace: str, name: str) -> RuntimeClass | None:
        """Return a runtime class, or None."""

    @property
    def has_synced(self) -> bool:
        """True once the runtime classes were listed."""

    async def wait_synced(self) -> None:
        """Wait until the runtime classes were listed."""


class IsolationManager:
    """Determines the isolation of pods."""

    def __init__(self, classes: RuntimeClassLister, state: RuntimeState, user_namespaces: UserNamespaceManager) -> None:
        self._classes = classes
        self._state = state
        self._user_namespaces = user_namespaces

    async def isolation_of(self, pod: Pod) -> PodIsolation:
        """Return the isolation of a pod, with a range of IDs if it needs one. Raises `IsolationError`."""
        handler = await self._handler_of(pod.spec.runtime_class_name)
        features = self._state.handler_features(handler)
        return PodIsolation(
            handler,
            self._user_namespace_of(pod, handler),
            features is not None and features.recursive_read_only_mounts,
        )

    def release(self, uid: str) -> None:
        """Release the IDs of a pod whose containers have ended."""
        self._user_namespaces.release(uid)

    async def _handler_of(self, name: str | None) -> str:
        if not name:
            return ""
        if not self._classes.has_synced:
            try:
                async with asyncio.timeout(_SYNC_SECONDS):
                    await self._classes.wait_synced()
            except TimeoutError:
                message = f"failed to lookup RuntimeClass {name}: RuntimeClasses have not been listed yet"
                raise IsolationError(message) from None
        found = self._classes.get("", name)
        if found is None:
            raise IsolationError(f'runtimeclass.node.k8s.io "{name}" not found')
        return found.handler

    def _user_namespace_of(self, pod: Pod, handler: str) -> UserNamespace:
        if pod.spec.host_users is not False:
            return UserNamespace(mode=NamespaceMode.NODE)
        self._check_support(handler)
        try:
            record = self._user_namespaces.get_or_create(pod.metadata.uid)
        except UserNamespaceError as error:
            raise IsolationError(str(error)) from None
        uids, gids = tuple(map(_mapping, record.uids)), tuple(map(_mapping, record.gids))
        return UserNamespace(mode=NamespaceMode.POD, uids=uids, gids=gids)

    def _check_support(self, handler: str) -> None:
        features = self._state.handler_features(handler)
        if features is not None and features.user_namespaces:
            return
        which = f'RuntimeClass handler "{handler}"' if handler else "runtime"
        message = f"can't set `spec.hostUsers: false`, {which} does not support user namespaces"
        if features is None and self._state.lists_handlers:
            message = f'{message}: the handler "{handler}" is not known'
        raise IsolationError(message)


def _mapping(one: UserNamespaceMapping) -> IDMapping:
    return IDMapping(host_id=one.host_id, container_id=one.container_id, length=one.length)
