# SPDX-License-Identifier: Apache-2.0
"""Dispatches a write to the matching webhooks: mutating ones in sequence, validating ones concurrently."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.api.patch import PatchError, PatchRejected, apply_json_patch
from kubeloop.apiserver.admission.dynamic.expression_evaluator import ExpressionEvaluator
from kubeloop.apiserver.admission.dynamic.expressions import MatchConditionsError, cel_variables_of
from kubeloop.apiserver.admission.dynamic.match_rules import Matcher
from kubeloop.apiserver.admission.dynamic.metrics import MatchConditionLabels, WebhookCallLabels
from kubeloop.apiserver.admission.dynamic.reinvocation import Reinvocation, ReinvocationContext
from kubeloop.apiserver.admission.dynamic.versioned_attributes import VersionedAttributes
from kubeloop.apiserver.admission.dynamic.webhooks.caller import WebhookCaller, WebhookCallError, WebhookRejection
from kubeloop.apiserver.admission.dynamic.webhooks.hooks import WebhookAccessor
from kubeloop.apiserver.admission.dynamic.webhooks.review import AdmissionResponse
from kubeloop.apiserver.authorization import UnionAuthorizer

log = logging.getLogger(__name__)

_ADMIT: Final = "admit"
_VALIDATING: Final = "validating"


class WebhookDispatcher:
    """Dispatcher of a server's webhooks."""

    def __init__(
        self, caller: WebhookCaller, matcher: Matcher, authorizer: UnionAuthorizer, judge: ExpressionEvaluator
    ) -> None:
        self._caller = caller
        self._matcher = matcher
        self._authorizer = authorizer
        self._evaluator = judge
        self._metrics = judge.metrics.webhooks
        self._clock = judge.clock

    async def mutate(
        self,
        hooks: Sequence[WebhookAccessor],
        subject: VersionedAttributes,
        participants: ReinvocationContext,
        reinvocation: Reinvocation,
    ) -> None:
        """Call the matching webhooks in order; each sees the changes of those before it."""
        own = subject.attributes.resource
        participants.begin(await subject.document(own))
        try:
            for hook in hooks:
                resource = await self._resource_for(hook, subject, _ADMIT)
                if resource is None or not participants.should_invoke(hook):
                    continue
                changed = await self._mutate(hook, subject, resource, reinvocation)
                participants.record_call(hook, changed=changed, comes_again=hook.is_reinvocable)
        finally:
            participants.end(await subject.document(own))

    async def validate(self, hooks: Sequence[WebhookAccessor], subject: VersionedAttributes) -> None:
        """Call the matching webhooks concurrently; raises the first rejection in the order of the hooks."""
        concerned: list[tuple[WebhookAccessor, Resource]] = []
        for hook in hooks:
            resource = await self._resource_for(hook, subject, _VALIDATING)
            if resource is not None:
                await subject.document(resource)  # cache the document before the concurrent calls
                concerned.append((hook, resource))
        if not concerned:
            return
        calls = (self._validate(hook, subject, resource, at) for at, (hook, resource) in enumerate(concerned))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _resource_for(self, hook: WebhookAccessor, subject: VersionedAttributes, kind: str) -> Resource | None:
        """Return the version in which a hook gets the write; None if it does not match."""
        resource = self._matcher.resource_for(hook.criteria, subject.attributes)
        if resource is None or not hook.conditions:
            return resource
        inputs = await cel_variables_of(subject, resource, None, self._authorizer)
        about = MatchConditionLabels(hook.name, "webhook", kind, subject.attributes.operation)
        try:
            met = await self._evaluator.match_conditions(hook.conditions, inputs, about, lenient=hook.ignores_failures)
        except MatchConditionsError as error:
            own = subject.attributes.resource
            raise errors.forbidden(own.group, own.plural, subject.name, str(error)) from None
        return resource if met else None

    async def _mutate(
        self, hook: WebhookAccessor, subject: VersionedAttributes, resource: Resource, round: Reinvocation
    ) -> bool:
        place = f"round_{round.number}_index_{hook.index}"
        annotations, changed = subject.attributes.annotations, False
        try:
            reply = await self._call(hook, subject, resource, _ADMIT)
            if reply is None:
                annotations[f"failed-open.mutation.webhook.admission.k8s.io/{place}"] = hook.name
            elif reply.patch:
                changed = await self._patch(hook, subject, resource, reply, place)
        finally:
            told = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
            annotations[f"mutation.webhook.admission.k8s.io/{place}"] = msgspec.json.encode(told).decode()
        return changed

    async def _validate(
        self, hook: WebhookAccessor, subject: VersionedAttributes, resource: Resource, index: int
    ) -> None:
        if await self._call(hook, subject, resource, _VALIDATING) is None:
            key = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"
            subject.attributes.annotations[key] = hook.name

    async def _call(
        self, hook: WebhookAccessor, subject: VersionedAttributes, resource: Resource, kind: str
    ) -> AdmissionResponse | None:
        """Call a hook and record metrics; None for a failed call that is ignored. Raises the client's error."""
        started, operation = self._clock.monotonic(), subject.attributes.operation
        code, why, rejected = 200, "", True
        try:
            reply = await self._caller.call(hook, subject, resource, mutating=kind == _ADMIT)
            rejected = False
            return reply
        except WebhookCallError as error:
            code, rejected, why = error.code, not hook.ignores_failures, "calling_webhook_error"
            if rejected:
                raise errors.internal_error(str(error)) from None
            log.warning("%s; ignored by the failure policy", error)
            self._metrics.count_fail_open(hook.name, kind)
            return None
        except WebhookRejection as refused:
            code, why = refused.error.code, "no_error"
            raise refused.error from None
        except errors.ApiError:
            code, why = 0, "apiserver_internal_error"
            raise
        finally:
            seconds = self._clock.monotonic() - started
            labels = WebhookCallLabels(hook.name, kind, operation)
            self._metrics.observe_call(labels, code, seconds, rejected=rejected)
            if subject.attributes.latency is not None:
                subject.attributes.latency.observe_webhook(seconds, mutating=kind == _ADMIT)
            if rejected and why:
                self._metrics.count_rejection(labels, why, code)

    async def _patch(
        self,
        hook: WebhookAccessor,
        subject: VersionedAttributes,
        resource: Resource,
        reply: AdmissionResponse,
        place: str,
    ) -> bool:
        operations = self._operations(hook, reply)
        if not operations:
            return False
        document = await subject.document(resource)
        if document is None:
            why = "attempted to modify the object, which is not supported for this operation"
            raise errors.internal_error(f"admission webhook {quote(hook.name)} {why}")
        if reply.patch_type != "JSONPatch":
            why = f"unsupported patch type {quote(reply.patch_type)}"
            return self._handle_bad_patch(hook, why)
        try:
            patched = apply_json_patch(document, operations)
            changed = await subject.replace_object(patched, resource)
        except PatchRejected as error:
            raise errors.internal_error(error.detail) from None
        except PatchError as error:
            raise errors.internal_error(error.message) from None
        except errors.ApiError as error:
            raise errors.internal_error(error.message) from None
        told = {
            "configuration": hook.configuration,
            "webhook": hook.name,
            "patch": operations,
            "patchType": "JSONPatch",
        }
        subject.attributes.annotations[f"patch.webhook.admission.k8s.io/{place}"] = msgspec.json.encode(told).decode()
        return changed

    def _operations(self, hook: WebhookAccessor, reply: AdmissionResponse) -> list[Any]:
        try:
            operations = msgspec.json.decode(reply.patch)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._handle_bad_patch(hook, f"received undecodable patch in webhook response: {error}")
            return []
        if isinstance(operations, list) and all(isinstance(one, dict) for one in operations):
            return operations
        self._handle_bad_patch(
            hook, "received undecodable patch in webhook response: json: cannot unmarshal into jsonpatch.Patch"
        )
        return []

    def _handle_bad_patch(self, hook: WebhookAccessor, why: str) -> bool:
        """Handle an invalid patch as a failed call: raise, or log and return False if failures are ignored."""
        failed = WebhookCallError(hook.name, why, 503)
        if not hook.ignores_failures:
            raise errors.internal_error(str(failed))
        log.warning("%s; ignored by the failure policy", failed)
        self._metrics.count_fail_open(hook.name, _ADMIT)
        return False
