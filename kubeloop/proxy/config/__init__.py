# SPDX-License-Identifier: Apache-2.0
"""KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1: fields, defaults, decoding and validation."""
