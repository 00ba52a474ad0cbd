# SPDX-License-Identifier: Apache-2.0
"""Certificates of a kubelet: for its ports, and as a client."""

from __future__ import annotations

import argparse
import ssl
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from kubeloop.apiserver.kubelet_client.kubelet_tls import fingerprint
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.apiserver.run import advertised_address
from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.http.tls import TlsOptionError, TlsOptions, apply_tls_options
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----\n"
_HERE = ("localhost", "127.0.0.1", "::1")
_MOST_NAMES = 16  # maximum number of node names in a certificate


class KubeletCertificates:
    """TLS of the ports of some nodes."""

    def __init__(
        self,
        options: argparse.Namespace,
        settings: KubeletConfiguration,
        nodes: Sequence[str],
        folder: Path,
        clock: Clock,
    ) -> None:
        self._options = options
        self._settings = settings
        self._nodes = nodes
        self._folder = folder
        self._clock = clock
        self.address = advertised_address(settings.address, options.node_ip)
        self.tls = _new_context(settings)
        self.fingerprint = ""
        self._load_pair(*self._pair())
        if authorities := settings.authentication.x509.client_ca_file:
            self._trust(Path(authorities))

    async def ensure_identity(self) -> None:
        """Bootstrap a kubeconfig for the node unless there is a usable one."""
        options = self._options
        if options.bootstrap_kubeconfig is None or self._has_identity():
            return
        from kubeloop.cli.kubelet.bootstrap import bootstrap

        await bootstrap(self._nodes[0], options.bootstrap_kubeconfig, options.kubeconfig, self._folder, self._clock)

    def rotation_tasks(self, client: Client) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the coroutines that rotate certificates."""
        if self._options.bootstrap_kubeconfig is not None and self._settings.rotate_certificates:
            yield self._rotate_client(client)
        if self._settings.server_tls_bootstrap:
            yield self._rotate_serving(client)

    async def _rotate_client(self, client: Client) -> None:
        from kubeloop.cli.kubelet.bootstrap import CLIENT_SIGNER, CURRENT_CLIENT, rotate_certificate

        current = self._folder / CURRENT_CLIENT
        if current.is_file():  # else the kubeconfig was not created by the bootstrap
            async for _ in rotate_certificate(client, self._nodes[0], CLIENT_SIGNER, current, (), self._clock):
                pass  # clients read the file again

    async def _rotate_serving(self, client: Client) -> None:
        """Request serving certificates from the cluster; until then a self-signed one is used."""
        from kubeloop.cli.kubelet.bootstrap import CURRENT_SERVING, SERVING_SIGNER, rotate_certificate

        node, current = self._nodes[0], self._folder / CURRENT_SERVING
        async for _ in rotate_certificate(client, node, SERVING_SIGNER, current, (node, self.address), self._clock):
            self._load_pair(current, current)

    def _has_identity(self) -> bool:
        from kubeloop.cli.kubelet.bootstrap import CURRENT_CLIENT, is_valid

        current = self._folder / CURRENT_CLIENT
        if not self._options.kubeconfig.is_file():
            return False
        return is_valid(current, self._clock.now()) if current.is_file() else True

    def _pair(self) -> tuple[Path, Path]:
        certificate, key = self._settings.tls_cert_file, self._settings.tls_private_key_file
        if bool(certificate) != bool(key):
            raise StartupError("--tls-cert-file and --tls-private-key-file must be given together")
        if self._settings.server_tls_bootstrap and (certificate or len(self._nodes) > 1):
            raise StartupError("--rotate-server-certificates requires a single node without --tls-cert-file")
        if certificate:
            return Path(certificate), Path(key)
        hosts = sorted({*_HERE, self.address, *self._nodes[:_MOST_NAMES]})
        return ensure_self_signed(self._folder, "kubelet", hosts, self._clock.now())

    def _load_pair(self, certificate: Path, key: Path) -> None:
        try:
            self.tls.load_cert_chain(certificate, key)
            pem = certificate.read_text().partition(_END)[0] + _END
            self.fingerprint = fingerprint(ssl.PEM_cert_to_DER_cert(pem[pem.index(_BEGIN) :]))
        except (ssl.SSLError, ValueError) as error:
            raise StartupError(f"unable to load TLS files {certificate}, {key}: {error}") from None

    def _trust(self, authorities: Path) -> None:
        try:
            self.tls.load_verify_locations(authorities)
        except ssl.SSLError as error:
            raise StartupError(f"--client-ca-file {authorities}: {error.reason or error}") from None
        self.tls.verify_mode = ssl.CERT_OPTIONAL


def _new_context(settings: KubeletConfiguration) -> ssl.SSLContext:
    """Return the TLS context of the ports, without a certificate. Raises `StartupError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    options = TlsOptions(settings.tls_min_version, settings.tls_cipher_suites, settings.tls_curve_preferences)
    try:
        apply_tls_options(context, options, lambda: context)
    except TlsOptionError as error:
        raise StartupError(str(error)) from None
    return context
