# SPDX-License-Identifier: Apache-2.0
"""Table of all controllers under upstream's names; each controller is one module or package.

kubeloop.cli ── --controllers ──▶ select ──▶ wire(Context) ──▶ controller ──▶ runtime.Manager supervises it

app builds and runs the selected controllers; shared holds code that several of them use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from kubeloop.api.features.gates import Features, InvalidFeatureGate, parse_feature_gates

if TYPE_CHECKING:
    from kubeloop.controllers.app.context import Wire


@dataclass(frozen=True, slots=True)
class ControllerDescriptor:
    """Describes one controller: its names, its module and the conditions under which it runs."""

    name: str
    alias: str = ""  # upstream's name for it before 1.28
    module: str = ""  # within this package
    account: str = ""  # the service account in kube-system whose permissions it needs
    on_by_default: bool = True  # True if `*` selects it
    gates: tuple[str, ...] = ()  # feature gates that must all be enabled

    def wire(self) -> Wire:
        """Import the controller's module and return its `wire` function."""
        wire: Wire = import_module(f"{__name__}.{self.module}").wire
        return wire


# fmt: off
CONTROLLERS: tuple[ControllerDescriptor, ...] = (
    ControllerDescriptor("serviceaccount-token-controller", "serviceaccount-token", "serviceaccount_token"),
    ControllerDescriptor("endpoints-controller", "endpoint", "endpoints", "endpoint-controller"),
    ControllerDescriptor("endpointslice-controller", "endpointslice", "endpointslice", "endpointslice-controller"),
    ControllerDescriptor("endpointslice-mirroring-controller", "endpointslicemirroring",
               "endpointslice_mirroring", "endpointslicemirroring-controller"),
    ControllerDescriptor("replicationcontroller-controller", "replicationcontroller",
               "replicationcontroller", "replication-controller"),
    ControllerDescriptor("pod-garbage-collector-controller", "podgc", "pod_garbage_collector", "pod-garbage-collector"),
    ControllerDescriptor("resourcequota-controller", "resourcequota", "resourcequota", "resourcequota-controller"),
    ControllerDescriptor("namespace-controller", "namespace", "namespace", "namespace-controller"),
    ControllerDescriptor("serviceaccount-controller", "serviceaccount", "serviceaccount", "service-account-controller"),
    ControllerDescriptor("garbage-collector-controller", "garbagecollector",
               "garbage_collector", "generic-garbage-collector"),
    ControllerDescriptor("daemonset-controller", "daemonset", "daemonset", "daemon-set-controller"),
    ControllerDescriptor("job-controller", "job", "job", "job-controller"),
    ControllerDescriptor("podgroup-protection-controller", "", "podgroup_protection", "podgroup-protection-controller",
               gates=("GenericWorkload",)),
    ControllerDescriptor("deployment-controller", "deployment", "deployment", "deployment-controller"),
    ControllerDescriptor("replicaset-controller", "replicaset", "replicaset", "replicaset-controller"),
    ControllerDescriptor("horizontal-pod-autoscaler-controller", "horizontalpodautoscaling",
               "horizontal_pod_autoscaler", "horizontal-pod-autoscaler"),
    ControllerDescriptor("disruption-controller", "disruption", "disruption", "disruption-controller"),
    ControllerDescriptor("statefulset-controller", "statefulset", "statefulset", "statefulset-controller"),
    ControllerDescriptor("cronjob-controller", "cronjob", "cronjob", "cronjob-controller"),
    ControllerDescriptor("certificatesigningrequest-signing-controller", "csrsigning",
               "certificatesigningrequest_signing", "certificate-controller"),
    ControllerDescriptor("certificatesigningrequest-approving-controller", "csrapproving",
               "certificatesigningrequest_approving", "certificate-controller"),
    ControllerDescriptor("certificatesigningrequest-cleaner-controller", "csrcleaner",
               "certificatesigningrequest_cleaner", "certificate-controller"),
    ControllerDescriptor("podcertificaterequest-cleaner-controller", "",
               "podcertificaterequest_cleaner", "podcertificaterequestcleaner", gates=("PodCertificateRequest",)),
    ControllerDescriptor("ttl-controller", "ttl", "ttl", "ttl-controller"),
    ControllerDescriptor("bootstrap-signer-controller", "bootstrapsigner",
               "bootstrap_signer", "bootstrap-signer", on_by_default=False),
    ControllerDescriptor("token-cleaner-controller", "tokencleaner",
               "token_cleaner", "token-cleaner", on_by_default=False),
    ControllerDescriptor("node-ipam-controller", "nodeipam", "node_ipam", "node-controller"),
    ControllerDescriptor("node-lifecycle-controller", "nodelifecycle", "node_lifecycle", "node-controller"),
    ControllerDescriptor("persistentvolume-binder-controller", "persistentvolume-binder",
               "persistentvolume_binder", "persistent-volume-binder"),
    ControllerDescriptor("persistentvolume-attach-detach-controller", "attachdetach",
               "attach_detach", "attachdetach-controller"),
    ControllerDescriptor("persistentvolume-expander-controller", "persistentvolume-expander",
               "persistentvolume_expander", "expand-controller"),
    ControllerDescriptor("clusterrole-aggregation-controller", "clusterrole-aggregation",
               "clusterrole_aggregation", "clusterrole-aggregation-controller"),
    ControllerDescriptor("persistentvolumeclaim-protection-controller", "pvc-protection",
               "persistentvolumeclaim_protection", "pvc-protection-controller"),
    ControllerDescriptor("persistentvolume-protection-controller", "pv-protection",
               "persistentvolume_protection", "pv-protection-controller"),
    ControllerDescriptor("volumeattributesclass-protection-controller", "", "volumeattributesclass_protection",
               "volumeattributesclass-protection-controller", gates=("VolumeAttributesClass",)),
    ControllerDescriptor("ttl-after-finished-controller", "ttl-after-finished",
               "ttl_after_finished", "ttl-after-finished-controller"),
    ControllerDescriptor("root-ca-certificate-publisher-controller", "root-ca-cert-publisher",
               "root_ca_certificate_publisher", "root-ca-cert-publisher"),
    ControllerDescriptor("kube-apiserver-serving-clustertrustbundle-publisher-controller", "",
               "kube_apiserver_serving_clustertrustbundle_publisher",
               "kube-apiserver-serving-clustertrustbundle-publisher", gates=("ClusterTrustBundle",)),
    ControllerDescriptor("ephemeral-volume-controller", "ephemeral-volume",
               "ephemeral_volume", "ephemeral-volume-controller"),
    ControllerDescriptor("storageversion-garbage-collector-controller", "storage-version-gc",
               "storageversion_garbage_collector", "storage-version-garbage-collector",
               gates=("APIServerIdentity", "StorageVersionAPI")),
    ControllerDescriptor("resourceclaim-controller", "resource-claim-controller",
               "resourceclaim", "resource-claim-controller", gates=("DynamicResourceAllocation",)),
    ControllerDescriptor("resourcepoolstatusrequest-controller", "", "resourcepoolstatusrequest",
               "resourcepoolstatusrequest-controller", gates=("DRAResourcePoolStatus",)),
    ControllerDescriptor("device-taint-eviction-controller", "",
               "device_taint_eviction", "device-taint-eviction-controller",
               gates=("DynamicResourceAllocation", "DRADeviceTaints")),
    ControllerDescriptor("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner",
               "legacy_serviceaccount_token_cleaner", "legacy-service-account-token-cleaner"),
    ControllerDescriptor("validatingadmissionpolicy-status-controller", "",
               "validatingadmissionpolicy_status", "validatingadmissionpolicy-status-controller"),
    ControllerDescriptor("taint-eviction-controller", module="taint_eviction", account="node-controller",
               gates=("SeparateTaintEvictionController",)),
    ControllerDescriptor("service-cidr-controller", module="service_cidr", account="service-cidrs-controller",
               gates=("MultiCIDRServiceAllocator",)),
    ControllerDescriptor("storage-version-migrator-controller", "svm",
               "storage_version_migrator", "storage-version-migrator-controller"),
    ControllerDescriptor("selinux-warning-controller", "", "selinux_warning", "selinux-warning-controller",
               on_by_default=False, gates=("SELinuxChangePolicy",)),
)
# fmt: on


class InvalidControllers(ValueError):
    """Raised for an invalid `--controllers` value; the message is one sentence for the user."""


def select(wanted: Sequence[str], gates: Sequence[str] = ()) -> tuple[ControllerDescriptor, ...]:
    """Return the selected controllers by upstream's rules: the first entry that names a controller wins, then `*`."""
    words = [_canonical(word) for word in wanted]
    features = _features(gates)
    return tuple(one for one in CONTROLLERS if _is_enabled(one, words) and all(map(features.is_enabled, one.gates)))


def _canonical(word: str) -> str:
    """Replace a controller's alias by its canonical name and keep a leading `-`."""
    if word == "*":
        return word
    sign, name = ("-", word[1:]) if word.startswith("-") else ("", word)
    for one in CONTROLLERS:
        if name and name in (one.name, one.alias):
            return sign + one.name
    known = ", ".join(sorted(one.name for one in CONTROLLERS))
    raise InvalidControllers(f'"{name}" is not in the list of known controllers: {known}')


def _is_enabled(one: ControllerDescriptor, words: Sequence[str]) -> bool:
    for word in words:
        if word in (one.name, f"-{one.name}"):
            return word == one.name
    return "*" in words and one.on_by_default


def _features(gates: Sequence[str]) -> Features:
    try:
        return parse_feature_gates(gates)
    except InvalidFeatureGate as error:
        raise InvalidControllers(str(error)) from None
