"""Table of all controllers under upstream's names; each controller is one module or package.

kubeloop.cli ── --controllers ──▶ select ──▶ wire(Context) ──▶ controller ──▶ runtime.Manager supervises it

app builds and runs the selected controllers; shared holds code that several of them use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from kubeloop.api.features.gates import Features, UnusableGate, read_features

if TYPE_CHECKING:
    from kubeloop.controllers.app.context import Wire


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Describes one controller: its names, its module and the conditions under which it runs.

    A descriptor without a module names an upstream controller that kubeloop does not implement yet.
    """

    name: str
    alias: str = ""  # upstream's name for it before 1.28
    module: str = ""  # within this package
    account: str = ""  # the service account in kube-system whose permissions it needs
    on_by_default: bool = True  # True if `*` selects it
    gates: tuple[str, ...] = ()  # feature gates that must all be enabled

    @property
    def is_available(self) -> bool:
        """True if kubeloop implements the controller."""
        return bool(self.module)

    def wire(self) -> Wire:
        """Import the controller's module and return its `wire` function."""
        wire: Wire = import_module(f"{__name__}.{self.module}").wire
        return wire


# fmt: off
CONTROLLERS: tuple[Descriptor, ...] = (
    Descriptor("serviceaccount-token-controller", "serviceaccount-token", "serviceaccount_token"),
    Descriptor("endpoints-controller", "endpoint", "endpoints", "endpoint-controller"),
    Descriptor("endpointslice-controller", "endpointslice", "endpointslice", "endpointslice-controller"),
    Descriptor("endpointslice-mirroring-controller", "endpointslicemirroring",
               "endpointslice_mirroring", "endpointslicemirroring-controller"),
    Descriptor("replicationcontroller-controller", "replicationcontroller",
               "replicationcontroller", "replication-controller"),
    Descriptor("pod-garbage-collector-controller", "podgc", "pod_garbage_collector", "pod-garbage-collector"),
    Descriptor("resourcequota-controller", "resourcequota", "resourcequota", "resourcequota-controller"),
    Descriptor("namespace-controller", "namespace", "namespace", "namespace-controller"),
    Descriptor("serviceaccount-controller", "serviceaccount", "serviceaccount", "service-account-controller"),
    Descriptor("garbage-collector-controller", "garbagecollector", "garbage_collector", "generic-garbage-collector"),
    Descriptor("daemonset-controller", "daemonset", "daemonset", "daemon-set-controller"),
    Descriptor("job-controller", "job", "job", "job-controller"),
    Descriptor("podgroup-protection-controller", "", "podgroup_protection", "podgroup-protection-controller",
               gates=("GenericWorkload",)),
    Descriptor("deployment-controller", "deployment", "deployment", "deployment-controller"),
    Descriptor("replicaset-controller", "replicaset", "replicaset", "replicaset-controller"),
    Descriptor("horizontal-pod-autoscaler-controller", "horizontalpodautoscaling",
               "horizontal_pod_autoscaler", "horizontal-pod-autoscaler"),
    Descriptor("disruption-controller", "disruption", "disruption", "disruption-controller"),
    Descriptor("statefulset-controller", "statefulset", "statefulset", "statefulset-controller"),
    Descriptor("cronjob-controller", "cronjob", "cronjob", "cronjob-controller"),
    Descriptor("certificatesigningrequest-signing-controller", "csrsigning",
               "certificatesigningrequest_signing", "certificate-controller"),
    Descriptor("certificatesigningrequest-approving-controller", "csrapproving",
               "certificatesigningrequest_approving", "certificate-controller"),
    Descriptor("certificatesigningrequest-cleaner-controller", "csrcleaner",
               "certificatesigningrequest_cleaner", "certificate-controller"),
    Descriptor("podcertificaterequest-cleaner-controller", "",
               "podcertificaterequest_cleaner", "podcertificaterequestcleaner", gates=("PodCertificateRequest",)),
    Descriptor("ttl-controller", "ttl", "ttl", "ttl-controller"),
    Descriptor("bootstrap-signer-controller", "bootstrapsigner",
               "bootstrap_signer", "bootstrap-signer", on_by_default=False),
    Descriptor("token-cleaner-controller", "tokencleaner", "token_cleaner", "token-cleaner", on_by_default=False),
    Descriptor("node-ipam-controller", "nodeipam", "node_ipam", "node-controller"),
    Descriptor("node-lifecycle-controller", "nodelifecycle", "node_lifecycle", "node-controller"),
    Descriptor("persistentvolume-binder-controller", "persistentvolume-binder",
               "persistentvolume_binder", "persistent-volume-binder"),
    Descriptor("persistentvolume-attach-detach-controller", "attachdetach",
               "attach_detach", "attachdetach-controller"),
    Descriptor("persistentvolume-expander-controller", "persistentvolume-expander",
               "persistentvolume_expander", "expand-controller"),
    Descriptor("clusterrole-aggregation-controller", "clusterrole-aggregation",
               "clusterrole_aggregation", "clusterrole-aggregation-controller"),
    Descriptor("persistentvolumeclaim-protection-controller", "pvc-protection",
               "persistentvolumeclaim_protection", "pvc-protection-controller"),
    Descriptor("persistentvolume-protection-controller", "pv-protection",
               "persistentvolume_protection", "pv-protection-controller"),
    Descriptor("volumeattributesclass-protection-controller", "", "volumeattributesclass_protection",
               "volumeattributesclass-protection-controller", gates=("VolumeAttributesClass",)),
    Descriptor("ttl-after-finished-controller", "ttl-after-finished",
               "ttl_after_finished", "ttl-after-finished-controller"),
    Descriptor("root-ca-certificate-publisher-controller", "root-ca-cert-publisher",
               "root_ca_certificate_publisher", "root-ca-cert-publisher"),
    Descriptor("kube-apiserver-serving-clustertrustbundle-publisher-controller", "",
               "kube_apiserver_serving_clustertrustbundle_publisher",
               "kube-apiserver-serving-clustertrustbundle-publisher", gates=("ClusterTrustBundle",)),
    Descriptor("ephemeral-volume-controller", "ephemeral-volume",
               "ephemeral_volume", "ephemeral-volume-controller"),
    Descriptor("storageversion-garbage-collector-controller", "storage-version-gc",
               "storageversion_garbage_collector", "storage-version-garbage-collector",
               gates=("APIServerIdentity", "StorageVersionAPI")),
    Descriptor("resourceclaim-controller", "resource-claim-controller",
               "resourceclaim", "resource-claim-controller", gates=("DynamicResourceAllocation",)),
    Descriptor("resourcepoolstatusrequest-controller", "", "resourcepoolstatusrequest",
               "resourcepoolstatusrequest-controller", gates=("DRAResourcePoolStatus",)),
    Descriptor("device-taint-eviction-controller", "",
               "device_taint_eviction", "device-taint-eviction-controller",
               gates=("DynamicResourceAllocation", "DRADeviceTaints")),
    Descriptor("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner",
               "legacy_serviceaccount_token_cleaner", "legacy-service-account-token-cleaner"),
    Descriptor("validatingadmissionpolicy-status-controller", "",
               "validatingadmissionpolicy_status", "validatingadmissionpolicy-status-controller"),
    Descriptor("taint-eviction-controller", module="taint_eviction", account="node-controller",
               gates=("SeparateTaintEvictionController",)),
    Descriptor("service-cidr-controller", module="service_cidr", account="service-cidrs-controller",
               gates=("MultiCIDRServiceAllocator",)),
    Descriptor("storage-version-migrator-controller", "svm",
               "storage_version_migrator", "storage-version-migrator-controller"),
    Descriptor("selinux-warning-controller", "", "selinux_warning", "selinux-warning-controller",
               on_by_default=False, gates=("SELinuxChangePolicy",)),
)
# fmt: on


class UnusableChoice(ValueError):
    """Raised for an invalid `--controllers` value; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Result of `--controllers`: the controllers to run, and the selected ones that are not implemented."""

    chosen: tuple[Descriptor, ...]
    missing: tuple[Descriptor, ...]


def select(wanted: Sequence[str], gates: Sequence[str] = ()) -> Choice:
    """Return the selected controllers by upstream's rules: the first entry that names a controller wins, then `*`."""
    words = [_canonical(word) for word in wanted]
    _refuse_missing(words)
    features = _features(gates)
    enabled = [one for one in CONTROLLERS if _is_wanted(one, words) and all(map(features.is_on, one.gates))]
    chosen = tuple(one for one in enabled if one.is_available)
    return Choice(chosen, tuple(one for one in enabled if not one.is_available))


def _canonical(word: str) -> str:
    """Replace a controller's alias by its canonical name and keep a leading `-`."""
    if word == "*":
        return word
    sign, name = ("-", word[1:]) if word.startswith("-") else ("", word)
    for one in CONTROLLERS:
        if name and name in (one.name, one.alias):
            return sign + one.name
    known = ", ".join(sorted(one.name for one in CONTROLLERS))
    raise UnusableChoice(f'"{name}" is not in the list of known controllers: {known}')


def _refuse_missing(words: Sequence[str]) -> None:
    for one in CONTROLLERS:
        if one.name in words and not one.is_available:
            here = ", ".join(sorted(other.name for other in CONTROLLERS if other.is_available))
            raise UnusableChoice(f"{one.name} is not yet available in kubeloop, which has: {here}")


def _is_wanted(one: Descriptor, words: Sequence[str]) -> bool:
    for word in words:
        if word in (one.name, f"-{one.name}"):
            return word == one.name
    return "*" in words and one.on_by_default


def _features(gates: Sequence[str]) -> Features:
    try:
        return read_features(gates)
    except UnusableGate as error:
        raise UnusableChoice(str(error)) from None
