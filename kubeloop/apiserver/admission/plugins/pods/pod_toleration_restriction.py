# SPDX-License-Identifier: Apache-2.0
"""PodTolerationRestriction: adds a namespace's default tolerations to pods, and limits them to its whitelist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Pod, Toleration
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.api.strategy.pods.qos import qos_class_of
from kubeloop.api.validation.pods.scheduling import validate_tolerations
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.admission.plugins.pods.tolerations import Tolerations, is_whitelisted, merge_tolerations

_DEFAULTS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
_WHITELIST: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_MEMORY_PRESSURE: Final = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule")


class PodTolerationRestrictionConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration file of the plugin: default tolerations and whitelist of the cluster."""

    kind: str = ""
    api_version: str = ""
    default: tuple[Toleration, ...] = ()
    whitelist: tuple[Toleration, ...] = ()

    def validate(self) -> Iterator[FieldError]:
        """Yield the errors of the configuration."""
        path = FieldPath("podtolerationrestriction")
        yield from validate_tolerations(self.default, path.child("default"))
        yield from validate_tolerations(self.whitelist, path.child("whitelist"))


class PodTolerationRestriction(AdmissionPlugin):
    """Merges default tolerations into pods and rejects those outside the whitelist."""

    name = "PodTolerationRestriction"
    resources = frozenset({"pods"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, lookup: Lookup, config: PodTolerationRestrictionConfiguration) -> None:
        self._lookup = lookup
        self._config = config

    def admit(self, attempt: Attributes) -> None:
        """Add the defaults on creation, and memory pressure for pods with requests; then check the whitelist."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        extra: Tolerations = ()
        if attempt.operation == "CREATE":
            own = self._annotated(attempt.namespace, _DEFAULTS)
            extra = self._config.default if own is None else own
        if qos_class_of(pod.spec) != "BestEffort":
            extra = (*extra, _MEMORY_PRESSURE)
        if extra:
            force_setattr(pod.spec, "tolerations", merge_tolerations(pod.spec.tolerations, extra))
        self.validate(attempt)

    def validate(self, attempt: Attributes) -> None:
        """Reject tolerations that the whitelist of the namespace, or else of the cluster, does not cover."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        if not pod.spec.tolerations:
            return
        own = self._annotated(attempt.namespace, _WHITELIST)
        whitelist, scope = (self._config.whitelist, "cluster") if own is None else (own, "namespace")
        if not is_whitelisted(pod.spec.tolerations, whitelist):
            raise errors.ApiError(
                "pod tolerations (possibly merged with namespace default tolerations) "
                f"conflict with its {scope} whitelist"
            )

    def _annotated(self, name: str, annotation: str) -> Tolerations | None:
        """Return the tolerations in an annotation of a namespace; None without the annotation."""
        namespace = self._lookup.get_object("namespaces", "", name)
        if namespace is None:
            raise errors.not_found("", "namespaces", name)
        text = namespace.metadata.annotations.get(annotation)
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=tuple[Toleration, ...]) if text else ()
        except msgspec.MsgspecError as error:
            raise errors.ApiError(str(error)) from None
