# SPDX-License-Identifier: Apache-2.0
"""Messages of the service `pluginregistration.Registration`, which plugins serve at their registration socket."""

from __future__ import annotations

from typing import Annotated

from kubeloop.grpc.message import GrpcMessage

GET_INFO = "/pluginregistration.Registration/GetInfo"
NOTIFY_REGISTRATION_STATUS = "/pluginregistration.Registration/NotifyRegistrationStatus"


class InfoRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of GetInfo."""


class PluginInfo(GrpcMessage, frozen=True, kw_only=True):
    """Description of a plugin; an empty endpoint is the registration socket."""

    type: Annotated[str, 1] = ""
    name: Annotated[str, 2] = ""
    endpoint: Annotated[str, 3] = ""
    supported_versions: Annotated[tuple[str, ...], 4] = ()


class RegistrationStatus(GrpcMessage, frozen=True, kw_only=True):
    """Result of a registration."""

    plugin_registered: Annotated[bool, 1] = False
    error: Annotated[str, 2] = ""


class RegistrationStatusResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of NotifyRegistrationStatus."""
