# SPDX-License-Identifier: Apache-2.0
"""Node authorizer: lets a kubelet read what its pods need, and write its own objects.

Checks that depend on the written object are left to NodeRestriction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.authorization.attributes import NO_OPINION, AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.authorization.node_graph import NodeGraph
from kubeloop.apiserver.authorization.rules import RuleSet
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import User

_GROUP = "system:nodes"
_PREFIX = "system:node:"
_LEASES = "kube-node-lease"
_ALLOWED = AuthorizationDecision(True)
_OWN_VERBS = ("get", "create", "update", "patch", "delete")


def node_of(user: User) -> str | None:
    """Return the node name of a user; None if it is no node, empty if it does not name one."""
    if user.name.startswith(_PREFIX) and _GROUP in user.groups:
        return user.name.removeprefix(_PREFIX)
    return None


class NodeAuthorizer:
    """Decides for users that are nodes; has no opinion on others."""

    def __init__(self, registry: StorageRegistry, objects: Lookup) -> None:
        self._graph = NodeGraph(registry, objects)
        self._rules_by_resource: dict[
            tuple[str, str], Callable[[str, AuthorizationAttributes], AuthorizationDecision]
        ] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("", "serviceaccounts"): self._service_account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._resource_slice,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("coordination.k8s.io", "leases"): self._lease,
            ("certificates.k8s.io", "podcertificaterequests"): self._pod_certificate,
        }

    @cached_property
    def _common(self) -> RuleSet:
        """Rules of all nodes: upstream's rules of the cluster role system:node."""
        from kubeloop.apiserver.bootstrap.cluster_roles import CLUSTER_RULES
        from kubeloop.apiserver.bootstrap.policy_notation import parse_rules

        return RuleSet([("", parse_rules(CLUSTER_RULES["system:node"]))])

    def decide(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Return the decision about a node's request."""
        node = node_of(asked.user)
        if node is None:
            return NO_OPINION
        if not node:
            return AuthorizationDecision(False, f"unknown node for user {quote(asked.user.name)}")
        particular = self._rules_by_resource.get((asked.group, asked.resource)) if asked.path is None else None
        if particular is not None:
            return particular(node, asked)
        return NO_OPINION if self._common.find_source(asked) is None else _ALLOWED

    def _decide_related(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if not asked.name:
            return AuthorizationDecision(False, "No Object name found")
        if asked.resource == "pods":
            related = self._graph.has_pod(node, asked.namespace, asked.name)
        else:
            related = self._graph.is_related(node, asked.resource, asked.namespace, asked.name)
        return (
            _ALLOWED
            if related
            else AuthorizationDecision(False, f"no relationship found between node '{node}' and this object")
        )

    def _read(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.verb not in ("get", "list", "watch"):
            return AuthorizationDecision(False, "can only read resources of this type")
        if asked.subresource:
            return AuthorizationDecision(False, "cannot read subresource")
        if not asked.namespace:
            return AuthorizationDecision(False, "can only read namespaced object of this type")
        return self._decide_related(node, asked)

    def _get(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.verb != "get":
            return AuthorizationDecision(False, "can only get individual resources of this type")
        if asked.subresource:
            return AuthorizationDecision(False, "cannot get subresource")
        return self._decide_related(node, asked)

    def _claim(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.subresource != "status":
            return self._get(node, asked)
        if asked.verb not in ("update", "patch"):
            return AuthorizationDecision(False, "can only get/update/patch this type")
        return self._decide_related(node, asked)

    def _service_account(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.verb == "get" and not asked.subresource:
            return self._read(node, asked)
        if asked.verb != "create" or not asked.name:
            return AuthorizationDecision(False, "can only create tokens for individual service accounts")
        if asked.subresource != "token":
            return AuthorizationDecision(False, "can only create token subresource of serviceaccount")
        return self._decide_related(node, asked)

    def _node(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.subresource == "status":
            return _ALLOWED if asked.verb in ("update", "patch") else NO_OPINION
        if asked.subresource:
            return NO_OPINION
        if asked.verb in ("create", "update", "patch"):
            return _ALLOWED
        if asked.verb not in ("get", "list", "watch"):
            return NO_OPINION
        if asked.name == node:
            return _ALLOWED
        what = f"'{asked.name}'" if asked.name else "all nodes"
        return AuthorizationDecision(False, f"node '{node}' cannot read {what}, only its own Node object")

    def _pod(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        verb, subresource = asked.verb, asked.subresource
        if subresource:
            may = ("status", "update"), ("status", "patch"), ("eviction", "create")
            return _ALLOWED if (subresource, verb) in may else NO_OPINION
        if verb == "get":
            return self._get(node, asked)
        if verb in ("create", "delete"):
            return _ALLOWED
        if verb not in ("list", "watch"):
            return NO_OPINION
        if _selects(asked, "spec.nodeName", node):
            return _ALLOWED
        if asked.name:
            return self._decide_related(node, asked)
        return AuthorizationDecision(False, "can only list/watch pods with spec.nodeName field selector")

    def _resource_slice(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.subresource:
            return AuthorizationDecision(False, "cannot authorize ResourceSlice subresources")
        if asked.verb == "create":
            return _ALLOWED
        if asked.verb in ("get", "update", "patch", "delete"):
            return self._decide_related(node, asked)
        if asked.verb not in ("watch", "list", "deletecollection"):
            return AuthorizationDecision(
                False,
                "only the following verbs are allowed for a ResourceSlice: "
                "get, watch, list, create, update, patch, delete, deletecollection",
            )
        if _selects(asked, "spec.nodeName", node):
            return _ALLOWED
        return AuthorizationDecision(
            False, "can only list/watch/deletecollection resourceslices with nodeName field selector"
        )

    def _csi_node(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.subresource:
            return AuthorizationDecision(False, "cannot authorize CSINode subresources")
        if asked.verb not in _OWN_VERBS:
            return AuthorizationDecision(False, "can only get, create, update, patch, or delete a CSINode")
        if asked.verb != "create" and asked.name != node:
            return AuthorizationDecision(False, "can only access CSINode with the same name as the requesting node")
        return _ALLOWED

    def _lease(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.verb not in _OWN_VERBS:
            return AuthorizationDecision(False, "can only get, create, update, patch, or delete a node lease")
        if asked.namespace != _LEASES:
            return AuthorizationDecision(False, f'can only access leases in the "{_LEASES}" system namespace')
        if asked.verb != "create" and asked.name != node:
            return AuthorizationDecision(False, "can only access node lease with the same name as the requesting node")
        return _ALLOWED

    def _pod_certificate(self, node: str, asked: AuthorizationAttributes) -> AuthorizationDecision:
        if asked.subresource:
            return AuthorizationDecision(False, "nodes may not access the status subresource of PodCertificateRequests")
        if asked.verb == "create":
            return _ALLOWED
        if asked.verb == "get":
            return self._decide_related(node, asked)
        if asked.verb not in ("list", "watch"):
            return AuthorizationDecision(False, f"nodes may not {asked.verb} podcertificaterequests")
        if _selects(asked, "spec.nodeName", node):
            return _ALLOWED
        return AuthorizationDecision(False, "can only list/watch podcertificaterequests with nodeName field selector")


def _selects(asked: AuthorizationAttributes, field: str, value: str) -> bool:
    return asked.field_selector is not None and asked.field_selector.requires_exact_match(field) == value
