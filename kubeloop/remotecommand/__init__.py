# SPDX-License-Identifier: Apache-2.0
"""Client side of commands, attached streams and forwarded ports, for API servers and for kubelets.

upgrade_request ─▶ HTTP connection, upgraded ─▶ StreamSession: one SPDY stream for each standard stream or port
"""
