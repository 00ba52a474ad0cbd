# SPDX-License-Identifier: Apache-2.0
"""Builds the cloud controllers that the provider supports, and runs them under a manager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kubeloop.client import Client
from kubeloop.cloud import CloudControllerDescriptor
from kubeloop.cloud.context import CloudControllerContext, ControllerUnsupported
from kubeloop.runtime.app import App
from kubeloop.runtime.manager import Loop, LoopManager

COMPONENT = "cloud-controller-manager"

# Returns the client for a service account in kube-system.
Clients = Callable[[str], Client]

log = logging.getLogger(__name__)


def build_app(chosen: Sequence[CloudControllerDescriptor], context: CloudControllerContext, clients: Clients) -> App:
    """Build the selected controllers, as far as the provider supports them; the app closes the provider at its end."""
    loops = list(_wire_supported(chosen, context, clients))
    manager = LoopManager(loops, context.clock, name=COMPONENT, registry=context.telemetry.registry)
    return App(manager, context.informers, context.recorder, context.provider.close)


def _wire_supported(
    chosen: Sequence[CloudControllerDescriptor], context: CloudControllerContext, clients: Clients
) -> Iterator[Loop]:
    for one in chosen:
        try:
            yield one.wire()(replace(context, client=clients(one.account)))
        except ControllerUnsupported as error:
            log.info("%s does not run: %s", one.name, error)
