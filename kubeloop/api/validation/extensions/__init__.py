"""Validation of API extensions: webhooks, admission policies, custom resource definitions, API services.

validation's table ──▶ webhooks, admission_policies ──▶ admission_matching, webhook_client ──▶ api.expressions
                   └─▶ custom_resources ──▶ custom_resource_names, custom_resource_schemas ──▶ api.structural
"""
