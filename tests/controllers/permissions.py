# SPDX-License-Identifier: Apache-2.0
"""Loops that run with the rights of the accounts that upstream's roles are for, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import Wire
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster

_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED)
_MANAGER = User("system:kube-controller-manager", (AUTHENTICATED,))


def start_as(cluster: Cluster, account: str, wire: Wire, **config: Any) -> Loop:
    """Start a loop in an account's name, or without one in the manager's; further arguments are what flags say."""
    user = User(f"system:serviceaccount:kube-system:{account}", _GROUPS) if account else _MANAGER
    client = Client(InProcessTransport(cluster.server, user))
    return cluster.start(wire(replace(cluster.context, client=client, config=ManagerConfig(**config))))
