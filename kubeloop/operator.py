# SPDX-License-Identifier: Apache-2.0
"""Public names for authors of controllers and operators.

informers ── keys ──▶ Controller: work queue, workers, retries ──▶ reconcile(key) ── writes ──▶ ControllerContext.client
`run` starts a standalone program, with leader election if it has a lease. CustomKind makes a custom resource from a
class, serve_webhooks serves admission webhooks. The names of `kubeloop.client` that most controllers use are here, too;
the types of objects are in `kubeloop.types`.
"""

from __future__ import annotations

from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.conditions import find_condition, is_false, is_true, remove_condition, set_condition
from kubeloop.api.meta.owner_references import controller_of, is_controlled_by, is_owned_by, with_owner, without_owners
from kubeloop.client import AlreadyExists, ApiError, Client, Conflict, NotFound, Resource, resource_of_class
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers.app.context import ControllerContext, Wire
from kubeloop.controllers.app.standalone import run, run_standalone
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.causes.cause import Cause, Origin, RecordedWrite, current_cause
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.controller import (
    Controller,
    ControllerStatus,
    Health,
    Reconcile,
    Result,
    Telemetry,
    TerminalError,
)
from kubeloop.runtime.crd.definition import CustomKind, CustomObject, is_established
from kubeloop.runtime.crd.schema import SchemaError
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.event_handlers import (
    DeletedFinalStateUnknown,
    HandlerRegistration,
    ResourceEventHandler,
    ResourceEventHandlerFuncs,
)
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.informer.store import IndexFunction, controller_uid_of, node_name_of, owner_uids_of
from kubeloop.runtime.leaderelection.fence import Fence, FencedTransport, LeadershipLost
from kubeloop.runtime.leaderelection.leader_elector import LeaderElector, LeaseDurations, new_identity
from kubeloop.runtime.manager import Incident, Loop, LoopManager, LoopStatus, SupervisorTimeouts
from kubeloop.runtime.objects.controller_ref_manager import ClaimOwner, claim, live_check
from kubeloop.runtime.objects.finalizers import ensure_finalizer, remove_finalizer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.owner_references import controller_reference
from kubeloop.runtime.queue.enqueue import KeysOf, Predicate, controller_key, own_key
from kubeloop.runtime.queue.expectations import Expectations
from kubeloop.runtime.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    default_controller_rate_limiter,
)
from kubeloop.runtime.queue.slow_start import slow_start
from kubeloop.runtime.queue.workqueue import Priority, WorkQueue
from kubeloop.runtime.webhook.review import AdmissionDenied, Hook, Review
from kubeloop.runtime.webhook.server import serve_webhooks

__all__ = [
    "AdmissionDenied",
    "AlreadyExists",
    "ApiError",
    "AssumeCache",
    "BucketRateLimiter",
    "Cause",
    "ClaimOwner",
    "Client",
    "Clock",
    "Conflict",
    "ConsistencyStore",
    "Controller",
    "ControllerContext",
    "ControllerStatus",
    "CustomKind",
    "CustomObject",
    "DeletedFinalStateUnknown",
    "EventRecorder",
    "Expectations",
    "Fence",
    "FencedTransport",
    "HandlerRegistration",
    "Health",
    "Hook",
    "Incident",
    "IndexFunction",
    "Informer",
    "ItemExponentialFailureRateLimiter",
    "KeysOf",
    "LeaderElector",
    "LeadershipLost",
    "LeaseDurations",
    "Loop",
    "LoopManager",
    "LoopStatus",
    "MaxOfRateLimiter",
    "NotFound",
    "ObjectKey",
    "ObjectMeta",
    "Origin",
    "Predicate",
    "Priority",
    "RateLimiter",
    "Reconcile",
    "RecordedWrite",
    "Resource",
    "ResourceEventHandler",
    "ResourceEventHandlerFuncs",
    "Result",
    "Review",
    "SchemaError",
    "SharedInformerFactory",
    "SupervisorTimeouts",
    "SystemClock",
    "Telemetry",
    "TerminalError",
    "Wire",
    "WorkQueue",
    "claim",
    "controller_key",
    "controller_of",
    "controller_reference",
    "controller_uid_of",
    "current_cause",
    "default_controller_rate_limiter",
    "ensure_finalizer",
    "find_condition",
    "is_controlled_by",
    "is_established",
    "is_false",
    "is_owned_by",
    "is_true",
    "key_of",
    "live_check",
    "new_identity",
    "node_name_of",
    "own_key",
    "owner_uids_of",
    "remove_condition",
    "remove_finalizer",
    "resource_of_class",
    "run",
    "run_standalone",
    "serve_webhooks",
    "set_condition",
    "slow_start",
    "with_owner",
    "without_owners",
]
