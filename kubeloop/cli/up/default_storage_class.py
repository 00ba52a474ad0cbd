"""Optional default StorageClass of `kubeloop up`: directories on the nodes."""

from __future__ import annotations

from typing import Final

from kubeloop.api.errors import AlreadyExists
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client

NAME: Final = "standard"
PROVISIONER: Final = "kubeloop.io/host-path"  # answered by the loop that binds volumes
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


async def ensure_default_class(server: ApiServer) -> None:
    """Create the class, unless one of that name exists."""
    client = Client(
        InProcessTransport(server, User("system:kubeloop", ("system:masters", AUTHENTICATED))), user_agent="kubeloop"
    )
    made = StorageClass(
        metadata=ObjectMeta(name=NAME, annotations={_DEFAULT: "true"}),
        provisioner=PROVISIONER,
        reclaim_policy="Delete",
        volume_binding_mode="Immediate",
        allow_volume_expansion=True,
    )
    try:
        await client.create(made)
    except AlreadyExists:
        return
