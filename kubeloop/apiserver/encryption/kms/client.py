# SPDX-License-Identifier: Apache-2.0
"""Client of a KMS plugin: unary gRPC calls over a Unix socket, on one connection that is opened as needed."""

from __future__ import annotations

from typing import Final, Protocol

from kubeloop.apiserver.encryption.kms.messages import (
    DataKeySource,
    EncryptResponse,
    InvalidMessage,
    StatusResponse,
    decode_decrypt_response,
    decode_encrypt_response,
    decode_status_response,
    encode_decrypt_request,
    encode_encrypt_request,
)
from kubeloop.clock import Clock
from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.streams import RpcError

_SERVICE: Final = "/v2.KeyManagementService"


class KmsError(Exception):
    """Error for a call that the plugin did not answer, or refused."""


class CallObserver(Protocol):
    """Observer of a plugin's calls."""

    def __call__(self, method: str, code: str, seconds: float) -> None:
        """Observe a call by its full method name, the name of its gRPC code, and its duration."""


class KmsClient:
    """Client of one plugin; the path of an abstract socket begins with `@`."""

    def __init__(self, socket_path: str, seconds: float, clock: Clock, observe: CallObserver) -> None:
        self._monotonic = clock.monotonic
        self._observe = observe
        self._channel = UnixChannel(socket_path)
        self._seconds = seconds

    async def status(self) -> StatusResponse:
        """Return health and key of the plugin; raises KmsError."""
        return decode_status_response(await self._call("Status", b""))

    async def encrypt(self, plaintext: bytes, uid: str) -> EncryptResponse:
        """Encrypt a seed; raises KmsError or InvalidMessage."""
        return decode_encrypt_response(await self._call("Encrypt", encode_encrypt_request(plaintext, uid)))

    async def decrypt(self, source: DataKeySource, uid: str) -> bytes:
        """Decrypt a seed or key; raises KmsError or InvalidMessage."""
        return decode_decrypt_response(await self._call("Decrypt", encode_decrypt_request(source, uid)))

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def _call(self, method: str, message: bytes) -> bytes:
        began, code, name = self._monotonic(), "OK", f"{_SERVICE}/{method}"
        try:
            return await self._channel.call(name, message, self._seconds)
        except RpcError as error:
            code = error.code_name
            raise KmsError(error.format()) from None
        finally:
            self._observe(name, code, self._monotonic() - began)


__all__ = ["InvalidMessage", "KmsClient", "KmsError"]
