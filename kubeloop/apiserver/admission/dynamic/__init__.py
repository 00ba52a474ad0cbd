# SPDX-License-Identifier: Apache-2.0
"""Dynamic admission: the policies and webhooks that are configured in the API.

lazy (loads the rest once a configuration exists) ──▶ chain ──▶ policies (CEL expressions), webhooks (HTTPS calls)
both: match_rules (rules, selectors), expression_evaluator (match conditions), versioned_attributes (documents)
reinvocation decides about the second round of mutation; metrics counts and times all of them.
"""
