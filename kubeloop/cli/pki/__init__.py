# SPDX-License-Identifier: Apache-2.0
"""Certificates and kubeconfigs of the programs.

files.py: ensure_pki ─▶ issue.py: creates missing keys and certificates. kubeconfig.py: the administrator's kubeconfig
self_signed_certificate.py: certificate of a port that has none.
"""
