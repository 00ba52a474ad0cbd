# SPDX-License-Identifier: Apache-2.0
"""Cluster DNS: Kubernetes' DNS-based service discovery 1.1.0, with CoreDNS's behaviour.

Services, EndpointSlices, Namespaces ── zone_informers.py ──▶ zone/: answers, encoded when objects change
client ── UDP, TCP (listeners.py) ──▶ server/ ──┬──▶ zone/            names of the cluster
                                                └──▶ forward/         all other names: upstream resolvers, cache
cluster_dns.py wires these parts. kube_dns_service.py, kube_dns_controller.py: the Service kube-dns.
"""
