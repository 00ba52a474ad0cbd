# SPDX-License-Identifier: Apache-2.0
"""Cluster zone: Services, EndpointSlices, Namespaces and Pods as prepared answers.

changed objects ──▶ ClusterZone.set_…/delete_… ──▶ flush ──▶ service_records (pure) ──▶ service_answers: encoded
question ──▶ answers[name, type, class], else ClusterZone.lookup: negative answers, pods, external names
authority.py: SOA, NS, version of the schema. reverse_index.py: PTR records. pods.py: pods by address.
"""
