# SPDX-License-Identifier: Apache-2.0
"""Admission webhook server for operators.

API server ─▶ server.py: HTTPS, one path per hook ─▶ review.py: AdmissionReview in, decision and patch out
"""
