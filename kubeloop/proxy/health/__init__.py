# SPDX-License-Identifier: Apache-2.0
"""Health of the proxy (`/healthz`, `/livez`), and of Services at their health check node ports."""
