# SPDX-License-Identifier: Apache-2.0
"""Error of a volume that cannot be set up."""

from __future__ import annotations

SET_UP_FAILED = "MountVolume.SetUp failed"


class PayloadError(Exception):
    """Raised if the contents of a volume are not available; the message is shown in an event."""

    volume = ""  # name of the volume, if it is known: of a persistent volume its own
    pod_volume = ""  # name of the volume in the pod

    def __init__(self, message: str, step: str = SET_UP_FAILED) -> None:
        super().__init__(message)
        self.step = step  # of the set-up, as upstream's operations name it

    def of_volume(self, name: str, pod_volume: str = "") -> PayloadError:
        """Return the error with the name of its volume, and that in the pod if it differs."""
        self.volume, self.pod_volume = name, pod_volume or name
        return self
