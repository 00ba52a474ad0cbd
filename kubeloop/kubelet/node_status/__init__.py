# SPDX-License-Identifier: Apache-2.0
"""Node objects, leases and conditions of the nodes that an agent serves.

heartbeat ──▶ registrar, registration (Node), status_reporter (conditions), lease_controller (Lease) ──▶ API server
    └─ on each beat ──▶ eviction manager, shutdown, status manager;  served_nodes reads states from annotations
"""
