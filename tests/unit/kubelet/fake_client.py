# SPDX-License-Identifier: Apache-2.0
"""Client over objects in memory, with the calls that a real node makes."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.authentication_v1 import TokenRequest, TokenRequestStatus
from kubeloop.api.requests import ListResult
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.volumes.host.payloads import PayloadReader
from kubeloop.kubelet.volumes.host.pod_certificates import PodCertificateManager


def new_reader(client: FakeClient, clock: Clock) -> PayloadReader:
    """Return a reader of the contents of volumes."""
    certificates = PodCertificateManager(client.as_client(), clock, lambda pod, reason, message: None)
    return PayloadReader(client.as_client(), clock, certificates)


class FakeClient:
    """Objects by class and name; tokens are numbered. `failure` is raised instead of an answer."""

    def __init__(self, *objects: Any) -> None:
        self.objects = {(type(one), one.metadata.name): one for one in objects}
        self.requests: list[tuple[str, str, TokenRequest]] = []  # account, namespace, body
        self.failure: ApiError | None = None

    def put(self, one: Any) -> None:
        """Create or replace an object."""
        self.objects[type(one), one.metadata.name] = one

    def as_client(self) -> Client:
        """Return the client as the type that callers expect."""
        return cast(Client, self)

    async def get(self, what: type, name: str, namespace: str = "") -> Any:
        """Return an object by its name."""
        self._fail()
        found = self.objects.get((what, name))
        if found is None or found.metadata.namespace != namespace:
            raise NotFound(f'"{name}" not found')
        return found

    async def create(self, one: Any) -> Any:
        """Store an object, named by a number if it is to have a generated name."""
        self._fail()
        if one.metadata.generate_name:
            about = msgspec.structs.replace(one.metadata, name=f"{one.metadata.generate_name}{len(self.objects)}")
            one = msgspec.structs.replace(one, metadata=about)
        self.put(one)
        return one

    async def list(self, what: type, namespace: str = "", *, fields: str = "") -> Any:
        """Return all objects of a class."""
        self._fail()
        found = [one for (kind, _), one in self.objects.items() if kind is what]
        items = tuple(one for one in found if not namespace or one.metadata.namespace == namespace)
        return ListResult(items=items, resource_version="1")

    async def create_subresource(
        self, what: type, name: str, subresource: str, body: TokenRequest, namespace: str = ""
    ) -> TokenRequest:
        """Issue a token."""
        self._fail()
        self.requests.append((name, namespace, body))
        return TokenRequest(spec=body.spec, status=TokenRequestStatus(token=f"token-{len(self.requests)}"))

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
