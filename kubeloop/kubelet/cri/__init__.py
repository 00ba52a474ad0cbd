# SPDX-License-Identifier: Apache-2.0
"""Real containers: the kubelet's runtime over CRI v1 (containerd, CRI-O).

pod workers ─▶ runtime.CriRuntime ─▶ services: RuntimeService, ImageService ─▶ grpc.UnixChannel ─▶ the runtime's socket
"""
