# SPDX-License-Identifier: Apache-2.0
"""Quota plugins: LimitRanger and ResourceQuota.

limit_ranger: defaults, and constraints (min, max, ratio)
resource_quota ──▶ quota_accessor (current usage, and writes to ResourceQuota status)
"""
