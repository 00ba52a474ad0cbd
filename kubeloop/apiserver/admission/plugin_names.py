# SPDX-License-Identifier: Apache-2.0
"""Names of all admission plugins of kube-apiserver, in the order in which they run, and the selection by flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubeloop.api.meta.field_path import quote

ORDERED_PLUGINS: Final = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
_DEFAULT_OFF: Final = frozenset(
    {
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    }
)
# Differs from upstream: NodeRestriction is on by default, because the node authorizer relies on it.
DEFAULT_PLUGINS: Final = frozenset(ORDERED_PLUGINS) - _DEFAULT_OFF


class AdmissionConfigError(ValueError):
    """Error for invalid admission flags or files; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """Flags of admission: plugins to enable and disable beside the defaults, and the configuration file.

    `only` is the deprecated flag that names all enabled plugins.
    """

    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    config_file: Path | None = None


def select_plugins(options: AdmissionOptions) -> frozenset[str]:
    """Return the names of the enabled plugins; raises `AdmissionConfigError`."""
    problems = list(_validate(options))
    if problems:
        raise AdmissionConfigError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    if options.only:
        return frozenset(options.only)
    return (DEFAULT_PLUGINS - frozenset(options.disable)) | frozenset(options.enable)


def _validate(options: AdmissionOptions) -> Iterator[str]:
    if options.only and (options.enable or options.disable):
        yield "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
    yield from _unknown("admission-control", options.only)
    yield from _unknown("enable-admission-plugins", options.enable)
    yield from _unknown("disable-admission-plugins", options.disable)
    overlap = sorted(set(options.enable) & set(options.disable))
    if overlap:
        yield f"[{' '.join(overlap)}] in enable-admission-plugins and disable-admission-plugins overlapped"


def _unknown(flag: str, names: Iterable[str]) -> Iterator[str]:
    return (f"{flag} plugin {quote(name)} is unknown" for name in names if name not in ORDERED_PLUGINS)
