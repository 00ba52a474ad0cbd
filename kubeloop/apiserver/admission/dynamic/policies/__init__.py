# SPDX-License-Identifier: Apache-2.0
"""Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, evaluated in process.

policies, bindings ─▶ match_rules ─▶ params ─┬─ validating: decisions ─▶ Deny, Warn, Audit
                                             └─ mutating: patches, one after the other
"""
