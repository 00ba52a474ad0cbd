"""Node objects, leases and conditions of the nodes that an agent serves.

heartbeat ──▶ registration (Node, conditions), lease_patch (Lease) ──▶ API server
    └─ on each beat ──▶ eviction manager, shutdown, status reconciler;  served_nodes reads states from annotations
"""
