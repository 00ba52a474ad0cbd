"""Users whom a proxy names: believed of one with the right certificate, of nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kubeloop.api.errors import Unauthorized
from kubeloop.apiserver.authentication import Authenticator, RequestHeaderAuthenticator, RequestHeaderConfig
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.http import Request

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
    proxy = RequestHeaderAuthenticator(RequestHeaderConfig(pki.front_proxy_ca, names), clients or (pki.ca,))
    return Authenticator({}, False, (), proxy)


def test_a_proxy_says_for_whom_it_speaks(pki: Pki) -> None:
    user = authenticator(pki, "front-proxy-client").authenticate(asked_by(pki.front_proxy_certificate))
    assert (user.name, user.uid) == ("alice", "7")
    assert user.groups == ("painters", "singers", "system:authenticated")
    assert user.extra == (("scopes/a", ("b", "c")),)


def test_a_users_certificate_names_that_user_whatever_the_headers_say(pki: Pki) -> None:
    user = authenticator(pki).authenticate(asked_by(pki.admin_certificate))
    assert user.name == "kubernetes-admin"


@pytest.mark.parametrize("names", [("somebody-else",), ()])
def test_a_proxy_is_no_user_itself(pki: Pki, names: tuple[str, ...]) -> None:
    """Neither one of another name, nor one that says of nobody that it speaks for them."""
    request = asked_by(pki.front_proxy_certificate, **({"x-remote-user": ""} if not names else {}))
    with pytest.raises(Unauthorized):
        authenticator(pki, *names).authenticate(request)


def test_headers_without_a_certificate_are_nothing(pki: Pki) -> None:
    with pytest.raises(Unauthorized):
        authenticator(pki).authenticate(asked_by(None))


def test_where_one_authority_signs_both_a_certificate_may_name_a_user(pki: Pki) -> None:
    request = asked_by(pki.front_proxy_certificate, **{"x-remote-user": ""})
    user = authenticator(pki, clients=(pki.front_proxy_ca,)).authenticate(request)
    assert user.name == "front-proxy-client"
