# SPDX-License-Identifier: Apache-2.0
"""Several API servers on one store: identity leases and the endpoints of the kubernetes Service.

server ──▶ register.register_server ──▶ IdentityLease (a Lease per server), endpoint_reconciler (shared stores only)
"""
