# SPDX-License-Identifier: Apache-2.0
"""Scheduler: assigns pods to nodes with a queue, a cache of node arrays, and filter and score plugins.

informers ──▶ event handlers ──▶ queue (active, backoff, unschedulable) ──▶ cycle: filter, score, select ──▶ binding
        └──────────▶ cache: one row per node, updated incrementally ──▲ assumed pods

Nothing here imports numpy until there is a node: `cycle.algorithm` and the modules below it are loaded then.
"""
