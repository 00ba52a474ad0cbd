# SPDX-License-Identifier: Apache-2.0
"""Runs a credential provider plugin: a request on its standard input, the response on its standard output."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from kubeloop.exec import run_command
from kubeloop.kubelet.credentialprovider.docker_config import DockerConfig, DockerConfigEntry
from kubeloop.kubelet.credentialprovider.provider_config import CredentialProvider
from kubeloop.runtime.component_config import ConfigDuration, decode_duration

_PLUGIN_SECONDS = 60.0


class PluginError(Exception):
    """Raised for a plugin that has no usable response. Messages have no credentials."""


@dataclass(frozen=True, slots=True)
class PluginRequest:
    """Image that credentials are wanted for, and the service account of its pod for plugins that ask for it."""

    image: str
    token: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PluginResponse:
    """Credentials by registry, and how they are cached; the duration is None for the default of the plugin."""

    config: DockerConfig
    cache_key_type: str
    cache_seconds: float | None = None


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    kind: str
    api_version: str


class _Request(_Message, frozen=True, kw_only=True, omit_defaults=True):
    image: str
    service_account_token: str = ""
    service_account_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)


class _Auth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    username: str = ""
    password: str = ""


class _Response(_Message, frozen=True, kw_only=True):
    kind: Literal["CredentialProviderResponse"]
    cache_key_type: str = ""
    cache_duration: ConfigDuration | None = None
    auth: Mapping[str, _Auth] | None = None


class _ResponseType(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""


class ExecPlugin:
    """Program of a plugin in the folder of plugins; it has a minute for each request."""

    def __init__(self, provider: CredentialProvider, folder: Path, seconds: float = _PLUGIN_SECONDS) -> None:
        self._provider = provider
        self._program = folder / provider.name
        self._seconds = seconds

    async def run(self, request: PluginRequest) -> PluginResponse:
        """Return the response of the plugin. Raises `PluginError`."""
        sent = _Request(
            kind="CredentialProviderRequest",
            api_version=self._provider.api_version,
            image=request.image,
            service_account_token=request.token,
            service_account_annotations=request.annotations,
        )
        return self._decode(await self._execute(msgspec.json.encode(sent) + b"\n", request.image))

    async def _execute(self, content: bytes, image: str) -> bytes:
        failure = f"error execing credential provider plugin {self._provider.name} for image {image}"
        environment = {**os.environ, **{one.name: one.value for one in self._provider.env}}
        command = (str(self._program), *self._provider.args)
        try:
            done = await run_command(command, stdin=content, env=environment, seconds=self._seconds)
        except TimeoutError:
            raise PluginError(f"{failure}: context deadline exceeded: ") from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise PluginError(f"{failure}: fork/exec {self._program}: {why}: ") from None
        if code := done.exit_code:
            how = f"exit status {code}" if code > 0 else f"signal: {signal.strsignal(-code) or -code}".lower()
            raise PluginError(f"{failure}: {how}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def _decode(self, output: bytes) -> PluginResponse:
        try:
            about = msgspec.json.decode(output, type=_ResponseType)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise PluginError("error reading GVK from response: couldn't get version/kind") from None
        if about.api_version != (expected := self._provider.api_version):
            raise PluginError(
                "apiVersion from credential plugin response did not match expected "
                f"apiVersion:{expected}, actual apiVersion:{about.api_version}"
            )
        try:
            found = msgspec.json.decode(output, type=_Response, dec_hook=decode_duration)
        except (msgspec.MsgspecError, ValueError):  # whose message may have credentials
            raise PluginError("error decoding credential provider plugin response from stdout") from None
        entries = {name: DockerConfigEntry(one.username, one.password) for name, one in (found.auth or {}).items()}
        return PluginResponse(entries, found.cache_key_type, found.cache_duration)
