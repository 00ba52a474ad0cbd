# SPDX-License-Identifier: Apache-2.0
"""CRI messages of commands, attaching and port forwarding."""

from __future__ import annotations

from typing import Annotated

from kubeloop.grpc.message import GrpcMessage


class ExecSyncRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ExecSync."""

    container_id: Annotated[str, 1] = ""
    cmd: Annotated[tuple[str, ...], 2] = ()
    timeout: Annotated[int, 3] = 0


class ExecSyncResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ExecSync."""

    stdout: Annotated[bytes, 1] = b""
    stderr: Annotated[bytes, 2] = b""
    exit_code: Annotated[int, 3] = 0


class ExecRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of Exec."""

    container_id: Annotated[str, 1] = ""
    cmd: Annotated[tuple[str, ...], 2] = ()
    tty: Annotated[bool, 3] = False
    stdin: Annotated[bool, 4] = False
    stdout: Annotated[bool, 5] = False
    stderr: Annotated[bool, 6] = False


class ExecResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of Exec."""

    url: Annotated[str, 1] = ""


class AttachRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of Attach."""

    container_id: Annotated[str, 1] = ""
    stdin: Annotated[bool, 2] = False
    tty: Annotated[bool, 3] = False
    stdout: Annotated[bool, 4] = False
    stderr: Annotated[bool, 5] = False


class AttachResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of Attach."""

    url: Annotated[str, 1] = ""


class PortForwardRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of PortForward."""

    pod_sandbox_id: Annotated[str, 1] = ""
    port: Annotated[tuple[int, ...], 2] = ()


class PortForwardResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of PortForward."""

    url: Annotated[str, 1] = ""
