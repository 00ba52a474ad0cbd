# SPDX-License-Identifier: Apache-2.0
"""Pod CIDRs by BGP: BIRD 2 with a generated configuration.

nodes, peers.py: file ──▶ bird_config.py (pure) ──▶ bird.py: checks, writes and loads it ──▶ BIRD, which outlives us
"""
