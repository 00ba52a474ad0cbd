# SPDX-License-Identifier: Apache-2.0
"""Pod status: generated from observations and kept consistent on the API server.

pod_workers ──▶ generate (phase, conditions, container_status, final_status, resize_status)
            └─▶ status_manager ──▶ KubeletStatusPatch ──▶ API server
heartbeat ──▶ status_manager: marks pods whose status another client has changed, so that it is written again.
"""
