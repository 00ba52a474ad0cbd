# SPDX-License-Identifier: Apache-2.0
"""TLS settings from the values of flags."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.http.tls import TlsOptionError, TlsOptions, cipher_list, min_version_of, parse_sni_certificate


def tls_options(min_version: str, suites: Sequence[str], curves: Sequence[str], sni: Sequence[str]) -> TlsOptions:
    """Return checked settings; raises TlsOptionError."""
    min_version_of(min_version)
    cipher_list(suites)
    if not all(curve.isdecimal() for curve in curves):
        raise TlsOptionError(f"tls-curve-preferences must be numbers, not {','.join(curves)}")
    certificates = tuple(map(parse_sni_certificate, sni))
    return TlsOptions(min_version, tuple(suites), tuple(map(int, curves)), certificates)
