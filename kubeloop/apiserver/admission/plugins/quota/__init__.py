"""Quota plugins: LimitRanger and ResourceQuota.

limit_ranger ──▶ limit_constraints (min, max, ratio)
resource_quota ──▶ quota_ledger (current usage, and writes to ResourceQuota status)
"""
