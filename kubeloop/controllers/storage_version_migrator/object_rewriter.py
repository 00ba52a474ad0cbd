# SPDX-License-Identifier: Apache-2.0
"""Finds a resource and rewrites all of its objects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from kubeloop.api.errors import (
    ApiError,
    Conflict,
    InternalError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
)
from kubeloop.api.generated.meta_v1 import GroupResource, ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.client import Client
from kubeloop.client.discovery.served_resources import discover_resources
from kubeloop.client.errors import ClientError, TransportError

CONCURRENCY: Final = 16  # objects written concurrently
NEEDED: Final = ("update", "patch", "list")
# Transient errors: the same write may succeed later.
TRANSIENT_ERRORS: Final = (ServerTimeout, TooManyRequests, ServiceUnavailable, InternalError, Timeout, TransportError)


class MigrationImpossible(Exception):
    """Raised if the objects can never be migrated; the message is for the condition."""


@dataclass(slots=True)
class MigrationProgress:
    """Progress of a migration, and its errors."""

    total: int = 0
    left: int = 0
    transient_error: Exception | None = None
    fatal_error: Exception | None = None
    old: list[ObjectMeta] = field(default_factory=list)  # yet to be written


async def find_resource(client: Client, wanted: GroupResource) -> Resource | None:
    """Return the resource in its preferred version; None if it is not served. Raises if discovery failed."""
    served = await discover_resources(client.document)
    for one in served.preferred_resources():
        if (one.group, one.plural) == (wanted.group, wanted.resource):
            return one
    for version, error in served.failures.items():
        if version.rpartition("/")[0] == wanted.group:
            raise error
    return None


def check_verbs(resource: Resource) -> None:
    """Raise NotMigratable if the resource lacks a required verb."""
    if not set(NEEDED) <= set(resource.verbs):
        told = f'resource "{_told(resource)}" does not support discovery operations: [{" ".join(NEEDED)}]'
        raise MigrationImpossible(told)


async def latest_version(client: Client, resource: Resource) -> str:
    """Return the current resourceVersion; later writes already use the current storage version."""
    found = await client.list(resource, limit=1, metadata_only=True)
    version = found.resource_version
    if not version.isdigit():
        raise MigrationImpossible(
            f"latest resourceVersion for {_told(resource)} is not valid: resource version is not well formed: {version}"
        )
    return version


async def rewrite(client: Client, resource: Resource, version: str, manager: str) -> MigrationProgress:
    """Rewrite every object that is not newer than a version; stops at an error."""
    progress = await _survey(client, resource, int(version))
    waiting = iter(progress.old)
    while batch := list(islice(waiting, CONCURRENCY)):
        results = await asyncio.gather(*(_touch(client, resource, one, manager) for one in batch))
        progress.left -= results.count(None)
        for error in filter(None, results):
            if isinstance(error, TRANSIENT_ERRORS):
                progress.transient_error = error
            else:
                progress.fatal_error = error
        if progress.transient_error or progress.fatal_error:
            break
    return progress


async def _survey(client: Client, resource: Resource, version: int) -> MigrationProgress:
    progress = MigrationProgress()
    async for page in client.list_pages(resource, metadata_only=True):
        progress.total += len(page.items)
        progress.old += [one.metadata for one in page.items if int(one.metadata.resource_version) <= version]
    progress.left = len(progress.old)
    return progress


async def _touch(client: Client, resource: Resource, meta: ObjectMeta, manager: str) -> Exception | None:
    """Rewrite an object unchanged; one that was changed or deleted meanwhile is done."""
    same = {
        "apiVersion": resource.group_version,
        "kind": resource.kind,
        "metadata": {"resourceVersion": meta.resource_version},
    }
    try:
        await client.patch(resource, meta.name, same, meta.namespace, manager=manager)
    except (Conflict, NotFound):
        return None
    except (ApiError, ClientError) as error:
        return error
    return None


def _told(resource: Resource) -> str:
    return f"{resource.group}/{resource.version}, Resource={resource.plural}"
