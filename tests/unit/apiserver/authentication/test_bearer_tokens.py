# SPDX-License-Identifier: Apache-2.0
"""The Authorization header is read as upstream reads it."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import Unauthorized
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.request.context import ANONYMOUS, User
from kubeloop.http import Request

JANE = User("jane")
IGNORED = "the provided Authorization header contains extra space before the bearer token, and is ignored"


def user_of(header: str) -> User:
    request = Request("GET", "/", "", {"authorization": header})
    return Authenticator({"tok": JANE, "tok more": User("nobody")}).authenticate(request)


@pytest.mark.parametrize("header", ["Bearer tok", "bearer tok", " BEARER tok ", "Bearer tok more", "Bearer tok  x"])
def test_the_word_after_bearer_is_the_token(header: str) -> None:
    assert user_of(header) == JANE


@pytest.mark.parametrize("header", ["Bearer  tok", "Bearer", "Bearer ", "Basic tok", "tok", "Bearer\ttok", ""])
def test_without_a_token_the_header_is_ignored(header: str) -> None:
    assert user_of(header) == ANONYMOUS


def test_an_unknown_token_is_refused() -> None:
    with pytest.raises(Unauthorized):
        user_of("Bearer other")


def test_a_token_that_is_ignored_is_warned_about(api) -> None:
    answer = api.ask("GET", "/api/v1/namespaces/default/pods", authorization="Bearer  admin")
    assert answer.status == 403
    assert answer.headers["Warning"] == f'299 - "{IGNORED}"'


def test_a_token_review_takes_the_token_as_it_is(api) -> None:
    def review(token: str) -> object:
        body = {"spec": {"token": token}}
        return api.post("/apis/authentication.k8s.io/v1/tokenreviews", body).body["status"].get("authenticated", False)

    assert review("admin") is True
    assert review("admin more") is False
    assert review(" admin") is False
