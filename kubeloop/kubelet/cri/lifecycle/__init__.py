# SPDX-License-Identifier: Apache-2.0
"""Actions in and around running containers: probes, lifecycle hooks, stops.

operations ─▶ hooks ─┬▶ http_action: requests to the pod
probers ─────────────┴▶ services: commands in the container
"""
