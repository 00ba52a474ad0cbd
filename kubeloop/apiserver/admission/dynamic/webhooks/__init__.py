# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks: HTTPS calls to external servers before a write is stored.

configurations ─▶ hooks, in order ─▶ match_rules (rules, selectors, conditions) ─┬─ mutating: sequential, patches
                                                                                 └─ validating: concurrent
each call: review (AdmissionReview request and response) ─▶ calling (failures and their error messages)
"""
