"""kubeloop: Kubernetes' control plane in Python."""

__version__ = "0.1.0"

# The release whose API, names and behaviour we keep to.
KUBERNETES_VERSION = "1.37.0"
