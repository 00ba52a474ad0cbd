# SPDX-License-Identifier: Apache-2.0
"""Strategies of workloads: generation counting, and pod templates without disabled fields."""

from __future__ import annotations

from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.apps import TEMPLATE_GENERATION
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.api.generated.core_v1 import ReplicationController
from kubeloop.api.strategy.base import RESETS_SPEC, Strategy
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.strategy.pods.gates import drop_disabled_template_fields


def _drop_workload_fields(new: Any, old: Any, features: Features) -> None:
    drop_disabled_template_fields(new.spec.template, None if old is None else old.spec.template, features)


def _refine_controller_status(new: ReplicationController, old: ReplicationController) -> None:
    """Default the labels of a ReplicationController to those of its pods, also in a status update."""
    if not new.metadata.labels and old.spec.template is not None:
        force_setattr(new.metadata, "labels", old.spec.template.metadata.labels)


def _drop_template_fields(new: Any, old: Any, features: Features) -> None:
    drop_disabled_template_fields(new.template, None if old is None else old.template, features)


def _refine_daemon_set(new: DaemonSet, old: DaemonSet | None) -> None:
    """Maintain the template generation annotation that old clients use to distinguish pods of templates."""
    if old is None:
        _count_template(new, max(1, _template_generation_of(new)))
    else:
        changed = not is_semantically_equal(new.spec.template, old.spec.template)
        _count_template(new, _template_generation_of(old) + changed)


def _keep_template_generation(new: DaemonSet, old: DaemonSet) -> None:
    _count_template(new, _template_generation_of(old))


def _template_generation_of(daemon_set: DaemonSet) -> int:
    text = daemon_set.metadata.annotations.get(TEMPLATE_GENERATION, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _count_template(daemon_set: DaemonSet, generation: int) -> None:
    annotations = {**daemon_set.metadata.annotations, TEMPLATE_GENERATION: str(generation)}
    force_setattr(daemon_set.metadata, "annotations", annotations)


DEPLOYMENT = Strategy(
    has_status=True,
    # Annotations count because rollouts use some of them.
    generation_of=("spec", "metadata.annotations"),
    status_preserved_meta=("labels",),
    reset_fields={"": (("status",),), "status": (("spec",), ("metadata", "labels"))},
    drop_disabled=_drop_workload_fields,
)
REPLICA_SET = Strategy(
    has_status=True, generation_of=("spec",), reset_fields=RESETS_SPEC, drop_disabled=_drop_workload_fields
)
STATEFUL_SET = REPLICA_SET
REPLICATION_CONTROLLER = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    garbage_collection="Orphan",
    drop_disabled=_drop_workload_fields,
    refine_status=_refine_controller_status,
)
DAEMON_SET = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    drop_disabled=_drop_workload_fields,
    refine=_refine_daemon_set,
    refine_status=_keep_template_generation,
)
POD_TEMPLATE = Strategy(generation_of=("template",), drop_disabled=_drop_template_fields)
