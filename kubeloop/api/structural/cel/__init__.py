# SPDX-License-Identifier: Apache-2.0
"""Validation rules of custom resources in CEL.

declarations + expression_checks (when a CRD is written) ──▶ compiled_rules ──▶ rule_evaluation with values (per object)
"""
