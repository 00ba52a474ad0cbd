# SPDX-License-Identifier: Apache-2.0
"""Validation of X.509 certificates and signing requests; the cryptography library is loaded on first use."""

from __future__ import annotations

from kubeloop.api.validation.certificates.pem import pem_blocks

_NOT_DER = "x509: malformed certificate request"
_BAD_SIGNATURE = {
    "EllipticCurvePublicKey": "x509: ECDSA verification failure",
    "Ed25519PublicKey": "x509: Ed25519 verification failure",
    "RSAPublicKey": "crypto/rsa: verification error",
}


def signing_request_error(data: bytes) -> str:
    """Return the reason why PEM text is no signing request with a valid self-signature."""
    block = next(pem_blocks(data), None)
    if block is None or block.type != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    from cryptography import x509

    try:
        request = x509.load_der_x509_csr(block.content)
        valid, key = request.is_signature_valid, request.public_key()
    except Exception:  # the library raises many kinds for content it can't read
        return _NOT_DER
    if valid:
        return ""
    return next((text for name, text in _BAD_SIGNATURE.items() if name in _names(key)), "x509: invalid signature")


def certificate_error(content: bytes) -> str:
    """Return the reason why bytes are no certificate."""
    from cryptography import x509

    try:
        x509.load_der_x509_certificate(content)
    except Exception:  # the library raises many kinds for content it can't read
        return "x509: malformed certificate"
    return ""


def is_ca(content: bytes) -> bool:
    """Return True if a certificate is a CA."""
    from cryptography import x509

    try:
        constraints = x509.load_der_x509_certificate(content).extensions.get_extension_for_class(x509.BasicConstraints)
    except Exception:  # no such extension, or none that can be read
        return False
    return bool(constraints.value.ca)


def _names(key: object) -> str:
    return " ".join(kind.__name__ for kind in type(key).__mro__)
