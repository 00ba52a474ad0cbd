"""Who asks: a client certificate, or a bearer token. Nobody else gets past this step but as anonymous."""

from __future__ import annotations

import csv
import hmac
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from kubeloop.api import errors
from kubeloop.apiserver.context import ANONYMOUS, User
from kubeloop.apiserver.http import Request

AUTHENTICATED = "system:authenticated"


class Authenticator:
    """Certificates verified by TLS against our CA, then bearer tokens known beforehand."""

    def __init__(self, tokens: Mapping[str, User] | None = None, anonymous: bool = True) -> None:
        self._tokens = dict(tokens or {})
        self._anonymous = anonymous

    def authenticate(self, request: Request) -> User:
        """The request's user; raises Unauthorized for a credential that is given and wrong."""
        if request.peer_certificate is not None:
            return user_of_certificate(request.peer_certificate)
        header = request.headers.get("authorization")
        if header is not None:
            scheme, _, token = header.partition(" ")
            if scheme.lower() == "bearer" and token.strip():
                return self._by_token(token.strip())
        if self._anonymous:
            return ANONYMOUS
        raise errors.unauthorized()

    def _by_token(self, token: str) -> User:
        for known, user in self._tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                return user
        raise errors.unauthorized()


@lru_cache(maxsize=1024)
def user_of_certificate(der: bytes) -> User:
    """The common name is the user, the organizations are the groups."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(der).subject
    names = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[0]:
        raise errors.unauthorized()
    groups = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return User(names[0], (*groups, AUTHENTICATED))


def read_token_file(path: Path) -> dict[str, User]:
    """Upstream's static token file: `token,user,uid,"group1,group2"`, one a line."""
    tokens: dict[str, User] = {}
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3 or not row[0].strip():
                raise ValueError(f"{path}: line {number} needs token, user and uid")
            token, name, uid, *rest = (cell.strip() for cell in row)
            groups = tuple(filter(None, (group.strip() for group in rest[0].split(",")))) if rest else ()
            tokens[token] = User(name, (*groups, AUTHENTICATED), uid)
    return tokens
