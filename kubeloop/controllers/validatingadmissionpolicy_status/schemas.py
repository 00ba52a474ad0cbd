"""Reads the schemas of kinds from the server's OpenAPI documents."""

from __future__ import annotations

import logging
from typing import Any, Final

from kubeloop.api.errors import ApiError
from kubeloop.api.expressions.admission_types import PolicyGVK
from kubeloop.api.structural.declared import Declarations
from kubeloop.api.structural.referred import schema_of_kind
from kubeloop.client import Client
from kubeloop.client.errors import ClientError

_PUBLISHED: Final = "/openapi/v3"
_REMEMBERED: Final = 32

logger = logging.getLogger(__name__)


class PublishedSchemas:
    """Cache of schemas as type declarations; the large documents themselves are not kept."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._declared: dict[tuple[str, str], Declarations | None] = {}  # by the document's URL and the type's name

    async def of(self, kind: PolicyGVK, number: int) -> Declarations | None:
        """Return the declarations of a kind, or None without a schema; another number makes another type."""
        try:
            return await self._find(kind, f"{kind.kind}{number}")
        except (ApiError, ClientError, OSError, TimeoutError) as error:
            logger.info("no schema of %s: %s", kind, error)
            return None

    async def _find(self, kind: PolicyGVK, name: str) -> Declarations | None:
        paths: dict[str, Any] = (await self._client.document(_PUBLISHED)).get("paths") or {}
        version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        described = paths.get(f"apis/{version}" if kind.group else f"api/{version}")
        if described is None:
            return None
        place = str(described["serverRelativeURL"])  # contains a hash of the document
        if (place, name) not in self._declared:
            document = await self._client.document(place.partition("?")[0])
            schema = schema_of_kind(document, kind.group, kind.version, kind.kind)
            self._remember((place, name), None if schema is None else Declarations(schema, name))
        return self._declared[place, name]

    def _remember(self, key: tuple[str, str], declared: Declarations | None) -> None:
        while len(self._declared) >= _REMEMBERED:
            del self._declared[next(iter(self._declared))]
        self._declared[key] = declared
