# SPDX-License-Identifier: Apache-2.0
"""TLS to etcd's members, with readable reasons for failures."""

from __future__ import annotations

import os
import ssl

from kubeloop.store.errors import StoreError
from kubeloop.store.etcd.config import EtcdConfig


class CertificateRejected(StoreError):
    """Rejected certificate, theirs or ours. A retry would change nothing."""


def tls_context(config: EtcdConfig) -> ssl.SSLContext:
    """Build the TLS context; raises `StoreError` for unusable files."""
    for path in (config.cafile, config.certfile, config.keyfile):
        if path and not os.access(path, os.R_OK):
            raise StoreError(f"cannot read etcd's {path}: {_why_unreadable(path)}")
    # Not create_default_context(): from Python 3.13 on it refuses certificates that etcd's own clients accept.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config.cafile:
        try:
            context.load_verify_locations(config.cafile)
        except ssl.SSLError:
            raise StoreError(f"etcd's {config.cafile} contains no certificate") from None
    else:
        context.load_default_certs()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    if config.certfile:
        try:
            context.load_cert_chain(config.certfile, config.keyfile)
        except ssl.SSLError as error:
            reason = error.reason or error
            raise StoreError(f"etcd's {config.certfile} and {config.keyfile} do not match: {reason}") from None
    return context


def _why_unreadable(path: str) -> str:
    try:
        with open(path, "rb"):
            return ""
    except OSError as error:
        return error.strerror or "unknown"
