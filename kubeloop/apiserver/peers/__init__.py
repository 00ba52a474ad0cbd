"""Several API servers on one store: identity leases and the endpoints of the kubernetes Service.

server ──▶ register.announce ──▶ identity_lease (a Lease per server), endpoint_reconciler (shared stores only)
"""
