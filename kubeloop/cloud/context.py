# SPDX-License-Identifier: Apache-2.0
"""Dependencies of one cloud controller, passed to its `wire` function by the program that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubeloop.cloud.config import CloudConfig
from kubeloop.cloud.provider import CloudProvider
from kubeloop.runtime.app import LoopContext
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.manager import Loop


@dataclass(frozen=True, slots=True)
class CloudControllerContext(LoopContext):
    """Dependencies of a cloud controller."""

    recorder: EventRecorder
    provider: CloudProvider
    config: CloudConfig = field(default_factory=CloudConfig)


class ControllerUnsupported(Exception):
    """Raised if a controller cannot run: the cloud lacks a feature, or flags disable it."""


# Every controller module has such a function named `wire`. Raises `ControllerUnsupported`.
Wire = Callable[[CloudControllerContext], Loop]
