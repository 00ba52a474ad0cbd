# SPDX-License-Identifier: Apache-2.0
"""Files and command lines of a control plane as kubeadm sets it up, in a folder instead of /etc/kubernetes."""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_NAMES = ("node", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", "10.96.0.1")
_SERVER = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
_CLIENT = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
_BOTH = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
_PEM = serialization.Encoding.PEM

# As kubeadm 1.37 writes them into its static pods, in its order. Folders and ports are filled in.
COMMANDS = {
    "etcd": """
        --advertise-client-urls=https://127.0.0.1:{etcd} --cert-file={etc}/pki/etcd/server.crt --client-cert-auth=true
        --data-dir={var}/etcd --initial-advertise-peer-urls=https://127.0.0.1:{peer}
        --initial-cluster=node=https://127.0.0.1:{peer} --key-file={etc}/pki/etcd/server.key
        --listen-client-urls=https://127.0.0.1:{etcd} --listen-metrics-urls=http://127.0.0.1:{metrics}
        --listen-peer-urls=https://127.0.0.1:{peer} --name=node --peer-cert-file={etc}/pki/etcd/peer.crt
        --peer-client-cert-auth=true --peer-key-file={etc}/pki/etcd/peer.key
        --peer-trusted-ca-file={etc}/pki/etcd/ca.crt --snapshot-count=10000
        --trusted-ca-file={etc}/pki/etcd/ca.crt
    """,
    "apiserver": """
        --advertise-address=127.0.0.1 --allow-privileged=true --authorization-mode=Node,RBAC
        --client-ca-file={etc}/pki/ca.crt --enable-admission-plugins=NodeRestriction
        --enable-bootstrap-token-auth=true --etcd-cafile={etc}/pki/etcd/ca.crt
        --etcd-certfile={etc}/pki/apiserver-etcd-client.crt --etcd-keyfile={etc}/pki/apiserver-etcd-client.key
        --etcd-servers=https://127.0.0.1:{etcd}
        --kubelet-client-certificate={etc}/pki/apiserver-kubelet-client.crt
        --kubelet-client-key={etc}/pki/apiserver-kubelet-client.key
        --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
        --proxy-client-cert-file={etc}/pki/front-proxy-client.crt
        --proxy-client-key-file={etc}/pki/front-proxy-client.key
        --requestheader-allowed-names=front-proxy-client
        --requestheader-client-ca-file={etc}/pki/front-proxy-ca.crt
        --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group
        --requestheader-username-headers=X-Remote-User --secure-port={apiserver}
        --service-account-issuer=https://kubernetes.default.svc.cluster.local
        --service-account-key-file={etc}/pki/sa.pub --service-account-signing-key-file={etc}/pki/sa.key
        --service-cluster-ip-range=10.96.0.0/12 --tls-cert-file={etc}/pki/apiserver.crt
        --tls-private-key-file={etc}/pki/apiserver.key
    """,
    "controller-manager": """
        --allocate-node-cidrs=true --authentication-kubeconfig={etc}/controller-manager.conf
        --authorization-kubeconfig={etc}/controller-manager.conf --bind-address=127.0.0.1
        --client-ca-file={etc}/pki/ca.crt --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes
        --cluster-signing-cert-file={etc}/pki/ca.crt --cluster-signing-key-file={etc}/pki/ca.key
        --controllers=*,bootstrapsigner,tokencleaner --kubeconfig={etc}/controller-manager.conf --leader-elect=true
        --requestheader-client-ca-file={etc}/pki/front-proxy-ca.crt --root-ca-file={etc}/pki/ca.crt
        --service-account-private-key-file={etc}/pki/sa.key --service-cluster-ip-range=10.96.0.0/12
        --use-service-account-credentials=true
    """,
    "scheduler": """
        --authentication-kubeconfig={etc}/scheduler.conf --authorization-kubeconfig={etc}/scheduler.conf
        --bind-address=127.0.0.1 --kubeconfig={etc}/scheduler.conf --leader-elect=true
    """,
}


@dataclass(frozen=True, slots=True)
class _Authority:
    name: x509.Name
    key: rsa.RSAPrivateKey


class KubeadmFolder:
    """Folder /etc/kubernetes: authorities, certificates and kubeconfigs under kubeadm's names."""

    def __init__(self, etc: Path, port: int) -> None:
        self._pki = etc / "pki"
        (self._pki / "etcd").mkdir(parents=True)
        cluster = self._authority("ca", "kubernetes")
        proxy = self._authority("front-proxy-ca", "front-proxy-ca")
        etcd = self._authority("etcd/ca", "etcd-ca")
        self._issue("apiserver", _subject("kube-apiserver"), cluster, _SERVER)
        kubelet_client = _subject("kube-apiserver-kubelet-client", "kubeadm:cluster-admins")
        self._issue("apiserver-kubelet-client", kubelet_client, cluster, _CLIENT)
        self._issue("front-proxy-client", _subject("front-proxy-client"), proxy, _CLIENT)
        self._issue("apiserver-etcd-client", _subject("kube-apiserver-etcd-client"), etcd, _CLIENT)
        for name in ("server", "peer"):
            self._issue(f"etcd/{name}", _subject("node"), etcd, _BOTH)
        signing = _new_key()
        (self._pki / "sa.key").write_bytes(_private_pem(signing))
        public = signing.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (self._pki / "sa.pub").write_bytes(public)
        users = {
            "admin": _subject("kubernetes-admin", "kubeadm:cluster-admins"),
            "super-admin": _subject("kubernetes-super-admin", "system:masters"),
            "controller-manager": _subject("system:kube-controller-manager"),
            "scheduler": _subject("system:kube-scheduler"),
        }
        for name, subject in users.items():
            (etc / f"{name}.conf").write_text(self._kubeconfig(subject, cluster, port))

    def _authority(self, file: str, name: str) -> _Authority:
        authority = _Authority(_subject(name), _new_key())
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        certificate = _certificate(authority.name, authority.key, authority).add_extension(constraint, critical=True)
        self._write(file, authority.key, certificate.sign(authority.key, hashes.SHA256()))
        return authority

    def _issue(self, file: str, subject: x509.Name, authority: _Authority, usage: x509.ExtendedKeyUsage) -> None:
        self._write(file, *_issued(subject, authority, usage))

    def _write(self, file: str, key: rsa.RSAPrivateKey, certificate: x509.Certificate) -> None:
        (self._pki / f"{file}.key").write_bytes(_private_pem(key))
        (self._pki / f"{file}.crt").write_bytes(certificate.public_bytes(_PEM))

    def _kubeconfig(self, subject: x509.Name, authority: _Authority, port: int) -> str:
        key, certificate = _issued(subject, authority, _CLIENT)
        user = {
            "client-certificate-data": _base64(certificate.public_bytes(_PEM)),
            "client-key-data": _base64(_private_pem(key)),
        }
        cluster = {
            "certificate-authority-data": _base64((self._pki / "ca.crt").read_bytes()),
            "server": f"https://127.0.0.1:{port}",
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubernetes", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "user@kubernetes", "context": {"cluster": "kubernetes", "user": "user"}}],
            "current-context": "user@kubernetes",
        }
        return yaml.safe_dump(config)


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def _private_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _subject(user: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _issued(
    subject: x509.Name, authority: _Authority, usage: x509.ExtendedKeyUsage
) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = _new_key()
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES]
    builder = _certificate(subject, key, authority).add_extension(usage, critical=False)
    if usage is not _CLIENT:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return key, builder.sign(authority.key, hashes.SHA256())


def _certificate(subject: x509.Name, key: rsa.RSAPrivateKey, authority: _Authority) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return (
        x509.CertificateBuilder(authority.name, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(identifier, critical=False)
    )
