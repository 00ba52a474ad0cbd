# SPDX-License-Identifier: Apache-2.0
"""Feature gates and the set of resources that an API server serves.

--feature-gates ── gates.parse_feature_gates ──▶ Features ────────────┐
--runtime-config ── resource_config.parse_resource_config ──┴──▶ resources and features to serve
known_features and optional_resources are the tables behind them.
"""
