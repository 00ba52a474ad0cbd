# SPDX-License-Identifier: Apache-2.0
"""Tests of users in proxy headers: accepted with the right certificate only."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from kubeloop.api.errors import Unauthorized
from kubeloop.apiserver.authentication import Authenticator, RequestHeaderAuthenticator, RequestHeaderConfig
from kubeloop.apiserver.request.context import User
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.http import Request

NOW = SystemClock().now
NAMED = {
    "x-remote-user": "alice",
    "x-remote-group": "painters, singers",
    "x-remote-uid": "7",
    "x-remote-extra-scopes%2fa": "b, c",
}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(tmp_path_factory.mktemp("pki"), ["127.0.0.1"], SystemClock().now())


def asked_by(certificate: Path | None, **headers: str) -> Request:
    request = Request("GET", "/", "", dict(NAMED) | headers)
    if certificate is not None:
        pem = x509.load_pem_x509_certificate(certificate.read_bytes())
        request.peer_certificate = pem.public_bytes(Encoding.DER)
    return request


def authenticator(pki: Pki, *names: str, clients: tuple[Path, ...] = ()) -> Authenticator:
    proxy = RequestHeaderAuthenticator(RequestHeaderConfig(pki.front_proxy_ca, names), clients or (pki.ca,), NOW)
    return Authenticator({}, False, (), proxy)


def test_proxy_headers_set_the_user(pki: Pki) -> None:
    request = asked_by(pki.front_proxy_certificate)
    request.repeated = {"x-remote-group": ["painters", "singers"], "x-remote-extra-scopes%2fa": ["b", "c"]}
    user = authenticator(pki, "front-proxy-client").authenticate(request)
    assert (user.name, user.uid) == ("alice", "7")
    assert user.groups == ("painters", "singers", "system:authenticated")
    assert user.extra == (("scopes/a", ("b", "c")),)


def test_a_group_with_a_comma_is_one_group(pki: Pki) -> None:
    """Its parts may be groups that the user is not in."""
    request = asked_by(pki.front_proxy_certificate, **{"x-remote-group": "singers, system:masters"})
    user = authenticator(pki, "front-proxy-client").authenticate(request)
    assert user.groups == ("singers, system:masters", "system:authenticated")


def test_names_are_utf_8(pki: Pki) -> None:
    sent = "j\u00fcrgen".encode().decode("latin-1")
    request = asked_by(pki.front_proxy_certificate, **{"x-remote-user": sent, "x-remote-group": sent})
    user = authenticator(pki, "front-proxy-client").authenticate(request)
    assert (user.name, user.groups[0]) == ("j\u00fcrgen", "j\u00fcrgen")


def test_user_certificate_overrides_headers(pki: Pki) -> None:
    user = authenticator(pki).authenticate(asked_by(pki.admin_certificate))
    assert user.name == "kubernetes-admin"


@pytest.mark.parametrize("names", [("somebody-else",), ()])
def test_proxy_is_not_a_user(pki: Pki, names: tuple[str, ...]) -> None:
    """Certificates with another name, and proxies without a user, are rejected."""
    request = asked_by(pki.front_proxy_certificate, **({"x-remote-user": ""} if not names else {}))
    with pytest.raises(Unauthorized):
        authenticator(pki, *names).authenticate(request)


def test_headers_without_a_certificate_are_ignored(pki: Pki) -> None:
    with pytest.raises(Unauthorized):
        authenticator(pki).authenticate(asked_by(None))


def test_shared_ca_accepts_a_proxy_certificate_as_user(pki: Pki) -> None:
    request = asked_by(pki.front_proxy_certificate, **{"x-remote-user": ""})
    user = authenticator(pki, clients=(pki.front_proxy_ca,)).authenticate(request)
    assert user.name == "front-proxy-client"


class Issuer:
    """An authority of which the test has the key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self.key = key

    @classmethod
    def of(cls, certificate: Path, key: Path) -> Issuer:
        private = load_pem_private_key(key.read_bytes(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        return cls(x509.load_pem_x509_certificate(certificate.read_bytes()), private)

    def sign(self, name: str, group: str = "", *, ca: bool, length: int | None = None, days: int = 30) -> Issuer:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        builder = x509.CertificateBuilder(
            self.certificate.subject, x509.Name(parts), key.public_key(), x509.random_serial_number()
        )
        end = NOW() + timedelta(days=days)
        builder = builder.not_valid_before(end - timedelta(days=60)).not_valid_after(end)
        builder = builder.add_extension(x509.BasicConstraints(ca, length if ca else None), critical=True)
        return Issuer(builder.sign(self.key, hashes.SHA256()), key)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


def asked_with(chain: list[Issuer], **headers: str) -> Request:
    request = Request("GET", "/", "", headers)
    request.peer_certificate, *others = [one.der for one in chain]
    request.peer_intermediates = tuple(others)
    return request


@pytest.fixture(scope="module")
def proxies(pki: Pki) -> Issuer:
    return Issuer.of(pki.front_proxy_ca, pki.front_proxy_ca.with_suffix(".key"))


@pytest.fixture(scope="module")
def users(pki: Pki) -> Issuer:
    return Issuer.of(pki.ca, pki.ca.with_suffix(".key"))


def test_a_leaf_under_an_intermediate_of_the_proxies_authority_is_no_user(pki: Pki, proxies: Issuer) -> None:
    between = proxies.sign("between", ca=True)
    leaf = between.sign("mallory", "system:masters", ca=False)
    for chain in ([leaf, between], [leaf]):
        with pytest.raises(Unauthorized):
            authenticator(pki).authenticate(asked_with(chain))


def test_a_proxy_under_an_intermediate_speaks_for_users(pki: Pki, proxies: Issuer) -> None:
    between = proxies.sign("between", ca=True)
    proxy = between.sign("proxy", ca=False)
    assert authenticator(pki).authenticate(asked_with([proxy, between], **NAMED)).name == "alice"


def test_a_user_under_an_intermediate_is_a_user(pki: Pki, users: Issuer) -> None:
    first = users.sign("first", ca=True)
    second = first.sign("second", ca=True)
    leaf = second.sign("jane", "dev", ca=False)
    for chain in ([leaf, second, first], [leaf, first, second]):
        user = authenticator(pki).authenticate(asked_with(chain, **NAMED))
        assert (user.name, user.groups) == ("jane", ("dev", "system:authenticated"))


def test_no_chain_goes_over_what_may_not_sign(pki: Pki, users: Issuer) -> None:
    no_authority = users.sign("bob", ca=False)
    short = users.sign("short", ca=True, length=0)
    too_deep = short.sign("deep", ca=True)
    expired = users.sign("expired", ca=True, days=-1)
    other = Issuer(users.certificate, ec.generate_private_key(ec.SECP256R1()))  # the right name, another key
    for chain in ([no_authority], [too_deep, short], [expired], []):
        signer = chain[0] if chain else other
        with pytest.raises(Unauthorized):
            authenticator(pki).authenticate(asked_with([signer.sign("jane", ca=False), *chain]))


def test_the_certificate_of_a_proxy_is_an_invalid_credential_even_where_anybody_may_ask(pki: Pki) -> None:
    proxy = RequestHeaderAuthenticator(RequestHeaderConfig(pki.front_proxy_ca), (pki.ca,), NOW)
    jane = User("jane")
    anybody = Authenticator({"t": jane}, True, (), proxy)
    request = asked_by(pki.front_proxy_certificate, **{"x-remote-user": ""})
    with pytest.raises(Unauthorized):
        anybody.authenticate(request)
    request.headers["authorization"] = "Bearer t"
    assert anybody.authenticate(request) == jane


def test_many_certificates_cost_a_bounded_number_of_signatures(pki: Pki, users: Issuer) -> None:
    loop = [Issuer(users.certificate, users.key)]
    for _ in range(30):  # all have the same name, and each could have signed every other
        loop.append(Issuer(loop[-1].sign("same", ca=True).certificate, users.key))
    leaf = loop[-1].sign("jane", ca=False)
    with pytest.raises(Unauthorized):
        authenticator(pki).authenticate(asked_with([leaf, *loop[2:]]))
