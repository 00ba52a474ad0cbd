# SPDX-License-Identifier: Apache-2.0
"""Code that the CertificateSigningRequest controllers share.

CSR (PEM) ─▶ requested: subject and names ─▶ rules of the requested signer ─▶ authority: signed certificate
conditions ─▶ decisions: approved?  ─────────┘
"""
