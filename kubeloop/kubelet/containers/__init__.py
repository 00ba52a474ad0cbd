# SPDX-License-Identifier: Apache-2.0
"""Container details: environment, image pulls and probes.

sync.pod_syncer ──▶ env_sources (ConfigMaps, Secrets) ──▶ Runtime.start ──▶ environment
sync.decide ──▶ probes (due probes, results), image_pulls (back-off)
"""
