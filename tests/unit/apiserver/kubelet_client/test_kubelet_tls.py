# SPDX-License-Identifier: Apache-2.0
"""Tests of kubelet certificate verification over TLS."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig, KubeletDialer, fingerprint
from tests.unit.apiserver.kubelet_client.fake_kubelet import Authority, der_of, kubelet, node_at
from tests.unit.apiserver.streaming.fake_transport import in_loop

UNKNOWN = "tls: failed to verify certificate: x509: certificate signed by unknown authority"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"), "elsewhere")


def by_default(ours: Authority) -> KubeletDialer:
    return KubeletDialer(KubeletClientConfig(own_authority=ours.path))


async def answer_of(trust: KubeletDialer, node: Node, port: int, *, insecure: bool = False) -> str:
    """Return `ok`, or the error that prevented the request."""
    try:
        connection = await trust.connect(node, HostPort("127.0.0.1", port), insecure=insecure)
    except RemoteUnreachable as error:
        return str(error)
    connection.abort()
    return "ok"


def pinned(port: int, pem: Path) -> Node:
    return node_at(port, kubeloop__x="", **{"kubeloop.io__kubelet-certificate": fingerprint(der_of(pem))})


@in_loop
async def test_certificate_of_the_cluster_ca_is_trusted(ours: Authority) -> None:
    async with kubelet(ours.signed("system:node:n1")) as port:
        assert await answer_of(by_default(ours), node_at(port), port) == "ok"


@in_loop
async def test_certificate_for_another_node_is_rejected_even_if_recorded(ours: Authority) -> None:
    api_server = ours.signed("kube-apiserver")
    async with kubelet(api_server) as port:
        said = await answer_of(by_default(ours), pinned(port, api_server), port)
    assert said.endswith("x509: certificate is valid for kube-apiserver, not system:node:n1")


@in_loop
async def test_expired_certificate_is_rejected(ours: Authority) -> None:
    api_server = ours.signed("kube-apiserver", until=-timedelta(minutes=1))
    async with kubelet(api_server) as port:
        said = await answer_of(by_default(ours), pinned(port, api_server), port)
    assert said == "tls: failed to verify certificate: x509: certificate has expired"


@in_loop
async def test_self_signed_certificate_is_trusted_if_recorded_in_the_node(ours: Authority, theirs: Authority) -> None:
    own = theirs.signed("n1")
    async with kubelet(own) as port:
        trust = by_default(ours)
        assert await answer_of(trust, pinned(port, own), port) == "ok"
        assert await answer_of(trust, pinned(port, own), port) == "ok"
        assert await answer_of(trust, node_at(port), port) == UNKNOWN


@in_loop
async def test_renewed_certificate_of_a_node_is_trusted(ours: Authority, theirs: Authority) -> None:
    own, signed, trust = theirs.signed("n1"), ours.signed("system:node:n1"), by_default(ours)
    async with kubelet(own) as port:
        assert await answer_of(trust, pinned(port, own), port) == "ok"
    async with kubelet(signed) as port:
        assert await answer_of(trust, pinned(port, own), port) == "ok"


@in_loop
async def test_unrecorded_certificate_receives_no_request(ours: Authority, theirs: Authority) -> None:
    async with kubelet(theirs.signed("imposter")) as port:
        said = await answer_of(by_default(ours), pinned(port, theirs.signed("n1")), port)
    assert said.endswith("certificate does not match the one recorded in the Node object")


@in_loop
async def test_recorded_certificates_are_ignored_with_a_ca_flag(ours: Authority, theirs: Authority) -> None:
    own = theirs.signed("n1")
    trust = KubeletDialer(KubeletClientConfig(authority=ours.path, own_authority=theirs.path))
    async with kubelet(own) as port:
        assert await answer_of(trust, pinned(port, own), port) == UNKNOWN


@in_loop
async def test_certificate_must_match_the_address_with_a_ca_flag(ours: Authority) -> None:
    trust = KubeletDialer(KubeletClientConfig(authority=ours.path))
    async with kubelet(ours.signed("anybody")) as port:
        said = await answer_of(trust, node_at(port), port)
        connection = await trust.connect(node_at(port), HostPort("localhost", port))
        connection.abort()
    assert "certificate is not valid for '127.0.0.1'" in said


@in_loop
async def test_insecure_flag_accepts_any_certificate(ours: Authority, theirs: Authority) -> None:
    async with kubelet(theirs.signed("n1")) as port:
        assert await answer_of(KubeletDialer(KubeletClientConfig(insecure=True)), node_at(port), port) == "ok"
        assert await answer_of(by_default(ours), node_at(port), port, insecure=True) == "ok"
        assert await answer_of(KubeletDialer(KubeletClientConfig()), node_at(port), port) == UNKNOWN
