# SPDX-License-Identifier: Apache-2.0
"""Warnings about TLS secrets whose key does not match the certificate; loads the cryptography library on demand."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Secret
from kubeloop.api.validation.certificates.pem import Block, pem_blocks
from kubeloop.api.warnings.rules import on_every_write


def _of_secret(secret: Secret) -> list[str]:
    if secret.type != "kubernetes.io/tls":
        return []
    problem = key_pair_error(secret.data.get("tls.crt", b""), secret.data.get("tls.key", b""))
    return [problem] if problem else []


def key_pair_error(certificate: bytes, key: bytes) -> str:
    """Return the reason why a certificate and a key do not match, with the message of Go's TLS library."""
    blocks = list(pem_blocks(certificate))
    leaf = next((block for block in blocks if block.type == "CERTIFICATE"), None)
    if leaf is None:
        return _no_certificate(blocks)
    keys = list(pem_blocks(key))
    private = next((block for block in keys if _is_key(block)), None)
    if private is None:
        return _no_key(keys)
    return _mismatch(leaf.content, private.content)


def _no_certificate(blocks: list[Block]) -> str:
    if not blocks:
        return "tls: failed to find any PEM data in certificate input"
    if len(blocks) == 1 and _is_key(blocks[0]):
        return (
            "tls: failed to find certificate PEM data in certificate input, "
            "but did find a private key; PEM inputs may have been switched"
        )
    skipped = " ".join(block.type for block in blocks)
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input '
        f"after skipping PEM blocks of the following types: [{skipped}]"
    )


def _no_key(blocks: list[Block]) -> str:
    if not blocks:
        return "tls: failed to find any PEM data in key input"
    if len(blocks) == 1 and blocks[0].type == "CERTIFICATE":
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = " ".join(block.type for block in blocks)
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input '
        f"after skipping PEM blocks of the following types: [{skipped}]"
    )


def _is_key(block: Block) -> bool:
    return block.type == "PRIVATE KEY" or block.type.endswith(" PRIVATE KEY")


def _mismatch(certificate: bytes, key: bytes) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except Exception:  # the library raises many kinds for content it can't read
        return "x509: malformed certificate"
    try:
        private = load_der_private_key(key, None)
    except Exception:  # the same for keys
        return "tls: failed to parse private key"
    theirs = private.public_key()
    if type(theirs) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if theirs == public else "tls: private key does not match public key"


SECRET = on_every_write(_of_secret)
