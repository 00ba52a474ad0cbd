# SPDX-License-Identifier: Apache-2.0
"""Watches: delivers store events to watchers.

store ── events ──▶ hub.Hub (one per stored resource) ──▶ watchers: HTTP streams, or in-process informers
"""
