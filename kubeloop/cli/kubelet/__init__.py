# SPDX-License-Identifier: Apache-2.0
"""`kubeloop kubelet` program.

flags.py ─▶ run.py ─▶ server.py: HTTPS ports; bootstrap.py, keys.py: certificate requests; certificates.py: rotation
"""
