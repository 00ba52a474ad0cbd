# SPDX-License-Identifier: Apache-2.0
"""SelfSubjectReview and TokenReview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.authentication_v1 import (
    SelfSubjectReview,
    SelfSubjectReviewStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.handlers.subresources.unstored_bodies import read_unstored
from kubeloop.apiserver.handlers.subresources.unstored_responses import unstored_object_response
from kubeloop.apiserver.request.context import RequestContext, User
from kubeloop.apiserver.request.write_options import validate_write_options
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer
    from kubeloop.apiserver.authentication.remote_tokens import RemoteTokenUnion

_UNKNOWN = "invalid bearer token"


async def review_self_subject(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SelfSubjectReview."""
    validate_write_options(ctx.query, "CreateOptions")
    asked = await read_unstored(ctx, server, ctx.resource)
    await server.object_store.admit_create_subresource(ctx, asked)
    review = SelfSubjectReview(
        metadata=ObjectMeta(creation_timestamp=time_of(ctx.now)),
        status=SelfSubjectReviewStatus(user_info=_user_info(ctx.user)),
    )
    return unstored_object_response(ctx, ctx.resource, review, 201)


async def review_token(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a TokenReview."""
    validate_write_options(ctx.query, "CreateOptions")
    review: TokenReview = await read_unstored(ctx, server, ctx.resource)
    if not review.spec.token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    await server.object_store.admit_create_subresource(ctx, review)
    force_setattr(review, "status", await _review_status(server, review.spec.token, review.spec.audiences))
    return unstored_object_response(ctx, ctx.resource, review, 201)


async def _review_status(server: ApiServer, token: str, wanted: Sequence[str]) -> TokenReviewStatus:
    own = server.tokens.audiences if server.tokens is not None else ()
    audiences = tuple(wanted) or own
    problems: list[str] = []
    if server.tokens is not None:
        from kubeloop.api.signed_tokens import InvalidToken
        from kubeloop.apiserver.authentication.service_account_tokens import InvalidTokenError

        try:
            found = server.tokens.validate(token, audiences)
            return TokenReviewStatus(authenticated=True, user=_user_info(found.user), audiences=found.audiences)
        except InvalidTokenError as rejected:
            problems.append(str(rejected))
        except InvalidToken:
            pass
    shared = tuple(audience for audience in audiences if audience in own)
    # Static and bootstrap tokens have no audience: they are valid for this server alone.
    user = server.authenticator.known_user(token) if shared or not audiences else None
    if user is not None:
        return TokenReviewStatus(authenticated=True, user=_user_info(user), audiences=shared)
    if server.authenticator.remote is not None:
        return await _review_remote_token(server.authenticator.remote, token, audiences, problems)
    return TokenReviewStatus(error=_invalid_token(problems))


async def _review_remote_token(
    remote: RemoteTokenUnion, token: str, audiences: Sequence[str], problems: list[str]
) -> TokenReviewStatus:
    """Review a token that other servers are asked about."""
    from kubeloop.apiserver.authentication.remote_tokens import TokenRejected

    try:
        found = await remote.authenticate(token, audiences)
    except TokenRejected as rejected:
        return TokenReviewStatus(error=_invalid_token([*problems, str(rejected)]))
    if found is None:
        return TokenReviewStatus(error=_invalid_token(problems))
    return TokenReviewStatus(authenticated=True, user=_user_info(found.user), audiences=found.audiences)


def _invalid_token(problems: Sequence[str]) -> str:
    return f"[{', '.join((_UNKNOWN, *problems))}]" if problems else _UNKNOWN


def _user_info(user: User) -> UserInfo:
    return UserInfo(username=user.name, uid=user.uid, groups=user.groups, extra=dict(user.extra))
