# SPDX-License-Identifier: Apache-2.0
"""Code that the Endpoints and EndpointSlice controllers share: pod selection, addresses and ports, written slices.

pod event ─▶ selection: Services that select it ─▶ sync_pacer: delay ─▶ work queue ─▶ controller
controller ─▶ pod_endpoints: addresses and ports ─▶ slices ─▶ slice_tracker: versions that the cache must reach
"""
