# SPDX-License-Identifier: Apache-2.0
"""API client that every component uses: the API's verbs as methods, over any transport."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast, overload

from msgspec import Struct

from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import APPLY_PATCH, MERGE_PATCH, Call, ListResult, WatchEvent
from kubeloop.api.unstructured import body_document
from kubeloop.client.caller import RetryingCaller
from kubeloop.client.discovery.discovery import DiscoveryCache
from kubeloop.client.discovery.rest_mapper import (
    PartialResource,
    ResourceRef,
    find_built_in,
    parse_resource,
    resource_of_object,
)
from kubeloop.client.errors import UsageError
from kubeloop.client.http.lines import lines_of
from kubeloop.client.http.rate_limit import Limiter
from kubeloop.client.metrics import ClientMetrics, NoClientMetrics
from kubeloop.client.objects import address_of, apply_document, eviction, pod_binding, token_request
from kubeloop.client.options import (
    Selector,
    delete_options,
    list_options,
    log_options,
    watch_options,
    write_options,
)
from kubeloop.client.scheme import Scheme, TypedKind
from kubeloop.client.transport import ClientTransport

T = TypeVar("T")

DEFAULT_TIMEOUT = 30.0
# Page size of `pages`, as in client-go's pager.
PAGE_SIZE = 500


class Client:
    """Client of one API server. Copies made by `with_…` share its transport, limiter, discovery and scheme."""

    def __init__(
        self,
        transport: ClientTransport,
        *,
        user_agent: str = "kubeloop",
        limiter: Limiter | None = None,
        cause: Callable[[], str] | None = None,
        metrics: ClientMetrics | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        scheme: Scheme | None = None,
    ) -> None:
        self._caller = RetryingCaller(transport, limiter, metrics or NoClientMetrics())
        self._user_agent = user_agent
        self._cause = cause
        self._timeout = timeout
        self._discovery = DiscoveryCache(self.document)
        self._scheme = scheme or Scheme()

    def add_kind(self, kind: TypedKind) -> None:
        """Add a custom kind, whose class and objects calls then take and return."""
        self._scheme.add(kind)

    # Copies with other settings.

    def with_cause(self, cause: str | Callable[[], str]) -> Client:
        """Return a copy of the client that records a cause with each write."""
        view = copy.copy(self)
        view._cause = cause if callable(cause) else lambda: cause
        return view

    def with_user_agent(self, user_agent: str) -> Client:
        """Return a copy of the client with another user agent."""
        view = copy.copy(self)
        view._user_agent = user_agent
        return view

    def with_timeout(self, seconds: float | None) -> Client:
        """Return a copy of the client with another timeout for calls, retries and waits included."""
        view = copy.copy(self)
        view._timeout = seconds
        return view

    async def close(self) -> None:
        """Close the connections."""
        await self._caller.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Reading.

    @overload
    async def get(
        self,
        what: type[T],
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
    ) -> T:
        """Return the object of a struct class."""

    @overload
    async def get(
        self,
        what: Resource | str,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
    ) -> Any:
        """Return the object of a resource or resource name."""

    async def get(
        self,
        what: ResourceRef,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
    ) -> Any:
        """Return an object, not older than a given version, or one of its subresources."""
        resource = await self.resolve(what)
        options = {"resourceVersion": resource_version} if resource_version else {}
        call = self._build_call(
            resource, "get", namespace, name, subresource=subresource, options=options, metadata_only=metadata_only
        )
        return self._scheme.decode(what, await self._caller.call(call))

    async def list(
        self,
        what: ResourceRef,
        namespace: str = "",
        *,
        labels: Selector = "",
        fields: Selector = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        match: str = "",
        metadata_only: bool = False,
    ) -> ListResult:
        """List the objects of a namespace, or of all; with a limit, the first page of them."""
        options = list_options(
            labels,
            fields,
            limit=limit,
            resourceVersion=resource_version,
            resourceVersionMatch=match,
            **{"continue": continue_token},
        )
        resource = await self.resolve(what)
        call = self._build_call(resource, "list", namespace, options=options, metadata_only=metadata_only)
        return cast(ListResult, self._scheme.decode(what, await self._caller.call(call)))

    async def list_pages(
        self, what: ResourceRef, namespace: str = "", *, limit: int = PAGE_SIZE, **options: Any
    ) -> AsyncIterator[ListResult]:
        """Yield all pages of a list; raises `Expired` if the caller takes too long."""
        page = await self.list(what, namespace, limit=limit, **options)
        yield page
        for first_only in ("resource_version", "match"):
            options.pop(first_only, None)
        while page.continue_token:
            page = await self.list(what, namespace, limit=limit, continue_token=page.continue_token, **options)
            yield page

    async def watch(
        self,
        what: ResourceRef,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: Selector = "",
        fields: Selector = "",
        bookmarks: bool = True,
        initial_events: bool | None = None,
        timeout_seconds: int = 0,
        metadata_only: bool = False,
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Yield batches of changes after a version until the server ends the watch; `Expired` if that is too old.

        With `initial_events` the present state comes first, followed by a bookmark that marks its end.
        """
        options = watch_options(labels, fields, resource_version, bookmarks, initial_events, timeout_seconds)
        resource = await self.resolve(what)
        call = self._build_call(resource, "watch", namespace, options=options, metadata_only=metadata_only)
        async with aclosing(self._caller.watch(call)) as batches:
            async for batch in batches:
                yield self._scheme.decode_events(what, batch)

    def is_in_process(self, resource: Resource) -> bool:
        """Return True if watches of a resource stay within this process.

        Such watches end or fail, but never become silent unnoticed.
        """
        return self._caller.is_in_process(resource)

    def discovery_version(self) -> object | None:
        """Return an object that changes whenever the set of served kinds does; None if only a request can find out."""
        return self._caller.discovery_version()

    async def stream_logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        limit_bytes: int | None = None,
    ) -> AsyncIterator[str]:
        """Yield a container's log line by line."""
        options = log_options(container, follow, previous, timestamps, tail_lines, since_seconds, limit_bytes)
        resource = await self.resolve("pods")
        call = self._build_call(resource, "get", namespace, pod, subresource="log", options=options)
        async with aclosing(self._caller.stream(call)) as pieces:
            async for line in lines_of(pieces):
                yield line

    async def document(self, path: str) -> Any:
        """Return the server's response at a non-resource path such as `/version`."""
        return await self._caller.document(path, self._timeout)

    # Writing.

    async def create(
        self, obj: Any, namespace: str = "", *, manager: str = "", dry_run: bool = False, validation: str = ""
    ) -> Any:
        """Create an object and return it as the server stored it."""
        resource, namespace, _ = await self._locate(obj, namespace)
        options = write_options(manager, dry_run, validation)
        body = body_document(self._scheme.encode(obj))
        call = self._build_call(resource, "create", namespace, body=body, options=options)
        return self._scheme.decode(type(obj), await self._caller.call(call))

    async def update(
        self,
        obj: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        validation: str = "",
    ) -> Any:
        """Replace an object. Fields unknown to this client's types are lost: controllers patch instead."""
        resource, namespace, name = await self._locate(obj, namespace)
        options = write_options(manager, dry_run, validation)
        body = body_document(self._scheme.encode(obj))
        call = self._build_call(
            resource, "update", namespace, name, subresource=subresource, body=body, options=options
        )
        return self._scheme.decode(type(obj), await self._caller.call(call))

    async def patch(
        self,
        what: ResourceRef,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        type: str = MERGE_PATCH,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        validation: str = "",
    ) -> Any:
        """Change an object by a JSON, merge or strategic merge patch."""
        resource = await self.resolve(what)
        options = write_options(manager, dry_run, validation)
        call = self._build_call(
            resource, "patch", namespace, name, subresource=subresource, body=patch, patch_type=type, options=options
        )
        return self._scheme.decode(what, await self._caller.call(call))

    async def patch_together(
        self, what: ResourceRef, names: Sequence[str], patch: Any, namespace: str = "", *, type: str = MERGE_PATCH
    ) -> frozenset[str]:
        """Patch those objects of a kind and namespace that can be patched alike in one commit; returns their names.

        These are repeated renewals of leases, within the process. All others are left to `patch`, also after an error.
        """
        resource = await self.resolve(what)
        if not names:
            return frozenset()
        call = self._build_call(resource, "patch", namespace, names[0], body=patch, patch_type=type)
        versions = await self._caller.commit_together(call, names)
        if all(versions):
            return frozenset(names)
        return frozenset([name for name, version in zip(names, versions, strict=True) if version])

    async def apply(
        self,
        obj: Any,
        namespace: str = "",
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        validation: str = "",
    ) -> Any:
        """Apply an object by server-side apply: set the given fields and own them."""
        resource, namespace, name = await self._locate(obj, namespace)
        options = write_options(manager, dry_run, validation, force)
        body = apply_document(obj, resource)
        call = self._build_call(
            resource,
            "patch",
            namespace,
            name,
            subresource=subresource,
            body=body,
            patch_type=APPLY_PATCH,
            options=options,
        )
        return self._scheme.decode(type(obj), await self._caller.call(call))

    async def delete(
        self,
        what: ResourceRef,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "",
        grace_seconds: int | None = None,
        preconditions: Preconditions | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Delete an object; returns a Status if it is gone, the object if deletion is still under way."""
        resource = await self.resolve(what)
        body = delete_options(propagation, grace_seconds, preconditions, dry_run)
        call = self._build_call(resource, "delete", namespace, name, body=body)
        return self._scheme.decode(what, await self._caller.call(call))

    async def delete_collection(
        self,
        what: ResourceRef,
        namespace: str = "",
        *,
        labels: Selector = "",
        fields: Selector = "",
        propagation: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Delete all objects of a namespace that the selectors match."""
        resource = await self.resolve(what)
        body = delete_options(propagation, grace_seconds, None, dry_run)
        options = list_options(labels, fields)
        return await self._caller.call(
            self._build_call(resource, "deletecollection", namespace, body=body, options=options)
        )

    # Subresources that are not the object's own kind.

    async def create_subresource(
        self, what: ResourceRef, name: str, subresource: str, body: Any, namespace: str = "", *, dry_run: bool = False
    ) -> Any:
        """Create a subresource of an object by POST."""
        resource = await self.resolve(what)
        options = write_options(dry_run=dry_run)
        return await self._caller.call(
            self._build_call(
                resource, "create", namespace, name, subresource=subresource, body=body_document(body), options=options
            )
        )

    async def update_subresource(
        self, what: ResourceRef, name: str, subresource: str, body: Any, namespace: str = ""
    ) -> Any:
        """Replace a subresource that is of another kind than its object, such as scale."""
        resource = await self.resolve(what)
        return await self._caller.call(
            self._build_call(resource, "update", namespace, name, subresource=subresource, body=body_document(body))
        )

    async def evict(self, pod: str, namespace: str, *, grace_seconds: int | None = None, dry_run: bool = False) -> Any:
        """Evict a pod; raises `TooManyRequests` if its disruption budget forbids it."""
        body = eviction(pod, namespace, delete_options("", grace_seconds, None, dry_run))
        return await self.create_subresource("pods", pod, "eviction", body, namespace)

    async def bind(self, pod: str, namespace: str, node: str) -> Any:
        """Bind a pod to a node."""
        return await self.create_subresource("pods", pod, "binding", pod_binding(pod, namespace, node), namespace)

    async def request_token(
        self, account: str, namespace: str, *, audiences: Sequence[str] = (), seconds: int | None = None
    ) -> Any:
        """Request a token for a service account; returns a TokenRequest with its status."""
        body = token_request(tuple(audiences), seconds)
        return await self.create_subresource("serviceaccounts", account, "token", body, namespace)

    # Resolution of resources.

    async def resolve(self, what: ResourceRef) -> Resource:
        """Resolve a class, name or resource: built in, or found by discovery."""
        if isinstance(what, Resource):
            return what
        if isinstance(what, type):
            return self._scheme.resource_of(what)
        return await self._find(parse_resource(what))

    def invalidate_discovery(self) -> None:
        """Invalidate the discovery cache."""
        self._discovery.invalidate()

    async def _find(self, wanted: PartialResource) -> Resource:
        return find_built_in(wanted) or await self._discovery.find(wanted)

    async def _locate(self, obj: Any, namespace: str) -> tuple[Resource, str, str]:
        """Return the resource, namespace and name of an object."""
        is_mapping = not isinstance(obj, Struct) and isinstance(obj, Mapping)  # the first test is fast
        if is_mapping:
            resource = await self._find(resource_of_object(obj))
            own_namespace, name = address_of(obj)
        else:
            resource = self._scheme.resource_of(type(obj))
            own_namespace, name = obj.metadata.namespace, obj.metadata.name
        if resource.namespaced and namespace and own_namespace not in ("", namespace):
            raise UsageError(f"the object is in namespace {own_namespace}, but the call is for {namespace}")
        return resource, (namespace or own_namespace) if resource.namespaced else "", name

    def _build_call(self, resource: Resource, verb: str, namespace: str, name: str = "", **others: Any) -> Call:
        """Build a call; raises `UsageError` if it would reach another path than intended."""
        if verb in ("get", "update", "patch", "delete") and not name:
            raise UsageError(f"{verb} of {resource.group_resource} needs a name")
        if namespace and not resource.namespaced:
            raise UsageError(f"{resource.group_resource} are not namespaced")
        if resource.namespaced and not namespace and verb not in ("list", "watch"):
            raise UsageError(f"{verb} of {resource.group_resource} needs a namespace")
        writes = verb not in ("get", "list", "watch")
        return Call(
            verb=verb,  # type: ignore[arg-type]  # callers here name verbs literally
            resource=resource,
            namespace=namespace,
            name=name,
            cause=self._cause() if self._cause is not None and writes else "",
            user_agent=self._user_agent,
            timeout=self._timeout,
            **others,
        )
