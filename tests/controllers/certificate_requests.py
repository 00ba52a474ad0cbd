# SPDX-License-Identifier: Apache-2.0
"""Keys, requests for certificates, and an authority, for tests."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest
from kubeloop.testing import Cluster

KUBELET_SERVING = "kubernetes.io/kubelet-serving"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
API_CLIENT = "kubernetes.io/kube-apiserver-client"
CLIENT = ("digital signature", "client auth")
SERVER = ("digital signature", "server auth")
KEY = ec.generate_private_key(ec.SECP256R1())
NODE: dict[str, Any] = {"name": "system:node:n1", "organizations": ("system:nodes",)}


def pem_request(
    name: str = "jane", organizations: Sequence[str] = (), alternatives: Iterable[x509.GeneralName] = ()
) -> bytes:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    attributes += [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
    builder = x509.CertificateSigningRequestBuilder(x509.Name(attributes))
    names = list(alternatives)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def signing_request(
    name: str = "csr",
    request: bytes | None = None,
    signer: str = API_CLIENT,
    usages: Sequence[str] = CLIENT,
    **spec: Any,
) -> dict[str, Any]:
    encoded = base64.b64encode(pem_request() if request is None else request).decode()
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": encoded, "signerName": signer, "usages": list(usages), **spec},
    }


def approve(cluster: Cluster, name: str = "csr", decision: str = "Approved") -> None:
    condition = {"type": decision, "status": "True", "reason": "Test", "message": ""}
    found = cluster.client.get(CertificateSigningRequest, name)
    conditions = [{"type": one.type, "status": one.status} for one in found.status.conditions]
    patch = {"status": {"conditions": [*conditions, condition]}}
    cluster.client.patch(CertificateSigningRequest, name, patch, subresource="approval")


def authority_in(folder: Path, now: datetime, life: timedelta = timedelta(days=3650)) -> tuple[str, str]:
    """Make an authority; the paths of its certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), now - timedelta(days=1), now + life
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    folder.mkdir(exist_ok=True)
    certificate = folder / "ca.crt"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "ca.key").write_bytes(private)
    return str(certificate), str(folder / "ca.key")


def find(cluster: Cluster, name: str = "csr") -> CertificateSigningRequest:
    found: CertificateSigningRequest = cluster.client.get(CertificateSigningRequest, name)
    return found


def certificate_of(cluster: Cluster, name: str = "csr") -> x509.Certificate | None:
    chain = find(cluster, name).status.certificate
    return x509.load_pem_x509_certificate(chain) if chain else None
