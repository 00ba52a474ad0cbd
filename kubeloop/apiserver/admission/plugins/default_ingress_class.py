# SPDX-License-Identifier: Apache-2.0
"""DefaultIngressClass: sets the cluster's default class on an Ingress without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.api.codec import force_setattr
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.admission.plugins.default_classes import default_class

if TYPE_CHECKING:  # the kind's types are imported with its first object
    from kubeloop.api.generated.networking_v1 import Ingress

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_IS_DEFAULT = ("ingressclass.kubernetes.io/is-default-class",)


class DefaultIngressClass(AdmissionPlugin):
    """Sets the default IngressClass."""

    name = "DefaultIngressClass"
    resources = frozenset({"ingresses.networking.k8s.io"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def admit(self, attempt: Attributes) -> None:
        """Set ingressClassName if neither the field nor the annotation is set."""
        assert attempt.obj is not None
        ingress: Ingress = attempt.obj
        if ingress.spec.ingress_class_name is not None or _CLASS_ANNOTATION in ingress.metadata.annotations:
            return
        default = default_class(self._lookup.list_objects("ingressclasses", "", "networking.k8s.io"), _IS_DEFAULT)
        if default is not None:
            force_setattr(ingress.spec, "ingress_class_name", default.metadata.name)
