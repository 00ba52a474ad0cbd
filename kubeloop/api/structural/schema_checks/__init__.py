# SPDX-License-Identifier: Apache-2.0
"""Checks of the OpenAPI schema in a CRD.

structural_schema runs keyword_checks and shape_checks, and checks defaults; openapi_refs resolves built-in definitions.
"""
