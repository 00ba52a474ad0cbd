"""Amazon's cloud: nodes are EC2 instances, load balancers ELBv2's network ones, routes those of a VPC's table.

Needs boto3, which the extra `kubeloop[aws]` installs. Credentials come the way boto3 finds them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop.cloud.aws.calls import Aws
from kubeloop.cloud.aws.file import read
from kubeloop.cloud.aws.instances import AwsInstances
from kubeloop.cloud.aws.load_balancers import AwsBalancers
from kubeloop.cloud.aws.routes import AwsRoutes
from kubeloop.cloud.provider_registry import Surroundings


@dataclass(frozen=True, slots=True)
class AwsCloud:
    instances: AwsInstances
    load_balancers: AwsBalancers
    routes: AwsRoutes
    name: str = "aws"

    async def close(self) -> None:
        """Everything is Amazon's; nothing is held here."""


def make(around: Surroundings) -> AwsCloud:
    """Raises `UnusableProvider` without boto3, or for a file that says nothing usable."""
    said = read(around.config_file)
    aws = Aws(said)
    return AwsCloud(AwsInstances(aws), AwsBalancers(aws, said), AwsRoutes(aws, said, around.informers))
