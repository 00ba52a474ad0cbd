# SPDX-License-Identifier: Apache-2.0
"""Tokens in files: read when they change, kept while they cannot be read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubeloop.client.config.credentials import NO_IDENTITY, StaticCredentials, TokenFileCredentials, credentials_of
from kubeloop.client.config.exec_plugin import ExecCredentials
from kubeloop.client.config.server_config import ExecConfig, Pem, ServerConfig
from kubeloop.client.errors import CredentialError
from kubeloop.clock import SystemClock


def token_of(credentials: TokenFileCredentials) -> str:
    return asyncio.run(credentials.get_identity()).token


def test_token_survives_a_temporarily_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(" one \n")
    credentials = TokenFileCredentials(str(path))
    assert token_of(credentials) == "one"
    path.unlink()
    assert token_of(credentials) == "one"
    path.write_text("")
    assert token_of(credentials) == "one"
    path.write_text("two")
    assert token_of(credentials) == "two"


def test_missing_token_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match="No such file"):
        token_of(TokenFileCredentials(str(tmp_path / "none")))
    (tmp_path / "empty").touch()
    with pytest.raises(CredentialError, match="is empty"):
        token_of(TokenFileCredentials(str(tmp_path / "empty")))
    assert token_of(TokenFileCredentials(str(tmp_path / "none"), "fallback")) == "fallback"


def test_explicit_credentials_take_precedence_over_a_plugin(tmp_path: Path) -> None:
    plugin = ExecConfig("x", "client.authentication.k8s.io/v1")

    def kind(**options: object) -> type:
        config = ServerConfig("https://a", exec_plugin=plugin, **options)  # type: ignore[arg-type]
        return type(credentials_of(config, SystemClock()))

    assert kind() is ExecCredentials
    assert kind(token="t") is StaticCredentials
    assert kind(token="t", token_file="f") is TokenFileCredentials
    assert kind(certificate=Pem(file="c"), key=Pem(file="k")) is StaticCredentials
    assert asyncio.run(credentials_of(ServerConfig("https://a"), SystemClock()).get_identity()) == NO_IDENTITY
