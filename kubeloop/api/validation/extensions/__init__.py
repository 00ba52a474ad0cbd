# SPDX-License-Identifier: Apache-2.0
"""Validation of API extensions: webhooks, admission policies, custom resource definitions, API services.

validation's table ──▶ webhooks, admission_policies ──▶ match_resources, webhook_client ──▶ api.expressions
                   └─▶ custom_resources ──▶ custom_resource_schemas ──▶ api.structural
"""
