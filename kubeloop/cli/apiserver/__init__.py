# SPDX-License-Identifier: Apache-2.0
"""`kubeloop apiserver` program.

flags.py (unsupported_flags.py: rejected flags) ─▶ run.py: ApiServerConfig ─▶ start_server
kubelet_client.py: access to nodes; webhook_kubeconfig.py: servers and users of webhooks
"""
