# SPDX-License-Identifier: Apache-2.0
"""Explains for every node why a pod does not fit, and what would help.

cli why-pending ──▶ explain (runs every filter plugin) ──▶ remedies, claim_remedies (a line of advice per plugin)
"""
