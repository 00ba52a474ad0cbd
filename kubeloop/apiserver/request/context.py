"""What is known of one request while it is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.api.kinds import Resource
from kubeloop.api.struct_patch import Overlay
from kubeloop.apiserver.request.negotiation import Format
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.http import Request

if TYPE_CHECKING:
    from kubeloop.apiserver.flowcontrol.controller import Flow
    from kubeloop.apiserver.registry.store import Written


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


AUTHENTICATED = "system:authenticated"
# Where a user's extra tells which certificate or token they came with.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(slots=True)
class Context:
    """A request for a resource, its target found, its user known, its answer's form agreed."""

    request: Request
    target: Target
    query: Query
    user: User
    form: Format
    now: datetime
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log
    dry_run: bool = False
    forgets_managers: bool = False  # the client sent an empty list of managedFields
    takes_object: bool = False  # the caller is in this process, and is answered with an object instead of bytes
    has_typed_body: bool = False  # the body was encoded from a struct of the resource's own class
    overlay: Overlay | None = None  # the patch, of a caller in this process who knows what comes of it
    written: Written | None = None  # what is the answer to whoever takes an object
    flow: Flow | None = None  # whose turn it is to be served; none within the process

    @property
    def resource(self) -> Resource:
        return self.target.resource

    def warn(self, message: str) -> None:
        """Shown to the client in a Warning header; each text once."""
        if message not in self.warnings:
            self.warnings.append(message)
