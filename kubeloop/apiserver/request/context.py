"""Context of one resource request, and the authenticated user."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.api.kinds import Resource
from kubeloop.api.struct_patch import StructPatch
from kubeloop.apiserver.request.negotiation import ResponseFormat
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.http import Request

if TYPE_CHECKING:
    from kubeloop.apiserver.flowcontrol.controller import RequestFlow
    from kubeloop.apiserver.registry.store import WriteResult


@dataclass(frozen=True, slots=True)
class User:
    """Authenticated user: name, groups, UID and extra fields."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


AUTHENTICATED = "system:authenticated"
# Keys of a user's extra that identify the certificate or token of the request.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(slots=True)
class RequestContext:
    """Resource request with its resolved target, authenticated user and negotiated response format."""

    request: Request
    target: Target
    query: Query
    user: User
    form: ResponseFormat
    now: datetime
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log
    dry_run: bool = False
    forgets_managers: bool = False  # the client sent an empty managedFields list, which resets field management
    takes_object: bool = False  # the caller is in this process, and receives an object instead of bytes
    has_typed_body: bool = False  # the body was encoded from a struct of the resource's own class
    overlay: StructPatch | None = None  # the patch as a struct, sent by an in-process caller
    written: WriteResult | None = None  # the result for a caller that takes an object
    flow: RequestFlow | None = None  # flow of priority and fairness; None for in-process callers

    @property
    def resource(self) -> Resource:
        """Resource of the target."""
        return self.target.resource

    def warn(self, message: str) -> None:
        """Add a Warning header to the response; each text appears once."""
        if message not in self.warnings:
            self.warnings.append(message)
