# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation: prepares the resource claims of pods by the DRA drivers of a real node.

plugin manager ─▶ plugin_manager: drivers ─ plugin: gRPC ─ slice_wiper: ResourceSlices of drivers that are gone
pod ─▶ manager ─▶ pod_claims: resolve, check ─ claim_info_cache: checkpoint ─▶ plugin ─▶ CDI devices of containers
drivers ─▶ health_watch ─ health_info: health of devices ─▶ resource_status: allocatedResourcesStatus
"""
