# SPDX-License-Identifier: Apache-2.0
"""Builders of test objects that a server accepts: required fields have defaults.

Further keyword arguments are fields of the object's spec, as the generated structs name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api.generated.apps_v1 import (
    DaemonSet,
    DaemonSetSpec,
    Deployment,
    DeploymentSpec,
    ReplicaSet,
    ReplicaSetSpec,
    StatefulSet,
    StatefulSetSpec,
)
from kubeloop.api.generated.batch_v1 import CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec
from kubeloop.api.generated.core_v1 import (
    ConfigMap,
    Container,
    Namespace,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    Secret,
    Service,
    ServiceAccount,
    ServicePort,
    ServiceSpec,
    VolumeResourceRequirements,
)
from kubeloop.api.generated.meta_v1 import LabelSelector, ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.objects.owner_references import controller_reference

NAMESPACE = "default"
IMAGE = "registry.example/app:1"

Labels = Mapping[str, str]


def metadata(
    name: str,
    namespace: str = "",
    *,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    owner: Any = None,
    finalizers: tuple[str, ...] = (),
) -> ObjectMeta:
    """Build object metadata; `owner` is a created object that becomes the controlling owner."""
    references = () if owner is None else (controller_reference(owner, resource_of_class(type(owner))),)
    return ObjectMeta(
        name=name,
        namespace=namespace,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        owner_references=references,
        finalizers=finalizers,
    )


# Where things run, and under which names.


def namespace(name: str, *, labels: Labels | None = None, **about: Any) -> Namespace:
    """Build a Namespace."""
    return Namespace(metadata=metadata(name, labels=labels, **about))


def node(
    name: str = "node", *, cpu: str = "4", memory: str = "16Gi", pods: str = "110", ready: bool = True, **spec: Any
) -> Node:
    """Build a Node with a reported status, which `cluster.add` keeps."""
    room = {"cpu": Quantity(cpu), "memory": Quantity(memory), "pods": Quantity(pods)}
    condition = NodeCondition(type="Ready", status="True" if ready else "False")
    return Node(
        metadata=metadata(name, labels={"kubernetes.io/hostname": name}),
        spec=NodeSpec(**spec),
        status=NodeStatus(capacity=room, allocatable=room, conditions=(condition,)),
    )


def service_account(name: str, namespace: str = NAMESPACE, **about: Any) -> ServiceAccount:
    """Build a ServiceAccount."""
    return ServiceAccount(metadata=metadata(name, namespace, **about))


# Settings.


def config_map(name: str, data: Mapping[str, str] | None = None, namespace: str = NAMESPACE, **about: Any) -> ConfigMap:
    """Build a ConfigMap; further arguments are those of `metadata`."""
    return ConfigMap(metadata=metadata(name, namespace, **about), data=dict(data or {}))


def secret(name: str, data: Mapping[str, bytes] | None = None, namespace: str = NAMESPACE, **about: Any) -> Secret:
    """Build a Secret from unencoded data."""
    return Secret(metadata=metadata(name, namespace, **about), data=dict(data or {}))


# Workloads.


def container(name: str = "app", image: str = IMAGE, **fields: Any) -> Container:
    """Build a Container."""
    return Container(name=name, image=image, **fields)


def pod(
    name: str = "pod",
    namespace: str = NAMESPACE,
    *,
    image: str = IMAGE,
    node: str | None = None,
    phase: str = "",
    labels: Labels | None = None,
    owner: Any = None,
    **spec: Any,
) -> Pod:
    """Build a Pod, with one container by default; with a phase, `cluster.add` keeps its status."""
    spec.setdefault("containers", (container(image=image),))
    if node is not None:
        spec["node_name"] = node
    return Pod(
        metadata=metadata(name, namespace, labels=labels, owner=owner),
        spec=PodSpec(**spec),
        status=PodStatus(phase=phase) if phase else PodStatus(),
    )


def _template(labels: Labels, image: str, **spec: Any) -> PodTemplateSpec:
    spec.setdefault("containers", (container(image=image),))
    return PodTemplateSpec(metadata=ObjectMeta(labels=dict(labels)), spec=PodSpec(**spec))


def _workload(name: str, labels: Labels | None, image: str) -> dict[str, Any]:
    """Return a selector and a template that it matches."""
    labels = dict(labels or {"app": name})
    return {"selector": LabelSelector(match_labels=labels), "template": _template(labels, image)}


def deployment(
    name: str = "app",
    namespace: str = NAMESPACE,
    *,
    replicas: int = 1,
    image: str = IMAGE,
    labels: Labels | None = None,
    **spec: Any,
) -> Deployment:
    """Build a Deployment."""
    fields = {**_workload(name, labels, image), "replicas": replicas, **spec}
    return Deployment(metadata=metadata(name, namespace, labels=labels), spec=DeploymentSpec(**fields))


def replica_set(
    name: str = "app",
    namespace: str = NAMESPACE,
    *,
    replicas: int = 1,
    image: str = IMAGE,
    labels: Labels | None = None,
    owner: Any = None,
    **spec: Any,
) -> ReplicaSet:
    """Build a ReplicaSet."""
    fields = {**_workload(name, labels, image), "replicas": replicas, **spec}
    return ReplicaSet(metadata=metadata(name, namespace, labels=labels, owner=owner), spec=ReplicaSetSpec(**fields))


def stateful_set(
    name: str = "app",
    namespace: str = NAMESPACE,
    *,
    replicas: int = 1,
    image: str = IMAGE,
    labels: Labels | None = None,
    **spec: Any,
) -> StatefulSet:
    """Build a StatefulSet."""
    fields = {**_workload(name, labels, image), "replicas": replicas, "service_name": name, **spec}
    return StatefulSet(metadata=metadata(name, namespace, labels=labels), spec=StatefulSetSpec(**fields))


def daemon_set(
    name: str = "app", namespace: str = NAMESPACE, *, image: str = IMAGE, labels: Labels | None = None, **spec: Any
) -> DaemonSet:
    """Build a DaemonSet."""
    fields = {**_workload(name, labels, image), **spec}
    return DaemonSet(metadata=metadata(name, namespace, labels=labels), spec=DaemonSetSpec(**fields))


def job(
    name: str = "job", namespace: str = NAMESPACE, *, image: str = IMAGE, labels: Labels | None = None, **spec: Any
) -> Job:
    """Build a Job; the server sets its selector."""
    return Job(metadata=metadata(name, namespace, labels=labels), spec=_job_spec(image, labels, spec))


def cron_job(
    name: str = "job",
    namespace: str = NAMESPACE,
    *,
    schedule: str = "0 * * * *",
    image: str = IMAGE,
    labels: Labels | None = None,
    **spec: Any,
) -> CronJob:
    """Build a CronJob."""
    template = JobTemplateSpec(spec=_job_spec(image, labels, {}))
    fields = {"schedule": schedule, "job_template": template, **spec}
    return CronJob(metadata=metadata(name, namespace, labels=labels), spec=CronJobSpec(**fields))


def _job_spec(image: str, labels: Labels | None, spec: Mapping[str, Any]) -> JobSpec:
    return JobSpec(**{"template": _template(labels or {}, image, restart_policy="Never"), **spec})


# Networks and volumes.


def service(
    name: str = "app",
    namespace: str = NAMESPACE,
    *,
    port: int = 80,
    selector: Labels | None = None,
    **spec: Any,
) -> Service:
    """Build a Service."""
    fields = {"selector": dict(selector or {"app": name}), "ports": (ServicePort(port=port),), **spec}
    return Service(metadata=metadata(name, namespace), spec=ServiceSpec(**fields))


def persistent_volume_claim(
    name: str = "data", namespace: str = NAMESPACE, *, storage: str = "1Gi", **spec: Any
) -> PersistentVolumeClaim:
    """Build a PersistentVolumeClaim."""
    wanted = VolumeResourceRequirements(requests={"storage": Quantity(storage)})
    fields = {"access_modes": ("ReadWriteOnce",), "resources": wanted, **spec}
    return PersistentVolumeClaim(metadata=metadata(name, namespace), spec=PersistentVolumeClaimSpec(**fields))
