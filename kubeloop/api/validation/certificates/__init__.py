# SPDX-License-Identifier: Apache-2.0
"""Validation of certificates.k8s.io: signing requests, pod certificate requests and cluster trust bundles.

validation's table ──▶ certificate_requests, pod_certificates, trust_bundles ──▶ pem, x509
"""
