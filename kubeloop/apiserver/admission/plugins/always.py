# SPDX-License-Identifier: Apache-2.0
"""AlwaysAdmit and AlwaysDeny: deprecated plugins that admit or deny every write."""

from __future__ import annotations

import logging
from typing import NoReturn

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Operation

log = logging.getLogger(__name__)

_DEPRECATED = (
    "%s admission controller is deprecated. Please remove this controller from your configuration files and scripts."
)


class AlwaysAdmitPlugin(AdmissionPlugin):
    """Admits every write, as if it were not there."""

    name = "AlwaysAdmit"

    def __init__(self) -> None:
        log.warning(_DEPRECATED, self.name)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return False: nothing is left to do."""
        return False


class AlwaysDenyPlugin(AdmissionPlugin):
    """Rejects every write that no other plugin has rejected."""

    name = "AlwaysDeny"

    def __init__(self) -> None:
        log.warning(_DEPRECATED, self.name)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for every write."""
        return True

    def admit(self, attempt: Attributes) -> NoReturn:
        """Reject the write."""
        raise attempt.forbidden("admission control is denying all modifications")
