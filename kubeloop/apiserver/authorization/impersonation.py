# SPDX-License-Identifier: Apache-2.0
"""Impersonation: the Impersonate-* headers, and the permissions that they require.

Constrained modes are tried first: they need a permission on the user (`impersonate:MODE`) and one on the request
(`impersonate-on:MODE:VERB`). The legacy mode, in which `impersonate` alone suffices, is last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from kubeloop.api import errors
from kubeloop.api.meta.field_path import FieldPath, aggregate, quote
from kubeloop.api.meta.name_rules import (
    check_dns1123_label,
    check_dns1123_subdomain,
    validate_domain_prefixed_path,
)
from kubeloop.apiserver.authorization import ADMINISTRATORS, UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, forbidden_error
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request

_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_ANONYMOUS, _AUTHENTICATED, _UNAUTHENTICATED = "system:anonymous", "system:authenticated", "system:unauthenticated"
_NODE = "system:node:"
_ACCOUNT = "system:serviceaccount:"
_NODE_NAME = "authentication.kubernetes.io/node-name"
# From this many on, a permission on all is looked up before one on each.
_BULK_CHECK_THRESHOLD = 4

_Allowed = Callable[[AuthorizationAttributes], Awaitable[None]]


class ImpersonationResult(NamedTuple):
    """Impersonated user; the constraint is the verb that allowed it, empty for the legacy mode."""

    user: User
    constraint: str = ""


def requested_user(request: Request) -> User | None:
    """Return the user that the headers request, or None."""
    extra = {
        unquote(name.removeprefix(_EXTRA)): tuple(request.header_values(name))
        for name in request.headers
        if name.startswith(_EXTRA)
    }
    user = User(
        next(iter(request.header_values("impersonate-user")), ""),
        tuple(request.header_values("impersonate-group")),
        next(iter(request.header_values("impersonate-uid")), ""),
        tuple(sorted(extra.items())),
    )
    if user.name:
        return user
    if user.uid or user.groups or extra:
        raise errors.bad_request(f"requested {_as_go(user)} without impersonating a user name")
    return None


async def impersonate(
    requester: User,
    wanted: User,
    request: AuthorizationAttributes,
    authorizer: UnionAuthorizer,
    *,
    constrained: bool = True,
) -> ImpersonationResult:
    """Return the user to continue as; raises the Forbidden error of the first applicable mode.

    Without constrained modes (feature gate ConstrainedImpersonation), only the legacy mode applies.
    """
    first: errors.Forbidden | None = None
    for mode in _MODES if constrained else _MODES[-1:]:
        if not mode.applies_to(wanted, requester):
            continue
        try:
            user = await _authorize_mode(mode, requester, wanted, request, authorizer)
            return ImpersonationResult(user, mode.constraint)
        except errors.Forbidden as refused:
            first = first or refused
    assert first is not None  # the legacy mode applies to all users
    raise first


class _Mode(NamedTuple):
    """Impersonation mode: the users it applies to, and the names of its verbs."""

    name: str
    applies_to: Callable[[User, User], bool]

    @property
    def constraint(self) -> str:
        return f"impersonate:{self.name}" if self.name else ""


def _has_only_name(wanted: User) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _node_in(name: str) -> str:
    node = name.removeprefix(_NODE) if name.startswith(_NODE) else ""
    return node if node and not check_dns1123_subdomain(node) else ""


def account_in(name: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that a user name denotes, or None."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":") if name.startswith(_ACCOUNT) else ("", "", "")
    if not namespace or not account or check_dns1123_label(namespace) or check_dns1123_subdomain(account):
        return None
    return namespace, account


def _is_on_same_node(wanted: User, requester: User) -> bool:
    node = _node_in(wanted.name)
    return (
        bool(node)
        and _has_only_name(wanted)
        and account_in(requester.name) is not None
        and dict(requester.extra).get(_NODE_NAME) == (node,)
    )


_MODES = (
    _Mode("associated-node", _is_on_same_node),
    _Mode("arbitrary-node", lambda wanted, _: _has_only_name(wanted) and bool(_node_in(wanted.name))),
    _Mode("serviceaccount", lambda wanted, _: _has_only_name(wanted) and account_in(wanted.name) is not None),
    _Mode("user-info", lambda wanted, _: not _node_in(wanted.name) and account_in(wanted.name) is None),
    _Mode("", lambda wanted, requester: True),
)


async def _authorize_mode(
    mode: _Mode, requester: User, wanted: User, request: AuthorizationAttributes, authorizer: UnionAuthorizer
) -> User:
    if mode.name == "associated-node":
        # The permission is for whichever node the account runs on; the node itself has been checked.
        keys = tuple(sorted(key for key, _ in requester.extra))
        requester = replace(requester, extra=(("authentication.kubernetes.io/associated-node-keys", keys),))

    async def demand(asked: AuthorizationAttributes) -> None:
        decision = await authorizer.wait_decision(asked)
        if not decision.allowed:
            raise forbidden_error(asked, decision.reason)

    if mode.name:
        await demand(request._replace(user=requester, verb=f"impersonate-on:{mode.name}:{request.verb}"))
    groups = await _check_name(mode, requester, wanted, demand)
    verb = mode.constraint or "impersonate"
    if wanted.uid:
        await demand(AuthorizationAttributes(requester, verb, _AUTHENTICATION, "v1", "uids", name=wanted.uid))
    if wanted.groups:
        await _check_groups(mode, requester, wanted.groups, demand)
    if wanted.extra:
        await _check_extra(mode, requester, wanted.extra, demand)
    return replace(wanted, groups=_with_authenticated_group(wanted.name, groups))


async def _check_name(mode: _Mode, requester: User, wanted: User, demand: _Allowed) -> tuple[str, ...]:
    """Check the permission on the user name; return the groups that come with it."""
    verb, group = (mode.constraint, _AUTHENTICATION) if mode.name else ("impersonate", "")
    asked = AuthorizationAttributes(requester, verb, group, "v1", "users", name=wanted.name)
    groups = wanted.groups
    node, account = _node_in(wanted.name), account_in(wanted.name)
    if mode.name and node:
        asked = asked._replace(resource="nodes", name="*" if mode.name == "associated-node" else node)
        groups = ("system:nodes",)
    elif account is not None:
        namespace, name = account
        asked = asked._replace(resource="serviceaccounts", namespace=namespace, name=name)
        groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    await demand(asked)
    return groups


async def _check_groups(mode: _Mode, requester: User, groups: tuple[str, ...], demand: _Allowed) -> None:
    verb, group = (mode.constraint, _AUTHENTICATION) if mode.name else ("impersonate", "")
    asked = AuthorizationAttributes(requester, verb, group, "v1", "groups")
    if mode.name:
        if "" in groups:
            raise forbidden_error(asked, "impersonating the empty string group is not allowed")
        if ADMINISTRATORS in groups:
            why = f"impersonating the {ADMINISTRATORS} group is not allowed"
            raise forbidden_error(asked._replace(name=ADMINISTRATORS), why)
        if len(groups) >= _BULK_CHECK_THRESHOLD and await _is_authorized(asked._replace(name="*"), demand):
            return
    for one in groups:
        await demand(asked._replace(name=one))


async def _check_extra(
    mode: _Mode, requester: User, extra: tuple[tuple[str, tuple[str, ...]], ...], demand: _Allowed
) -> None:
    asked = AuthorizationAttributes(requester, mode.constraint or "impersonate", _AUTHENTICATION, "v1", "userextras")
    if mode.name:
        for problem in _problems_of_extra(extra):
            raise forbidden_error(asked, problem)
        many = len(extra) >= _BULK_CHECK_THRESHOLD or sum(len(values) for _, values in extra) >= _BULK_CHECK_THRESHOLD
        if many and await _is_authorized(asked._replace(subresource="*", name="*"), demand):
            return
    for key, values in extra:
        for value in values:
            await demand(asked._replace(subresource=key, name=value))


async def _is_authorized(asked: AuthorizationAttributes, demand: _Allowed) -> bool:
    try:
        await demand(asked)
    except errors.Forbidden:
        return False
    return True


def _problems_of_extra(extra: tuple[tuple[str, tuple[str, ...]], ...]) -> Iterator[str]:
    for key, values in extra:
        if not key:
            yield "impersonating the empty string key in extra is not allowed"
        elif found := validate_domain_prefixed_path(FieldPath("extra").child("key"), key):
            told = aggregate(error.message() for error in found)
            yield f"impersonating an invalid key in extra is not allowed: {told}"
        elif key != key.lower():
            yield f"impersonating a non-lowercase key in extra is not allowed: {quote(key)}"
        elif "" in values:
            yield "impersonating the empty string value in extra is not allowed"


def _with_authenticated_group(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name == _ANONYMOUS:
        return groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
    if _UNAUTHENTICATED in groups or _AUTHENTICATED in groups:
        return groups
    return (*groups, _AUTHENTICATED)


def _as_go(user: User) -> str:
    """Return the user as Go's %#v prints it, which upstream's messages show."""
    groups = f"[]string{{{', '.join(map(quote, user.groups))}}}" if user.groups else "[]string(nil)"
    listed = ", ".join(f"{quote(key)}:[]string{{{', '.join(map(quote, values))}}}" for key, values in user.extra)
    extra = f"map[string][]string{{{listed}}}" if user.extra else "map[string][]string(nil)"
    return f"&user.DefaultInfo{{Name:{quote(user.name)}, UID:{quote(user.uid)}, Groups:{groups}, Extra:{extra}}}"
