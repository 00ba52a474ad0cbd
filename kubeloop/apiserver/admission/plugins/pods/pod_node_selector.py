# SPDX-License-Identifier: Apache-2.0
"""PodNodeSelector: adds a namespace's node selector to its pods, and limits the labels that they may select."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.field_path import invalid
from kubeloop.api.meta.name_rules import check_label_value, check_qualified_name
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup

_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_CLUSTER_DEFAULT = "clusterDefaultNodeSelector"


class PodNodeSelectorConfiguration(msgspec.Struct, frozen=True):
    """Configuration file of the plugin: the cluster's default selector, and the whitelist of each namespace."""

    selectors: dict[str, str] = msgspec.field(default_factory=dict, name="podNodeSelectorPluginConfig")


class PodNodeSelector(AdmissionPlugin):
    """Merges the node selector of a namespace into its pods."""

    name = "PodNodeSelector"
    resources = frozenset({"pods"})

    def __init__(self, lookup: Lookup, config: PodNodeSelectorConfiguration) -> None:
        self._lookup = lookup
        self._selectors = config.selectors

    def admit(self, attempt: Attributes) -> None:
        """Merge the namespace's selector into the pod's."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        wanted = self._namespace_selector(attempt)
        _require_no_conflict(attempt, wanted, pod.spec.node_selector)
        force_setattr(pod.spec, "node_selector", {**wanted, **pod.spec.node_selector})
        self.validate(attempt)

    def validate(self, attempt: Attributes) -> None:
        """Reject a selector that conflicts with the namespace's selector or whitelist."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        _require_no_conflict(attempt, self._namespace_selector(attempt), pod.spec.node_selector)
        whitelist = parse_selector(self._selectors.get(attempt.namespace, ""))
        if whitelist and not pod.spec.node_selector.items() <= whitelist.items():
            raise _forbidden(attempt, "pod node label selector labels conflict with its namespace whitelist")

    def _namespace_selector(self, attempt: Attributes) -> dict[str, str]:
        namespace = self._lookup.get_object("namespaces", "", attempt.namespace)
        if namespace is None:
            raise errors.internal_error(f"namespace {attempt.namespace} does not exist")
        annotation = namespace.metadata.annotations.get(_ANNOTATION)
        return parse_selector(self._selectors.get(_CLUSTER_DEFAULT, "") if annotation is None else annotation)


def parse_selector(text: str) -> dict[str, str]:
    """Parse `key=value` pairs; raises ApiError with upstream's message for an invalid selector."""
    labels: dict[str, str] = {}
    for pair in text.split(",") if text else ():
        parts = pair.split("=")
        if len(parts) != 2:
            raise errors.ApiError(f"invalid selector: [{' '.join(parts)}]")
        key, value = parts[0].strip(), parts[1].strip()
        for wrong, problems in ((key, check_qualified_name(key)), (value, check_label_value(value))):
            if problems:
                raise errors.ApiError(invalid(None, wrong, "; ".join(problems)).message())
        labels[key] = value
    return labels


def _require_no_conflict(attempt: Attributes, one: Mapping[str, str], other: Mapping[str, str]) -> None:
    if any(other.get(key, value) != value for key, value in one.items()):
        raise _forbidden(attempt, "pod node label selector conflicts with its namespace node label selector")


def _forbidden(attempt: Attributes, why: str) -> errors.Forbidden:
    """Return the error with the name of the object, which may not have one yet."""
    return errors.forbidden("", "pods", attempt.object_name, why)
