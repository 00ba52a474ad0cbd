"""Pod status: generated from observations and kept consistent on the API server.

pod_worker ──▶ generate (phase, conditions, container_status, final_status, resize_status) ──▶ patch ──▶ API server
heartbeat ──▶ reconciler: marks pods whose status another client has changed, so that it is written again.
"""
