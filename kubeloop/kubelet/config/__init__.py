# SPDX-License-Identifier: Apache-2.0
"""Pod sources other than the API server.

manifest folder ──▶ static_pods ──▶ mirror pods in the API ──▶ pod workers
"""
