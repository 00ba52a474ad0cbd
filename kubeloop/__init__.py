# SPDX-License-Identifier: Apache-2.0
"""kubeloop: Kubernetes' control plane in Python."""

__version__ = "0.1.0"

# Kubernetes release that defines our API, names and behavior.
KUBERNETES_VERSION = "1.37.0"
