"""Validation of services, endpoints, ingresses, network policies and service CIDRs.

validation's table ──▶ one module per kind; services ──▶ service_addresses
"""
