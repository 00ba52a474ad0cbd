# SPDX-License-Identifier: Apache-2.0
"""Scheduler cache: nodes as arrays with one row per node, the pods on them, and derived facts about pods.

informers ──▶ event_handlers ──▶ cluster (labels, resources, ports, images, counts), assumed_pods ──▶ cycle, plugins
                   └─▶ queue          pod_info derives a pod's requests, ports, terms once per pod signature
"""
