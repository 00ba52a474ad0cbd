# SPDX-License-Identifier: Apache-2.0
"""Rules of Kubernetes' own signers; the returned problems are upstream's texts for a condition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
API_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
LEGACY: Final = "kubernetes.io/legacy-unknown"

_NODES = ("system:nodes",)
_NODE_PREFIX = "system:node:"
_SIGNATURE, _ENCIPHERMENT = "digital signature", "key encipherment"


class CsrFields(Protocol):
    """Fields of a request that the rules evaluate."""

    @property
    def common_name(self) -> str:
        """Common name of the subject."""

    @property
    def organizations(self) -> tuple[str, ...]:
        """Organizations of the subject."""

    @property
    def dns_names(self) -> Collection[object]:
        """DNS names in subjectAltName."""

    @property
    def emails(self) -> Collection[object]:
        """Email addresses in subjectAltName."""

    @property
    def addresses(self) -> Collection[object]:
        """IP addresses in subjectAltName."""

    @property
    def uris(self) -> Collection[object]:
        """URIs in subjectAltName."""


# Returns the reason to refuse a request with these usages, or an empty string.
Rule = Callable[[CsrFields, Sequence[str]], str]


def kubelet_serving_problem(asked: CsrFields, usages: Sequence[str]) -> str:
    """Return the reason to refuse a kubelet serving certificate, or an empty string."""
    if asked.organizations != _NODES:
        return "subject organization is not system:nodes"
    if not asked.dns_names and not asked.addresses:
        return "DNS or IP subjectAltName is required"
    if asked.emails:
        return "Email subjectAltNames are not allowed"
    if asked.uris:
        return "URI subjectAltNames are not allowed"
    return _usage_problem(usages, "server auth") or _name_problem(asked)


def kubelet_client_problem(asked: CsrFields, usages: Sequence[str]) -> str:
    """Return the reason to refuse a kubelet client certificate, or an empty string."""
    if asked.organizations != _NODES:
        return "subject organization is not system:nodes"
    for kind, names in (
        ("DNS", asked.dns_names),
        ("Email", asked.emails),
        ("IP", asked.addresses),
        ("URI", asked.uris),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    return _name_problem(asked) or _usage_problem(usages, "client auth")


def api_client_problem(_: CsrFields, usages: Sequence[str]) -> str:
    """Return the reason to refuse an API server client certificate, or an empty string."""
    for usage in usages:
        if usage not in (_SIGNATURE, _ENCIPHERMENT, "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def no_problem(_: CsrFields, __: Sequence[str]) -> str:
    """Accept every request, as the legacy-unknown signer does."""
    return ""


RULES: Final[dict[str, Rule]] = {
    KUBELET_SERVING: kubelet_serving_problem,
    KUBELET_CLIENT: kubelet_client_problem,
    API_CLIENT: api_client_problem,
    LEGACY: no_problem,
}


def _name_problem(asked: CsrFields) -> str:
    if asked.common_name.startswith(_NODE_PREFIX):
        return ""
    return "subject common name does not begin with system:node:"


def _usage_problem(usages: Sequence[str], purpose: str) -> str:
    """Check the usages; key encipherment is optional because only RSA keys can encipher."""
    if set(usages) in ({_SIGNATURE, purpose}, {_SIGNATURE, _ENCIPHERMENT, purpose}):
        return ""
    return f"usages did not match [{' '.join(sorted((_SIGNATURE, _ENCIPHERMENT, purpose)))}]"
