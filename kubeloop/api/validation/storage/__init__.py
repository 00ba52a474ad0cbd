# SPDX-License-Identifier: Apache-2.0
"""Validation of persistent volumes, claims, storage classes, CSI objects and volume attachments.

validation's table ──▶ one module per kind; claims and workloads ──▶ claim_spec; volumes ──▶ pods.volume_sources
"""
