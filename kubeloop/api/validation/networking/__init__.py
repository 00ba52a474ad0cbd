# SPDX-License-Identifier: Apache-2.0
"""Validation of services, endpoints, ingresses, network policies and service CIDRs.

validation's table ──▶ one module per kind; services ──▶ service_addresses
"""
