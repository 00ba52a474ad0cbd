# SPDX-License-Identifier: Apache-2.0
"""Table of every resource that the API server serves by default, in discovery order.

`api.features.optional_resources` has those that are off by default.

One line per resource: its names, its group and version, its verbs and subresources. Everything else about a resource
(its type, its storage key, its discovery entry) is derived from its line.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

from kubeloop.api.schema import SchemaNode, node_of

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_UNUSUAL_PACKAGES = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "internal.apiserver.k8s.io": "io.k8s.api.apiserverinternal",
}
# Versions that upstream still stores, so that the release before can read them. The hash is opaque: clients compare it.
_HASHED_VERSIONS = {
    "clustertrustbundles": "v1beta1",
    "customresourcedefinitions": "v1beta1",
    "devicetaintrules": "v1beta2",
    "podcertificaterequests": "v1beta1",
    "storageversionmigrations": "v1beta1",
}
# Resources whose storage key isn't the plural name.
_UNUSUAL_KEYS = {
    "nodes": "minions",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "replicationcontrollers": "controllers",
    "ingresses": "ingress",
    "apiservices": "apiregistration.k8s.io/apiservices",
    "customresourcedefinitions": "apiextensions.k8s.io/customresourcedefinitions",
}


@dataclass(frozen=True)
class Subresource:
    """Subresource of an object; `kind` is empty if it returns the object's own kind."""

    name: str
    group_version: str = ""
    kind: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")


@dataclass(frozen=True)
class Resource:
    """Resource in one version of its API group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    # Storage version as (group, version), if it isn't this one.
    storage_override: tuple[str, str] | None = None
    # Deprecation warning for clients.
    deprecation: str = ""
    # Release that no longer serves the resource, such as "1.40"; empty if none is planned.
    removed_release: str = ""
    # Feature gate that must be enabled to serve the resource.
    feature_gate: str = ""
    by_name: dict[str, Subresource] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {sub.name: sub for sub in self.subresources})
        object.__setattr__(self, "_hash", hash((self.group, self.version, self.plural, self.kind)))

    def __hash__(self) -> int:
        """Return the precomputed hash: resources are looked up several times in every request."""
        return self._hash

    @cached_property
    def group_version(self) -> str:
        """Value of an object's apiVersion, such as `v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def singular(self) -> str:
        """Singular name, as discovery and kubectl use it."""
        return self.kind.lower()

    @cached_property
    def list_kind(self) -> str:
        """Kind of a list of these objects."""
        return self.kind + "List"

    @cached_property
    def group_resource(self) -> str:
        """Plural with its group, such as `deployments.apps`, as errors name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def definition(self) -> str:
        """Name of the type in the schema data."""
        return definition_of(self.group_version, self.kind)

    @cached_property
    def type(self) -> Any:
        """Generated struct class, imported on first use."""
        return type_of(self.definition)

    @cached_property
    def schema_node(self) -> SchemaNode:
        """Schema node, for patches and server-side apply."""
        return node_of(self.definition)

    @property
    def is_custom(self) -> bool:
        """True if a CustomResourceDefinition in the store defines the resource, not the table below."""
        return False

    @cached_property
    def list_type(self) -> Any:
        """Generated struct class of a list of these objects."""
        return type_of(self.definition + "List")

    @cached_property
    def key_prefix(self) -> str:
        """Prefix of the objects' keys in the store; ends with a slash."""
        return f"/registry/{_UNUSUAL_KEYS.get(self.plural, self.plural)}/"

    @cached_property
    def storage_version(self) -> tuple[str, str]:
        """Group and version in which the objects are stored."""
        return self.storage_override or (self.group, self.version)

    @cached_property
    def storage_version_hash(self) -> str:
        """Discovery's hash of the storage version, as upstream has it."""
        group, version = self.storage_version
        version = _HASHED_VERSIONS.get(self.plural, version)
        digest = hashlib.sha256(f"{group}/{version}/{self.kind}".encode()).digest()
        return base64.b64encode(digest[:8]).decode()

    @cached_property
    def is_stored(self) -> bool:
        """True if objects are stored; reviews and bindings are only answered."""
        return "get" in self.verbs and self.plural != "componentstatuses"

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the store."""
        return f"{self.key_prefix}{namespace}/{name}" if self.namespaced else self.key_prefix + name


def definition_of(group_version: str, kind: str) -> str:
    """Return the definition name of a kind: `io.k8s.api.apps.v1.Deployment` for `apps/v1`, `Deployment`."""
    group, _, version = group_version.rpartition("/")
    package = _UNUSUAL_PACKAGES.get(group) or "io.k8s.api." + group.partition(".")[0]
    return f"{package}.{version}.{kind}"


def type_of(definition: str) -> Any:
    """Return the generated struct class of a definition."""
    package, _, name = definition.rpartition(".")
    parts = package.split(".")
    return getattr(import_module(f"kubeloop.api.generated.{parts[-2]}_{parts[-1]}"), name)


def _resource(group_version: str, plural: str, kind: str, **facts: Any) -> Resource:
    group, _, version = group_version.rpartition("/")
    return Resource(group, version, plural, kind, **facts)


def _same(name: str, *verbs: str) -> Subresource:
    """Return a subresource that answers with the object itself."""
    return Subresource(name, verbs=verbs or ("get", "patch", "update"))


STATUS = _same("status")
SCALE = Subresource("scale", "autoscaling/v1", "Scale")
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")

RESOURCES: tuple[Resource, ...] = (
    _resource("v1", "bindings", "Binding", verbs=("create",)),
    _resource(
        "v1", "componentstatuses", "ComponentStatus", namespaced=False, short_names=("cs",), verbs=("get", "list")
    ),
    _resource("v1", "configmaps", "ConfigMap", short_names=("cm",)),
    _resource(
        "v1",
        "endpoints",
        "Endpoints",
        short_names=("ep",),
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    _resource("v1", "events", "Event", short_names=("ev",)),
    _resource("v1", "limitranges", "LimitRange", short_names=("limits",)),
    _resource(
        "v1",
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=(_same("finalize", "update"), STATUS),
    ),
    _resource(
        "v1",
        "nodes",
        "Node",
        namespaced=False,
        short_names=("no",),
        subresources=(Subresource("proxy", "", "NodeProxyOptions", _PROXY_VERBS), STATUS),
    ),
    _resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), subresources=(STATUS,)),
    _resource(
        "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",), subresources=(STATUS,)
    ),
    _resource(
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        subresources=(
            Subresource("attach", "", "PodAttachOptions", ("create", "get")),
            Subresource("binding", "", "Binding", ("create",)),
            _same("ephemeralcontainers"),
            Subresource("eviction", "policy/v1", "Eviction", ("create",)),
            Subresource("exec", "", "PodExecOptions", ("create", "get")),
            _same("log", "get"),
            Subresource("portforward", "", "PodPortForwardOptions", ("create", "get")),
            Subresource("proxy", "", "PodProxyOptions", _PROXY_VERBS),
            _same("resize"),
            STATUS,
        ),
    ),
    _resource("v1", "podtemplates", "PodTemplate"),
    _resource(
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=(SCALE, STATUS),
    ),
    _resource("v1", "resourcequotas", "ResourceQuota", short_names=("quota",), subresources=(STATUS,)),
    _resource("v1", "secrets", "Secret"),
    _resource(
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        short_names=("sa",),
        subresources=(Subresource("token", "authentication.k8s.io/v1", "TokenRequest", ("create",)),),
    ),
    _resource(
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(Subresource("proxy", "", "ServiceProxyOptions", _PROXY_VERBS), STATUS),
    ),
    _resource(
        "apiregistration.k8s.io/v1",
        "apiservices",
        "APIService",
        namespaced=False,
        categories=("api-extensions",),
        subresources=(STATUS,),
    ),
    _resource("apps/v1", "controllerrevisions", "ControllerRevision"),
    _resource("apps/v1", "daemonsets", "DaemonSet", short_names=("ds",), categories=("all",), subresources=(STATUS,)),
    _resource(
        "apps/v1",
        "deployments",
        "Deployment",
        short_names=("deploy",),
        categories=("all",),
        subresources=(SCALE, STATUS),
    ),
    _resource(
        "apps/v1", "replicasets", "ReplicaSet", short_names=("rs",), categories=("all",), subresources=(SCALE, STATUS)
    ),
    _resource(
        "apps/v1",
        "statefulsets",
        "StatefulSet",
        short_names=("sts",),
        categories=("all",),
        subresources=(SCALE, STATUS),
    ),
    _resource("events.k8s.io/v1", "events", "Event", storage_override=("", "v1"), short_names=("ev",)),
    _resource(
        "authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=("create",)
    ),
    _resource("authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False, verbs=("create",)),
    _resource("authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=("create",)),
    _resource(
        "authorization.k8s.io/v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        namespaced=False,
        verbs=("create",),
    ),
    _resource(
        "authorization.k8s.io/v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        namespaced=False,
        verbs=("create",),
    ),
    _resource(
        "authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs=("create",)
    ),
    _resource(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        subresources=(STATUS,),
    ),
    _resource(
        "autoscaling/v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        storage_override=("autoscaling", "v2"),
        short_names=("hpa",),
        categories=("all",),
        subresources=(STATUS,),
    ),
    _resource("batch/v1", "cronjobs", "CronJob", short_names=("cj",), categories=("all",), subresources=(STATUS,)),
    _resource("batch/v1", "jobs", "Job", categories=("all",), subresources=(STATUS,)),
    _resource(
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        namespaced=False,
        short_names=("csr",),
        subresources=(_same("approval"), STATUS),
    ),
    _resource(
        "certificates.k8s.io/v1",
        "clustertrustbundles",
        "ClusterTrustBundle",
        namespaced=False,
        feature_gate="ClusterTrustBundle",
    ),
    _resource(
        "certificates.k8s.io/v1",
        "podcertificaterequests",
        "PodCertificateRequest",
        subresources=(STATUS,),
        feature_gate="PodCertificateRequest",
    ),
    _resource("networking.k8s.io/v1", "ingressclasses", "IngressClass", namespaced=False),
    _resource("networking.k8s.io/v1", "ingresses", "Ingress", short_names=("ing",), subresources=(STATUS,)),
    _resource("networking.k8s.io/v1", "ipaddresses", "IPAddress", namespaced=False, short_names=("ip",)),
    _resource("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",)),
    _resource("networking.k8s.io/v1", "servicecidrs", "ServiceCIDR", namespaced=False, subresources=(STATUS,)),
    _resource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",), subresources=(STATUS,)),
    _resource("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _resource("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False),
    _resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
    _resource("rbac.authorization.k8s.io/v1", "roles", "Role"),
    _resource("storage.k8s.io/v1", "csidrivers", "CSIDriver", namespaced=False),
    _resource("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False, subresources=(STATUS,)),
    _resource("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
    _resource("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",)),
    _resource("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", namespaced=False, subresources=(STATUS,)),
    _resource(
        "storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False, short_names=("vac",)
    ),
    _resource(
        "admissionregistration.k8s.io/v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _resource(
        "admissionregistration.k8s.io/v1",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _resource(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _resource(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        namespaced=False,
        categories=("api-extensions",),
        subresources=(STATUS,),
    ),
    _resource(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _resource(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _resource(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(STATUS,),
    ),
    _resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)),
    _resource("coordination.k8s.io/v1", "leases", "Lease"),
    _resource("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    _resource("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
    _resource("resource.k8s.io/v1", "deviceclasses", "DeviceClass", namespaced=False),
    _resource("resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule", namespaced=False, subresources=(STATUS,)),
    _resource("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", subresources=(STATUS,)),
    _resource("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _resource("resource.k8s.io/v1", "resourceslices", "ResourceSlice", namespaced=False),
    _resource("flowcontrol.apiserver.k8s.io/v1", "flowschemas", "FlowSchema", namespaced=False, subresources=(STATUS,)),
    _resource(
        "flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        namespaced=False,
        subresources=(STATUS,),
    ),
    _resource(
        "storagemigration.k8s.io/v1",
        "storageversionmigrations",
        "StorageVersionMigration",
        namespaced=False,
        subresources=(STATUS,),
        feature_gate="StorageVersionMigrator",
    ),
)


def definitions_of(resources: Iterable[Resource]) -> Iterable[str]:
    """Return the definitions of resources and of their lists."""
    for resource in resources:
        yield resource.definition
        if resource.is_stored or resource.plural == "componentstatuses":
            yield resource.definition + "List"


def _definitions() -> Iterable[str]:
    yield from definitions_of(RESOURCES)
    for name in ("Scale",):
        yield "io.k8s.api.autoscaling.v1." + name
    yield "io.k8s.api.policy.v1.Eviction"
    yield "io.k8s.api.authentication.v1.TokenRequest"
    for name in ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "Status", "WatchEvent"):
        yield _META + name


# All generated types, before the types that they refer to.
DEFINITIONS: tuple[str, ...] = tuple(dict.fromkeys(_definitions()))
