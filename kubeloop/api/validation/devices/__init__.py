# SPDX-License-Identifier: Apache-2.0
"""Validation of resource.k8s.io: claims, slices, taint rules and pool status requests.

validation's table ──▶ claims, claim_status, slices, taint_rules, pool_status_requests ──▶ parts, requests
"""
