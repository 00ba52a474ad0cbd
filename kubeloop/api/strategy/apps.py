"""Strategies of workloads: generation counting, and pod templates without disabled fields."""

from __future__ import annotations

from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.api.generated.core_v1 import ReplicationController
from kubeloop.api.strategy.base import RESETS_SPEC, Strategy
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.strategy.pods.gates import drop_disabled_template_fields

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def refine_template(new: Any, old: Any) -> None:
    """Drop disabled fields from a workload's pod template."""
    drop_disabled_template_fields(new.spec.template, None if old is None else old.spec.template)


def _refine_controller_status(new: ReplicationController, old: ReplicationController) -> None:
    """Default the labels of a ReplicationController to those of its pods, also in a status update."""
    if not new.metadata.labels and old.spec.template is not None:
        force_setattr(new.metadata, "labels", old.spec.template.metadata.labels)


def _refine_pod_template(new: Any, old: Any) -> None:
    drop_disabled_template_fields(new.template, None if old is None else old.template)


def _refine_daemon_set(new: DaemonSet, old: DaemonSet | None) -> None:
    """Maintain the template generation annotation that old clients use to distinguish pods of templates."""
    refine_template(new, old)
    if old is None:
        _count_template(new, max(1, _template_generation_of(new)))
    else:
        changed = not is_semantically_equal(new.spec.template, old.spec.template)
        _count_template(new, _template_generation_of(old) + changed)


def _keep_template_generation(new: DaemonSet, old: DaemonSet) -> None:
    _count_template(new, _template_generation_of(old))


def _template_generation_of(daemon_set: DaemonSet) -> int:
    text = daemon_set.metadata.annotations.get(_TEMPLATE_GENERATION, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _count_template(daemon_set: DaemonSet, generation: int) -> None:
    annotations = {**daemon_set.metadata.annotations, _TEMPLATE_GENERATION: str(generation)}
    force_setattr(daemon_set.metadata, "annotations", annotations)


DEPLOYMENT = Strategy(
    has_status=True,
    # Annotations count because rollouts use some of them.
    generation_of=("spec", "metadata.annotations"),
    status_keeps=("labels",),
    reset_fields={"": (("status",),), "status": (("spec",), ("metadata", "labels"))},
    refine=refine_template,
)
REPLICA_SET = Strategy(has_status=True, generation_of=("spec",), reset_fields=RESETS_SPEC, refine=refine_template)
STATEFUL_SET = REPLICA_SET
REPLICATION_CONTROLLER = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    garbage_collection="Orphan",
    refine=refine_template,
    refine_status=_refine_controller_status,
)
DAEMON_SET = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    refine=_refine_daemon_set,
    refine_status=_keep_template_generation,
)
POD_TEMPLATE = Strategy(generation_of=("template",), refine=_refine_pod_template)
