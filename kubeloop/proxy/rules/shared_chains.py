# SPDX-License-Identifier: Apache-2.0
"""Chains that ports with the same numbers of endpoints share: each looks up a random endpoint in a map. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.proxy.rules import names
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.statements import Match, Rule, Rules, Statement, from_pod, goto


class SharedChain(NamedTuple):
    """Chain for traffic to a number of endpoints on all nodes and on this node.

    An external chain decides on masquerading and on the list of endpoints; a plain chain has one list.
    """

    protocol: str
    clusters: int
    locals: int
    is_local: bool  # uses the endpoints on this node
    is_nodeport: bool
    is_external: bool

    @property
    def name(self) -> str:
        """Name of the chain, such as `endpoints-tcp-3` or `nodeport-external-local-tcp-3-1`."""
        before = "nodeport-" if self.is_nodeport else ""
        if not self.is_external:
            kind = f"local-endpoints-{self.protocol}" if self.is_local else f"endpoints-{self.protocol}"
            return f"{before}{kind}-{self.locals if self.is_local else self.clusters}"
        if self.is_local:
            return f"{before}external-local-{self.protocol}-{self.clusters}-{self.locals}"
        return f"{before}external-{self.protocol}-{self.clusters}"

    def uses(self) -> tuple[SharedChain, ...]:
        """Return the chains that this one continues in."""
        if not self.is_external:
            return ()
        cluster = plain_chain(self.protocol, self.clusters, is_nodeport=self.is_nodeport)
        if not self.is_local or not self.locals:
            return (cluster,)
        return (cluster, plain_chain(self.protocol, self.locals, is_local=True, is_nodeport=self.is_nodeport))

    def rules(self, settings: TableSettings) -> Rules:
        """Return the rules of the chain."""
        if self.is_external:
            targets = [one.name for one in self.uses()]
            return external_rules(targets[0], targets[1:], settings, is_local=self.is_local)
        count = self.locals if self.is_local else self.clusters
        return (Rule(Statement("dnat by map", self._map(), count), (Match("protocol", self.protocol),)),)

    def _map(self) -> str:
        if self.is_nodeport:
            kind = names.NODEPORT_LOCAL_ENDPOINTS if self.is_local else names.NODEPORT_ENDPOINTS
        else:
            kind = names.SERVICE_LOCAL_ENDPOINTS if self.is_local else names.SERVICE_ENDPOINTS
        return names.endpoint_map(kind, self.protocol)


def plain_chain(protocol: str, count: int, *, is_local: bool = False, is_nodeport: bool = False) -> SharedChain:
    """Return the chain that chooses one of a number of endpoints."""
    return SharedChain(protocol, 0 if is_local else count, count if is_local else 0, is_local, is_nodeport, False)


def external_chain(protocol: str, clusters: int, locals_: int, *, is_local: bool) -> SharedChain:
    """Return the chain for external traffic to the addresses of a port with these numbers of endpoints."""
    return SharedChain(protocol, clusters, locals_ if is_local else 0, is_local, False, True)


def external_rules(cluster: str, local: list[str], settings: TableSettings, *, is_local: bool) -> Rules:
    """Return the rules for external traffic: masquerade and go to all endpoints, or keep the source and stay local.

    Under the policy Local, pods and processes of this node reach all endpoints, as if they had left the cluster and
    come back through a load balancer.
    """
    mark = Statement("mark for masquerade", settings.masquerade_mark)
    if not is_local:
        return (Rule(mark, comment="masquerade"), goto(cluster))
    own = Match("source is local")
    detector = settings.detector
    pods = (goto(cluster, from_pod(detector), comment="short-circuit pod traffic"),) if detector.is_implemented else ()
    return (
        *pods,
        Rule(mark, (own,), "masquerade local traffic"),
        goto(cluster, own, comment="short-circuit local traffic"),
        *(goto(chain) for chain in local),
    )
