"""Feature gates and the set of resources that an API server serves.

--feature-gates ── gates.read_features ──▶ Features ─┐
--runtime-config ── resource_config.read_choice ─────┴──▶ resources and features to serve
known_features and optional_resources are the tables behind them.
"""
