# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation: devices of ResourceSlices for the ResourceClaims of pods.

plugins.dynamic_resources ──▶ pod_claims, extended_resources ──▶ search ──▶ allocator (inventory, selectors,
    capacity, compatibility)
    └─▶ allocation_result ──▶ claim_writes ──▶ wait (binding_conditions)
allocated tracks the devices in use; claim_attempt is the state of one attempt; metrics counts.
"""
