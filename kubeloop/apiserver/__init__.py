# SPDX-License-Identifier: Apache-2.0
"""Kubernetes API server: the only component that reads and writes the store.

http ──▶ app: authenticate, authorize ──▶ handlers (one per verb) ──▶ registry: admission, validation ──▶ store
  ▲                                          │ registry.serializer: stored bytes + revision            │ events
  └── responses, streams ◀───────────────────┴──────────── watch.hub: one frame for all watchers ◀─────┘
"""
