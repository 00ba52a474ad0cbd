"""Admission policies: expressions that people write about other people's writes, evaluated here.

policies, bindings ─▶ matching ─▶ params ─┬─ validating: decisions ─▶ Deny, Warn, Audit
                                          └─ mutating: patches, one after the other
"""
