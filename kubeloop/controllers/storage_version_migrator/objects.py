"""Finding a resource, and writing all of its objects once more."""

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
from kubeloop.client.discovery.served_resources import discover
from kubeloop.client.errors import ClientError, TransportError

AT_ONCE: Final = 16  # objects written at a time
NEEDED: Final = ("update", "patch", "list")
# The server, or the way to it, is in trouble: the same write may succeed later.
PASSING: Final = (ServerTimeout, TooManyRequests, ServiceUnavailable, InternalError, Timeout, TransportError)


class NotMigratable(Exception):
    """The objects cannot be migrated, ever; the message is for the condition that says so."""


@dataclass(slots=True)
class Progress:
    """How far it is, and what is in the way."""

    total: int = 0
    left: int = 0
    passing: Exception | None = None
    fatal: Exception | None = None
    old: list[ObjectMeta] = field(default_factory=list)  # still to be written


async def find_resource(client: Client, wanted: GroupResource) -> Resource | None:
    """The resource in the version that its group prefers; None if the server has none. Raises if it can't tell."""
    served = await discover(client.document)
    for one in served.preferred():
        if (one.group, one.plural) == (wanted.group, wanted.resource):
            return one
    for version, error in served.failures.items():
        if version.rpartition("/")[0] == wanted.group:
            raise error
    return None


def check_verbs(resource: Resource) -> None:
    if not set(NEEDED) <= set(resource.verbs):
        told = f'resource "{_told(resource)}" does not support discovery operations: [{" ".join(NEEDED)}]'
        raise NotMigratable(told)


async def latest_version(client: Client, resource: Resource) -> str:
    """Whatever is written after this version is written as the server writes today."""
    found = await client.list(resource, limit=1, metadata_only=True)
    version = found.resource_version
    if not version.isdigit():
        raise NotMigratable(
            f"latest resourceVersion for {_told(resource)} is not valid: resource version is not well formed: {version}"
        )
    return version


async def rewrite(client: Client, resource: Resource, version: str, manager: str) -> Progress:
    """Write every object that is not newer than a version, as it is; stops at what is in the way."""
    progress = await _survey(client, resource, int(version))
    waiting = iter(progress.old)
    while batch := list(islice(waiting, AT_ONCE)):
        results = await asyncio.gather(*(_touch(client, resource, one, manager) for one in batch))
        progress.left -= results.count(None)
        for error in filter(None, results):
            if isinstance(error, PASSING):
                progress.passing = error
            else:
                progress.fatal = error
        if progress.passing or progress.fatal:
            break
    return progress


async def _survey(client: Client, resource: Resource, version: int) -> Progress:
    progress = Progress()
    async for page in client.pages(resource, metadata_only=True):
        progress.total += len(page.items)
        progress.old += [one.metadata for one in page.items if int(one.metadata.resource_version) <= version]
    progress.left = len(progress.old)
    return progress


async def _touch(client: Client, resource: Resource, meta: ObjectMeta, manager: str) -> Exception | None:
    """Write an object as it is. What was changed or deleted meanwhile needs no more."""
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
