# SPDX-License-Identifier: Apache-2.0
"""Client of a KMS plugin: unary gRPC calls over a Unix socket, on one connection that is opened as needed."""

from __future__ import annotations

import asyncio
from typing import Final

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
from kubeloop.grpc.hpack import block_of
from kubeloop.grpc.http2 import Http2Connection
from kubeloop.grpc.streams import RpcError

_SERVICE: Final = "/v2.KeyManagementService"


class KmsError(Exception):
    """Error for a call that the plugin did not answer, or refused."""


class KmsClient:
    """Client of one plugin; the path of an abstract socket begins with `@`."""

    def __init__(self, socket_path: str, seconds: float) -> None:
        self._path = f"\0{socket_path[1:]}" if socket_path.startswith("@") else socket_path
        self._seconds = seconds
        self._connection: Http2Connection | None = None

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
        if self._connection is not None:
            self._connection.close()
            await self._connection.wait_closed()

    async def _call(self, method: str, message: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                connection = await self._connected()
                return await connection.call(_headers(method), message)
        except RpcError as error:
            raise KmsError(f"rpc error: code = {error.code} desc = {error.details}") from None
        except TimeoutError:
            raise KmsError("rpc error: code = DeadlineExceeded desc = context deadline exceeded") from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise KmsError(f"rpc error: code = Unavailable desc = connection error: dial unix: {why}") from None

    async def _connected(self) -> Http2Connection:
        connection = self._connection
        if connection is None or not connection.is_usable:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_unix_connection(lambda: Http2Connection(self._seconds), self._path)
            self._connection = connection
        return connection


def _headers(method: str) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"{_SERVICE}/{method}",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "user-agent": "kubeloop",
        "te": "trailers",
    }
    return block_of(headers.items())


__all__ = ["InvalidMessage", "KmsClient", "KmsError"]
