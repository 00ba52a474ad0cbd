# SPDX-License-Identifier: Apache-2.0
"""Kubelet client configuration from flags: credentials, address types and trusted CA."""

from __future__ import annotations

import argparse
import asyncio

from kubeloop.api.kubelet_requests import VirtualGroup
from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig
from kubeloop.apiserver.server import RunningServer, StartupError
from kubeloop.cli.pki.files import Pki
from kubeloop.clock import Clock


def kubelet_config(options: argparse.Namespace, pki: Pki | None) -> KubeletClientConfig:
    """Build the configuration from flags; raises CannotStart."""
    certificate, key = options.kubelet_client_certificate, options.kubelet_client_key
    if bool(certificate) != bool(key):
        raise StartupError("--kubelet-client-certificate and --kubelet-client-key must be given together")
    authority = options.kubelet_certificate_authority
    if options.kubelet_insecure_tls and authority is not None:
        raise StartupError("--kubelet-insecure-tls and --kubelet-certificate-authority are mutually exclusive")
    for path in (certificate, key, authority):
        if path is not None and not path.is_file():
            raise StartupError(f"{path}: no such file")
    own = default_kubelet_config(pki) if pki is not None else KubeletClientConfig()
    return KubeletClientConfig(
        certificate or own.certificate,
        key or own.key,
        authority,
        own.own_authority,
        options.kubelet_insecure_tls,
        options.kubelet_preferred_address_types,
        options.kubelet_timeout,
        options.kubelet_allow_local_addresses,
        options.tls_cert_file or own.serving_certificate,
    )


def default_kubelet_config(pki: Pki, allow_local_addresses: bool = False) -> KubeletClientConfig:
    """Return the configuration with our own certificates, for programs without these flags."""
    return KubeletClientConfig(
        pki.kubelet_client_certificate,
        pki.kubelet_client_key,
        own_authority=pki.ca,
        allow_local_addresses=allow_local_addresses,
        serving_certificate=pki.serving_certificate,
    )


def serve_kubelet_metrics(server: RunningServer, clock: Clock, beside: VirtualGroup | None = None) -> None:
    """Serve metrics.k8s.io from kubelets, and from a group of this process's own nodes."""
    from kubeloop.apiserver.kubelet_client.metrics_group import KubeletMetrics

    app = server.app
    assert app.nodes.kubelets is not None, "--kubelet-metrics requires a connection to kubelets"
    group = KubeletMetrics(app.registry, app.nodes.kubelets, clock, beside)
    app.serve_virtual_group(group)
    asking = asyncio.create_task(group.run(), name="usage of nodes")

    async def end() -> None:
        asking.cancel()
        await asyncio.wait((asking,))

    server.before_closing(end)
