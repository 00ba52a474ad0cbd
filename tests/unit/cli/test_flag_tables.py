# SPDX-License-Identifier: Apache-2.0
"""Every flag of Kubernetes' programs is accepted, or rejected for a documented reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop.cli.apiserver.unsupported_flags import NO_EFFECT, ONLY_VALUE, UNSUPPORTED
from kubeloop.cli.main import parse_command
from tests.unit.cli.upstream_flags import UPSTREAM_FLAGS
from tools.document_flags import TARGET, document, flags_of


@pytest.mark.parametrize("program", UPSTREAM_FLAGS)
def test_every_flag_of_upstream_is_known(program: str) -> None:
    assert not UPSTREAM_FLAGS[program] - flags_of(program)


def test_a_flag_is_in_one_table() -> None:
    tables = (ONLY_VALUE.keys(), NO_EFFECT.keys(), set(UNSUPPORTED))
    assert len(set().union(*tables)) == sum(map(len, tables))
    assert not set().union(*tables) - UPSTREAM_FLAGS["apiserver"]


def test_the_document_is_up_to_date() -> None:
    assert TARGET.read_text() == document(), "run `make generate`"


# As kubeadm writes them into its static pods.
KUBEADM = {
    "apiserver": """
        --advertise-address=192.0.2.1 --allow-privileged=true --authorization-mode=Node,RBAC
        --client-ca-file=/pki/ca.crt --enable-admission-plugins=NodeRestriction
        --enable-bootstrap-token-auth=true --etcd-cafile=/pki/etcd/ca.crt
        --etcd-certfile=/pki/apiserver-etcd-client.crt --etcd-keyfile=/pki/apiserver-etcd-client.key
        --etcd-servers=https://127.0.0.1:2379 --kubelet-client-certificate=/pki/apiserver-kubelet-client.crt
        --kubelet-client-key=/pki/apiserver-kubelet-client.key
        --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
        --proxy-client-cert-file=/pki/front-proxy-client.crt --proxy-client-key-file=/pki/front-proxy-client.key
        --requestheader-allowed-names=front-proxy-client --requestheader-client-ca-file=/pki/front-proxy-ca.crt
        --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group
        --requestheader-username-headers=X-Remote-User --secure-port=6443
        --service-account-issuer=https://kubernetes.default.svc.cluster.local
        --service-account-key-file=/pki/sa.pub --service-account-signing-key-file=/pki/sa.key
        --service-cluster-ip-range=10.96.0.0/12 --tls-cert-file=/pki/apiserver.crt
        --tls-private-key-file=/pki/apiserver.key
    """,
    "controller-manager": """
        --allocate-node-cidrs=true --authentication-kubeconfig=/c.conf --authorization-kubeconfig=/c.conf
        --bind-address=127.0.0.1 --client-ca-file=/pki/ca.crt --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes
        --cluster-signing-cert-file=/pki/ca.crt --cluster-signing-key-file=/pki/ca.key
        --controllers=*,bootstrapsigner,tokencleaner --kubeconfig=/c.conf --leader-elect=true
        --requestheader-client-ca-file=/pki/front-proxy-ca.crt --root-ca-file=/pki/ca.crt
        --service-account-private-key-file=/pki/sa.key --service-cluster-ip-range=10.96.0.0/12
        --use-service-account-credentials=true
    """,
    "scheduler": """
        --authentication-kubeconfig=/s.conf --authorization-kubeconfig=/s.conf --bind-address=127.0.0.1
        --kubeconfig=/s.conf --leader-elect=true
    """,
}


@pytest.mark.parametrize("program", KUBEADM)
def test_the_command_line_of_kubeadm_is_taken(program: str) -> None:
    options = parse_command([program, *KUBEADM[program].split()])
    if program == "apiserver":
        assert options.allow_privileged is True
        assert options.enable_admission_plugins == ["NodeRestriction"]
        assert options.without_effect is None
        assert options.client_ca_file == Path("/pki/ca.crt")
