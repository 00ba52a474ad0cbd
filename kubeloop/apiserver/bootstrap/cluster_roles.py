# SPDX-License-Identifier: Apache-2.0
"""Cluster roles of users and of components other than controllers."""

from __future__ import annotations

from kubeloop.apiserver.bootstrap.policy_notation import ALL, EVENTS, READ, WRITE

CLUSTER_RULES: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("*: * @*", "*: url *"),
    "system:aggregate-to-admin": (
        "create: localsubjectaccessreviews @authorization.k8s.io",
        f"{ALL}: rolebindings roles @rbac.authorization.k8s.io",
    ),
    "system:aggregate-to-edit": (
        f"{READ}: pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
        "impersonate: serviceaccounts",
        f"{WRITE}: pods pods/attach pods/exec pods/portforward pods/proxy",
        "create: pods/eviction",
        (
            f"{WRITE}: configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale "
            "secrets serviceaccounts services services/proxy"
        ),
        "create: serviceaccounts/token",
        f"{WRITE}: events @core,events.k8s.io",
        (
            f"{WRITE}: daemonsets deployments deployments/rollback deployments/scale replicasets "
            "replicasets/scale statefulsets statefulsets/scale @apps"
        ),
        f"{WRITE}: horizontalpodautoscalers @autoscaling",
        f"{WRITE}: cronjobs jobs @batch",
        (
            f"{WRITE}: daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies "
            "replicasets replicasets/scale replicationcontrollers/scale @extensions"
        ),
        f"{WRITE}: poddisruptionbudgets @policy",
        f"{WRITE}: ingresses networkpolicies @networking.k8s.io",
        f"{ALL}: leases @coordination.k8s.io",
        f"{WRITE}: resourceclaims resourceclaimtemplates @resource.k8s.io",
    ),
    "system:aggregate-to-view": (
        (
            f"{READ}: configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
            "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"
        ),
        (
            f"{READ}: bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
            "resourcequotas resourcequotas/status"
        ),
        f"{READ}: namespaces",
        f"{READ}: events @core,events.k8s.io",
        f"{READ}: endpointslices @discovery.k8s.io",
        (
            f"{READ}: controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale "
            "statefulsets/status @apps"
        ),
        f"{READ}: horizontalpodautoscalers horizontalpodautoscalers/status @autoscaling",
        f"{READ}: cronjobs cronjobs/status jobs jobs/status @batch",
        (
            f"{READ}: daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
            "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
            "replicationcontrollers/scale @extensions"
        ),
        f"{READ}: poddisruptionbudgets poddisruptionbudgets/status @policy",
        f"{READ}: ingresses ingresses/status networkpolicies @networking.k8s.io",
        f"{READ}: resourceclaims resourceclaims/status resourceclaimtemplates @resource.k8s.io",
    ),
    "system:auth-delegator": (
        "create: tokenreviews @authentication.k8s.io",
        "create: subjectaccessreviews @authorization.k8s.io",
    ),
    "system:basic-user": (
        "create: selfsubjectaccessreviews selfsubjectrulesreviews @authorization.k8s.io",
        "create: selfsubjectreviews @authentication.k8s.io",
    ),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": (
        "create: certificatesigningrequests/nodeclient @certificates.k8s.io",
    ),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": (
        "create: certificatesigningrequests/selfnodeclient @certificates.k8s.io",
    ),
    "system:certificates.k8s.io:kube-apiserver-client-approver": (
        "approve: signers @certificates.k8s.io =kubernetes.io/kube-apiserver-client",
    ),
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": (
        "approve: signers @certificates.k8s.io =kubernetes.io/kube-apiserver-client-kubelet",
    ),
    "system:certificates.k8s.io:kubelet-serving-approver": (
        "approve: signers @certificates.k8s.io =kubernetes.io/kubelet-serving",
    ),
    "system:certificates.k8s.io:legacy-unknown-approver": (
        "approve: signers @certificates.k8s.io =kubernetes.io/legacy-unknown",
    ),
    "system:cluster-trust-bundle-discovery": (f"{READ}: clustertrustbundles @certificates.k8s.io",),
    "system:discovery": (
        "get: url /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
    ),
    "system:heapster": (f"{READ}: events namespaces nodes pods", f"{READ}: deployments @extensions"),
    "system:kube-aggregator": (f"{READ}: endpoints services",),
    "system:kube-controller-manager": (
        EVENTS,
        "create: leases @coordination.k8s.io",
        "get update: leases @coordination.k8s.io =kube-controller-manager",
        "create: secrets serviceaccounts",
        "delete: secrets",
        "get: configmaps namespaces secrets serviceaccounts",
        "update: secrets serviceaccounts",
        "create: tokenreviews @authentication.k8s.io",
        "create: subjectaccessreviews @authorization.k8s.io",
        "list watch: * @*",
        "create: serviceaccounts/token",
    ),
    "system:kube-dns": ("list watch: endpoints services",),
    "system:kube-scheduler": (
        EVENTS,
        "create: leases @coordination.k8s.io",
        "get list update watch: leases @coordination.k8s.io =kube-scheduler",
        f"{ALL}: leasecandidates @coordination.k8s.io",
        f"{READ}: nodes",
        "delete get list watch: pods",
        "create: bindings pods/binding",
        "patch update: pods/status",
        f"{READ}: replicationcontrollers services",
        f"{READ}: replicasets @apps,extensions",
        f"{READ}: statefulsets @apps",
        f"{READ}: poddisruptionbudgets @policy",
        f"{READ}: persistentvolumeclaims persistentvolumes",
        "create: tokenreviews @authentication.k8s.io",
        "create: subjectaccessreviews @authorization.k8s.io",
        f"{READ}: csinodes @storage.k8s.io",
        f"{READ}: volumeattachments @storage.k8s.io",
        f"{READ}: namespaces",
        f"{READ}: csidrivers @storage.k8s.io",
        f"{READ}: csistoragecapacities @storage.k8s.io",
        f"{READ}: deviceclasses @resource.k8s.io",
        "get list patch update watch: resourceclaims @resource.k8s.io",
        "get list patch update watch: resourceclaims/status @resource.k8s.io",
        "update: pods/finalizers",
        f"{READ}: resourceslices @resource.k8s.io",
        "create delete: resourceclaims @resource.k8s.io",
        f"{READ}: devicetaintrules @resource.k8s.io",
        "patch update: resourceclaims/binding @resource.k8s.io",
    ),
    "system:kubelet-api-admin": (
        f"{READ}: nodes",
        "proxy: nodes",
        "*: nodes/log nodes/metrics nodes/proxy nodes/stats",
        "*: nodes/configz nodes/healthz nodes/pods",
    ),
    "system:monitoring": (
        "get: url /flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz",
        "get: nodes/metrics",
    ),
    "system:node": (
        "create: tokenreviews @authentication.k8s.io",
        "create: localsubjectaccessreviews subjectaccessreviews @authorization.k8s.io",
        f"{READ}: services",
        "create get list watch: nodes",
        "patch update: nodes/status",
        "patch update: nodes",
        EVENTS,
        f"{READ}: pods",
        "create delete: pods",
        "patch update: pods/status",
        "create: pods/eviction",
        f"{READ}: configmaps secrets",
        "get: persistentvolumeclaims persistentvolumes",
        "get: endpoints",
        "create get list watch: certificatesigningrequests @certificates.k8s.io",
        "create delete get patch update: leases @coordination.k8s.io",
        "get: volumeattachments @storage.k8s.io",
        "create: serviceaccounts/token",
        "get patch update: persistentvolumeclaims/status",
        f"{READ}: csidrivers @storage.k8s.io",
        "create delete get patch update: csinodes @storage.k8s.io",
        f"{READ}: runtimeclasses @node.k8s.io",
        "get: resourceclaims @resource.k8s.io",
        "deletecollection: resourceslices @resource.k8s.io",
        f"{READ}: clustertrustbundles @certificates.k8s.io",
        "get: serviceaccounts",
        "create get list watch: podcertificaterequests @certificates.k8s.io",
    ),
    "system:node-bootstrapper": ("create get list watch: certificatesigningrequests @certificates.k8s.io",),
    "system:node-problem-detector": ("get: nodes", "patch: nodes/status", EVENTS),
    "system:node-proxier": (
        "list watch: endpoints services",
        f"{READ}: nodes",
        EVENTS,
        "list watch: servicecidrs @networking.k8s.io",
        "list watch: endpointslices @discovery.k8s.io",
    ),
    "system:persistent-volume-provisioner": (
        "create delete get list watch: persistentvolumes",
        "get list update watch: persistentvolumeclaims",
        f"{READ}: storageclasses @storage.k8s.io",
        "watch: events",
        EVENTS,
    ),
    "system:public-info-viewer": ("get: url /healthz /livez /readyz /version /version/",),
    "system:service-account-issuer-discovery": (
        (
            "get: url /.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks "
            "/openid/v1/jwks/"
        ),
    ),
    "system:volume-scheduler": (
        "get list patch update watch: persistentvolumes",
        f"{READ}: storageclasses @storage.k8s.io",
        "get list patch update watch: persistentvolumeclaims",
    ),
}
