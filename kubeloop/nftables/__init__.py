# SPDX-License-Identifier: Apache-2.0
"""nftables: scripts in nft's language, run as one transaction; independent of Kubernetes.

script: names and values ──▶ text ──▶ Nftables.run ──▶ libnftables in a worker thread, or `nft -f -`
"""

from kubeloop.nftables.interface import Nftables, NftablesError, NftablesNotFound, NftablesUnavailable

__all__ = ["Nftables", "NftablesError", "NftablesNotFound", "NftablesUnavailable"]
