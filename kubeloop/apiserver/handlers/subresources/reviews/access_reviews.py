# SPDX-License-Identifier: Apache-2.0
"""Access reviews: SubjectAccessReview, its local and self variants, and SelfSubjectRulesReview."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.field_selectors import FieldRequirement, FieldSelector, parse_field_selector
from kubeloop.api.generated.authorization_v1 import (
    NonResourceAttributes,
    NonResourceRule,
    ResourceAttributes,
    ResourceRule,
    SelfSubjectRulesReview,
    SubjectAccessReviewStatus,
    SubjectRulesReviewStatus,
)
from kubeloop.api.selectors.labels import Requirement
from kubeloop.api.selectors.operators import Operator, SelectorError
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.handlers.subresources.reviews.access_review_validation import (
    local_review_errors,
    review_errors,
    self_review_errors,
)
from kubeloop.apiserver.handlers.subresources.unstored_bodies import read_unstored
from kubeloop.apiserver.handlers.subresources.unstored_responses import unstored_object_response
from kubeloop.apiserver.request.context import RequestContext, User
from kubeloop.apiserver.request.write_options import validate_write_options
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.api.meta.field_path import FieldError
    from kubeloop.apiserver.app import ApiServer

_OPERATORS = {"In": Operator.EQUALS, "NotIn": Operator.NOT_EQUALS}
_LABEL_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


async def review_subject(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SubjectAccessReview."""
    review = await _read(ctx, server, review_errors)
    return await _answer(ctx, server, review, _subject(review.spec))


async def review_local_subject(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a LocalSubjectAccessReview."""
    review = await _read(ctx, server, local_review_errors)
    return await _answer(ctx, server, review, _subject(review.spec))


async def review_self(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SelfSubjectAccessReview."""
    review = await _read(ctx, server, self_review_errors)
    return await _answer(ctx, server, review, ctx.user)


async def review_self_rules(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SelfSubjectRulesReview."""
    asked = await _read(ctx, server, lambda review: [])
    namespace = asked.spec.namespace
    if not namespace:
        raise errors.bad_request("no namespace on request")
    await server.object_store.admit_create_subresource(ctx, asked)
    known = rules_of(server.authorizer, ctx.user, namespace)
    status = SubjectRulesReviewStatus(
        resource_rules=known.resources,
        non_resource_rules=known.paths,
        incomplete=known.incomplete,
        evaluation_error=known.evaluation_error,
    )
    # The response repeats nothing of the request, as upstream.
    return unstored_object_response(ctx, ctx.resource, SelfSubjectRulesReview(status=status), 201)


async def _read(ctx: RequestContext, server: ApiServer, validate: Callable[[Any], list[FieldError]]) -> Any:
    validate_write_options(ctx.query, "CreateOptions")
    review = await read_unstored(ctx, server, ctx.resource)
    await server.worker_thread.run_for(ctx.request, _validate, ctx, review, validate)
    return review


def _validate(ctx: RequestContext, review: Any, validate: Callable[[Any], list[FieldError]]) -> None:
    if found := validate(review):
        # Upstream has lost the kind's name when it reports the error.
        raise errors.invalid(ctx.resource.group, "", "", found)


def _subject(spec: Any) -> User:
    extra = tuple((key, tuple(values)) for key, values in spec.extra.items())
    return User(spec.user, spec.groups, spec.uid, extra)


async def _answer(ctx: RequestContext, server: ApiServer, review: Any, user: User) -> Response:
    await server.object_store.admit_create_subresource(ctx, review)
    decision = await _decide(server.authorizer, review.spec, user)
    status = SubjectAccessReviewStatus(
        allowed=decision.allowed, denied=decision.denied, reason=decision.reason, evaluation_error=decision.error
    )
    force_setattr(review, "status", status)
    return unstored_object_response(ctx, ctx.resource, review, 201)


async def _decide(authorizer: UnionAuthorizer, spec: Any, user: User) -> AuthorizationDecision:
    if spec.resource_attributes is not None:
        return await decide_resource(authorizer, user, spec.resource_attributes)
    return await decide_path(authorizer, user, spec.non_resource_attributes)


class UserRules(NamedTuple):
    """Rules that apply to a user, as far as the authorizers can enumerate them."""

    resources: tuple[ResourceRule, ...]
    paths: tuple[NonResourceRule, ...]
    incomplete: bool
    evaluation_error: str


async def decide_resource(authorizer: UnionAuthorizer, user: User, asked: ResourceAttributes) -> AuthorizationDecision:
    """Authorize the resource attributes of an access review."""
    return await authorizer.wait_decision(
        AuthorizationAttributes(
            user,
            asked.verb,
            asked.group,
            asked.version or "*",
            asked.resource,
            asked.subresource,
            asked.namespace,
            asked.name,
            None,
            _fields(asked),
            _labels(asked),
        )
    )


async def decide_path(authorizer: UnionAuthorizer, user: User, asked: NonResourceAttributes) -> AuthorizationDecision:
    """Authorize the non-resource attributes of an access review."""
    return await authorizer.wait_decision(AuthorizationAttributes(user, asked.verb, path=asked.path))


def rules_of(authorizer: UnionAuthorizer, user: User, namespace: str) -> UserRules:
    """Return the rules that apply to a user in a namespace."""
    known = authorizer.rules_of(user, namespace)
    resources = [
        ResourceRule(
            verbs=rule.verbs or (),
            api_groups=rule.api_groups,
            resources=rule.resources,
            resource_names=rule.resource_names,
        )
        for rule in known.rules
        if rule.resources
    ]
    paths = [
        NonResourceRule(verbs=rule.verbs or (), non_resource_urls=rule.non_resource_urls)
        for rule in known.rules
        if rule.non_resource_urls
    ]
    return UserRules(tuple(resources), tuple(paths), known.incomplete, known.error)


def _labels(asked: ResourceAttributes) -> str:
    """Return the label selector of a review as text."""
    selector = asked.label_selector
    if selector is None or not selector.requirements:
        return selector.raw_selector if selector is not None else ""
    known = (one for one in selector.requirements if one.operator in _LABEL_OPERATORS)
    return ",".join(str(Requirement(one.key, _LABEL_OPERATORS[one.operator], one.values)) for one in known)


def _fields(asked: ResourceAttributes) -> FieldSelector | None:
    """Parse the field selector of a review; invalid requirements are dropped, which only widens the question."""
    selector = asked.field_selector
    if selector is None:
        return None
    if selector.requirements:
        known = (one for one in selector.requirements if one.operator in _OPERATORS and len(one.values) == 1)
        return FieldSelector(tuple(FieldRequirement(one.key, _OPERATORS[one.operator], one.values[0]) for one in known))
    try:
        return parse_field_selector(selector.raw_selector)
    except SelectorError:
        return None
