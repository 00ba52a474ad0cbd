# SPDX-License-Identifier: Apache-2.0
"""AWS provider: nodes are EC2 instances, load balancers are NLBs, routes are entries of a VPC route table.

Needs boto3, which the extra `kubeloop[aws]` installs. Credentials are found by boto3.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop.cloud.aws.client import AwsClient
from kubeloop.cloud.aws.config_file import read_settings
from kubeloop.cloud.aws.instances import AwsInstances
from kubeloop.cloud.aws.load_balancers import AwsLoadBalancers
from kubeloop.cloud.aws.routes import AwsRoutes
from kubeloop.cloud.provider_registry import ProviderDependencies


@dataclass(frozen=True, slots=True)
class AwsCloud:
    """Provider for AWS."""

    instances: AwsInstances
    load_balancers: AwsLoadBalancers
    routes: AwsRoutes
    name: str = "aws"

    async def close(self) -> None:
        """Do nothing, since no resources are held here."""


def make(around: ProviderDependencies) -> AwsCloud:
    """Build the provider. Raises `InvalidProvider` without boto3, or for an invalid configuration file."""
    said = read_settings(around.config_file)
    aws = AwsClient(said)
    return AwsCloud(AwsInstances(aws), AwsLoadBalancers(aws, said), AwsRoutes(aws, said, around.informers))
