"""Access reviews: SubjectAccessReview, its local and self variants, and SelfSubjectRulesReview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.authorization_v1 import (
    SelfSubjectRulesReview,
    SubjectAccessReviewStatus,
    SubjectRulesReviewStatus,
)
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationDecision
from kubeloop.apiserver.handlers.subresources.access import decide_path, decide_resource, rules_of
from kubeloop.apiserver.handlers.subresources.answers import unstored_object_response
from kubeloop.apiserver.handlers.subresources.review_rules import local_review_errors, review_errors, self_review_errors
from kubeloop.apiserver.handlers.write import read_body
from kubeloop.apiserver.registry.field_manager import update_managed_fields
from kubeloop.apiserver.registry.store import ensure_namespace
from kubeloop.apiserver.request.context import RequestContext, User
from kubeloop.apiserver.request.write_options import validate_write_options
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.api.meta.field_path import FieldError
    from kubeloop.apiserver.app import ApiServer


async def review_subject(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SubjectAccessReview."""
    review = _read(ctx)
    _raise_invalid(ctx, review_errors(review))
    return await _answer(ctx, server, review, _subject(review.spec))


async def review_local_subject(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a LocalSubjectAccessReview."""
    review = _read(ctx)
    _raise_invalid(ctx, local_review_errors(review))
    return await _answer(ctx, server, review, _subject(review.spec))


async def review_self(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SelfSubjectAccessReview."""
    review = _read(ctx)
    _raise_invalid(ctx, self_review_errors(review))
    return await _answer(ctx, server, review, ctx.user)


async def review_self_rules(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SelfSubjectRulesReview."""
    asked = _read(ctx)
    namespace = asked.spec.namespace
    if not namespace:
        raise errors.bad_request("no namespace on request")
    await server.mutations.admit_posted(ctx, asked)
    known = rules_of(server.authorizer, ctx.user, namespace)
    status = SubjectRulesReviewStatus(
        resource_rules=known.resources,
        non_resource_rules=known.paths,
        incomplete=known.incomplete,
        evaluation_error=known.problem,
    )
    # The response repeats nothing of the request, as upstream.
    return unstored_object_response(ctx, ctx.resource, SelfSubjectRulesReview(status=status), 201)


def _read(ctx: RequestContext) -> Any:
    validate_write_options(ctx.query, "CreateOptions")
    review = read_body(ctx, ctx.resource)
    ensure_namespace(review.metadata, ctx.target.namespace)
    update_managed_fields(review, None, ctx.resource, ctx, "", None)
    return review


def _raise_invalid(ctx: RequestContext, found: list[FieldError]) -> None:
    if found:
        # Upstream has lost the kind's name when it reports the error.
        raise errors.invalid(ctx.resource.group, "", "", found)


def _subject(spec: Any) -> User:
    extra = tuple((key, tuple(values)) for key, values in spec.extra.items())
    return User(spec.user, spec.groups, spec.uid, extra)


async def _answer(ctx: RequestContext, server: ApiServer, review: Any, user: User) -> Response:
    await server.mutations.admit_posted(ctx, review)
    decision = _decide(server.authorizer, review.spec, user)
    status = SubjectAccessReviewStatus(allowed=decision.allowed, reason=decision.reason)
    force_setattr(review, "status", status)
    return unstored_object_response(ctx, ctx.resource, review, 201)


def _decide(authorizer: UnionAuthorizer, spec: Any, user: User) -> AuthorizationDecision:
    if spec.resource_attributes is not None:
        return decide_resource(authorizer, user, spec.resource_attributes)
    return decide_path(authorizer, user, spec.non_resource_attributes)
