# SPDX-License-Identifier: Apache-2.0
"""TLS settings of a listening server, in the names of Go's TLS library: versions, cipher suites, curves, SNI."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_VERSIONS: Final = {"": ssl.TLSVersion.TLSv1_2, "VersionTLS12": ssl.TLSVersion.TLSv1_2,
                    "VersionTLS13": ssl.TLSVersion.TLSv1_3}  # fmt: skip
_OLD_VERSIONS: Final = ("VersionTLS10", "VersionTLS11")
# Suites of TLS 1.3 cannot be chosen, as in Go: they are always offered.
_ALWAYS: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
# Suites that Go still has, and OpenSSL does not.
_BROKEN_SUITES: Final = ("_3DES_EDE_CBC_", "_RC4_128_")
_CURVES: Final = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519"}


class TlsOptionError(ValueError):
    """Setting that the TLS library cannot be given; the message is for the operator."""


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """Certificate and key for server names; without names, those in the certificate."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS settings; the empty values are the defaults."""

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[int, ...] = ()
    sni_certificates: tuple[SniCertificate, ...] = ()


def parse_sni_certificate(text: str) -> SniCertificate:
    """Parse `CERT,KEY` or `CERT,KEY:NAME,NAME`; raises TlsOptionError."""
    files, colon, names = text.partition(":")
    pair = files.split(",")
    if len(pair) != 2 or not all(pair):
        raise TlsOptionError("expected comma separated certificate and key file paths")
    if colon and not all(names.split(",")):
        raise TlsOptionError("expected domain names after the colon")
    return SniCertificate(Path(pair[0]), Path(pair[1]), tuple(names.split(",")) if colon else ())


def apply_tls_options(context: ssl.SSLContext, options: TlsOptions, make_context: Callable[[], ssl.SSLContext]) -> None:
    """Apply the settings to a server's context; `make_context` returns further ones of its kind, for SNI.

    Raises TlsOptionError, and ssl.SSLError or OSError for files that cannot be used.
    """
    context.minimum_version = min_version_of(options.min_version)
    if options.cipher_suites and (ciphers := cipher_list(options.cipher_suites)):
        context.set_ciphers(ciphers)
    if options.curve_preferences:
        context.set_ecdh_curve(_curve_of(options.curve_preferences))
    if options.sni_certificates:
        context.sni_callback = _SniSelector(options.sni_certificates, make_context).select


def min_version_of(name: str) -> ssl.TLSVersion:
    """Return the version of a name such as VersionTLS12; raises TlsOptionError."""
    if name in _OLD_VERSIONS:
        raise TlsOptionError(f"{name} is insecure and not supported; use VersionTLS12 or VersionTLS13")
    if name not in _VERSIONS:
        raise TlsOptionError(f'unknown tls version "{name}"')
    return _VERSIONS[name]


def cipher_list(suites: Sequence[str]) -> str:
    """Return OpenSSL's list of these suites of TLS 1.2; raises TlsOptionError."""
    for name in suites:
        if any(part in name for part in _BROKEN_SUITES):
            raise TlsOptionError(f"Cipher suite {name} is insecure and not supported")
        if name not in _SUITES and name not in _ALWAYS:
            raise TlsOptionError(f"Cipher suite {name} not supported or doesn't exist")
    return ":".join(dict.fromkeys(_SUITES[name] for name in suites if name in _SUITES))


def _curve_of(preferences: Sequence[int]) -> str:
    if len(preferences) != 1 or preferences[0] not in _CURVES:
        known = ", ".join(f"{number} ({name})" for number, name in _CURVES.items())
        raise TlsOptionError(f"tls-curve-preferences can be one of {known}, as Python's TLS library takes no list")
    return _CURVES[preferences[0]]


class _SniSelector:
    """Selects the context of the server name that a client asks for: the exact name, else a wildcard."""

    def __init__(self, certificates: Sequence[SniCertificate], make_context: Callable[[], ssl.SSLContext]) -> None:
        self._contexts: dict[str, ssl.SSLContext] = {}
        for one in certificates:
            context = make_context()
            context.load_cert_chain(one.certificate, one.key)
            for name in one.names or _names_in(one.certificate):
                self._contexts.setdefault(name.lower().rstrip("."), context)

    def select(self, handshake: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """Switch a handshake to the context of the name, if there is one."""
        wanted = (name or "").lower().rstrip(".")
        found = self._contexts.get(wanted) or self._contexts.get(f"*.{wanted.partition('.')[2]}")
        if found is not None:
            handshake.context = found


def _names_in(certificate: Path) -> list[str]:
    """Return the DNS names and addresses of a certificate, and its common name if it has none."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*alternatives.get_values_for_type(x509.DNSName),
                 *map(str, alternatives.get_values_for_type(x509.IPAddress))]  # fmt: skip
    except x509.ExtensionNotFound:
        names = []
    return names or [str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
