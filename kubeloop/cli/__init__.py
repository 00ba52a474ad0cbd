# SPDX-License-Identifier: Apache-2.0
"""Command line programs: read flags, create keys and kubeconfigs, wire the components and run them.

main.py ─▶ up/: all in one process; apiserver/, controller_manager/, scheduler/, kubelet/: one component each
pki/: certificates and kubeconfig. program/: run until a signal, leader election. secure_port/: HTTPS status port.
flags/: flag types shared by programs. commands/: tools for a running cluster.
"""
