# SPDX-License-Identifier: Apache-2.0
"""Client configuration: finds the server and the credentials.

load_config (server_config.py) ─▶ kubeconfig.py or the pod's service account ─▶ ServerConfig
ServerConfig ─▶ credentials_of (credentials.py) ─▶ fixed token, token file, or exec_plugin.py ─▶ Identity per request
"""
