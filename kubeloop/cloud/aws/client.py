# SPDX-License-Identifier: Apache-2.0
"""Asynchronous calls of AWS APIs; boto3 blocks, so each call runs in a thread."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from kubeloop.cloud.aws.config_file import AwsSettings
from kubeloop.cloud.provider import CloudError
from kubeloop.cloud.provider_registry import InvalidProvider

SECONDS = 20.0  # timeout of one attempt


class AwsError(CloudError):
    """Error response of AWS, with its error code."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class AwsClient:
    """AWS services in use."""

    def __init__(self, said: AwsSettings) -> None:
        try:
            import boto3
            import botocore.config
            import botocore.exceptions
        except ImportError:
            raise InvalidProvider("boto3 is not installed: pip install 'kubeloop[aws]'") from None
        self._refused = botocore.exceptions.ClientError
        self._failed = botocore.exceptions.BotoCoreError
        patience = botocore.config.Config(connect_timeout=SECONDS, read_timeout=SECONDS)
        about = {"region_name": said.region or None, "endpoint_url": said.endpoint_url or None, "config": patience}
        try:
            session = boto3.session.Session()
            self._ec2 = session.client("ec2", **about)
            self._elb = session.client("elbv2", **about)
        except self._failed as error:
            raise InvalidProvider(str(error)) from None

    async def ec2(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Call an EC2 operation."""
        return await self._call(self._ec2, operation, arguments)

    async def elb(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Call an ELBv2 operation."""
        return await self._call(self._elb, operation, arguments)

    async def ec2_pages(self, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Call an EC2 operation and return the items of all pages."""
        return await asyncio.to_thread(self._pages, self._ec2, operation, key, arguments)

    async def elb_pages(self, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Call an ELBv2 operation and return the items of all pages."""
        return await asyncio.to_thread(self._pages, self._elb, operation, key, arguments)

    async def _call(self, client: Any, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(self._checked, partial(getattr(client, operation), **arguments))

    def _pages(self, client: Any, operation: str, key: str, arguments: dict[str, Any]) -> list[Any]:
        def collected() -> list[Any]:
            return [one for page in client.get_paginator(operation).paginate(**arguments) for one in page[key]]

        found: list[Any] = self._checked(collected)
        return found

    def _checked(self, call: Any) -> Any:
        try:
            return call()
        except self._refused as error:
            told = error.response.get("Error", {})
            raise AwsError(str(error), str(told.get("Code", ""))) from error
        except self._failed as error:
            raise AwsError(str(error), "") from error
