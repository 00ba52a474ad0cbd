# SPDX-License-Identifier: Apache-2.0
"""Credentials from an exec plugin: run when needed, cached until they expire or the server rejects them."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import datetime

import msgspec

from kubeloop.client.config.credentials import ClientIdentity
from kubeloop.client.config.server_config import ExecConfig
from kubeloop.client.errors import CredentialError
from kubeloop.clock import Clock
from kubeloop.exec import DEVNULL, run_command

INFO_VARIABLE = "KUBERNETES_EXEC_INFO"


class _Status(msgspec.Struct, rename="camel"):
    expiration_timestamp: datetime | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class ExecCredentials:
    """Runs one program; concurrent calls share one run.

    A call that gives up does not end the program, which may be prompting a user: the next call gets its result.
    """

    def __init__(self, spec: ExecConfig, clock: Clock) -> None:
        self._spec = spec
        self._clock = clock
        self._identity: ClientIdentity | None = None
        self._expiry: datetime | None = None
        self._running: asyncio.Task[ClientIdentity] | None = None

    async def get_identity(self) -> ClientIdentity:
        """Return the cached identity, or run the program."""
        if self._identity is not None and not self._is_expired():
            return self._identity
        if self._running is None:
            self._running = asyncio.create_task(self._refresh(), name=f"credentials from {self._spec.command}")
            self._running.add_done_callback(self._on_done)
        return await asyncio.shield(self._running)

    def invalidate(self, identity: ClientIdentity) -> None:
        """Drop the cached identity if it is the rejected one."""
        if identity == self._identity:
            self._identity = None

    def close(self) -> None:
        """Cancel a run of the program."""
        if self._running is not None:
            self._running.cancel()

    def _on_done(self, task: asyncio.Task[ClientIdentity]) -> None:
        self._running = None
        if not task.cancelled():
            task.exception()  # the waiting callers have received the exception

    def _is_expired(self) -> bool:
        return self._expiry is not None and self._clock.now() >= self._expiry

    async def _refresh(self) -> ClientIdentity:
        status = decode_exec_credential(await self._run(), self._spec.api_version)
        self._expiry = status.expiration_timestamp
        self._identity = ClientIdentity(
            status.token, status.client_certificate_data.encode(), status.client_key_data.encode()
        )
        return self._identity

    async def _run(self) -> bytes:
        spec = self._spec
        interactive = is_interactive(spec, sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty())
        environ = {**os.environ, **dict(spec.env), INFO_VARIABLE: exec_info(spec, interactive)}
        try:
            done = await run_command(
                (spec.command, *spec.args), stdin=None if interactive else DEVNULL, stderr=None, env=environ
            )
        except FileNotFoundError:
            hint = f"\n\n{spec.install_hint}" if spec.install_hint else ""
            raise CredentialError(f"getting credentials: exec: executable {spec.command} not found{hint}") from None
        except OSError as error:
            raise CredentialError(f"getting credentials: exec: {spec.command}: {error.strerror}") from None
        if done.exit_code:
            raise CredentialError(
                f"getting credentials: exec: executable {spec.command} failed with exit code {done.exit_code}"
            )
        return done.stdout


def is_interactive(spec: ExecConfig, terminal: bool) -> bool:
    """Return True if the program may use the terminal."""
    if spec.interactive_mode == "Always" and not terminal:
        raise CredentialError("exec plugin cannot support interactive mode: standard input is not a terminal")
    return spec.interactive_mode != "Never" and terminal


def exec_info(spec: ExecConfig, interactive: bool) -> str:
    """Return the value of KUBERNETES_EXEC_INFO for the program."""
    told: dict[str, object] = {"interactive": interactive}
    if spec.provide_cluster_info:
        told["cluster"] = spec.cluster_info
    document = {"kind": "ExecCredential", "apiVersion": spec.api_version, "spec": told}
    return msgspec.json.encode(document).decode()


def decode_exec_credential(output: bytes, api_version: str) -> _Status:
    """Decode the program's output, with client-go's checks."""
    try:
        found = msgspec.json.decode(output, type=_Credential)
    except msgspec.DecodeError as error:
        raise CredentialError(f"getting credentials: decoding stdout: {error}") from None
    if found.kind != "ExecCredential" or found.api_version != api_version:
        raise CredentialError(
            f"getting credentials: exec plugin is configured to use API version {api_version}, "
            f"plugin returned version {found.api_version or 'none'} of kind {found.kind or 'none'}"
        )
    status = found.status
    if status is None:
        raise CredentialError("getting credentials: exec plugin didn't return a status field")
    if not (status.token or status.client_certificate_data or status.client_key_data):
        raise CredentialError("getting credentials: exec plugin didn't return a token or cert/key pair")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialError("getting credentials: exec plugin returned only certificate or key, not both")
    return status
