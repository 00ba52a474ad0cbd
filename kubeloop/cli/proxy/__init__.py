# SPDX-License-Identifier: Apache-2.0
"""`kubeloop proxy`: the service proxy with kube-proxy's flags and configuration."""
