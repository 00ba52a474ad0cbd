"""Who may do what. Until roles are served, administrators may do everything and others nothing.

What upstream lets everybody see without asking who they are (health and version) is open here too.
"""

from __future__ import annotations

from kubeloop.api import errors
from kubeloop.apiserver.context import User
from kubeloop.apiserver.routing import Target

ADMINISTRATORS = "system:masters"
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")


def authorize_path(user: User, method: str, path: str) -> None:
    """A request for something that isn't a resource; raises Forbidden."""
    if ADMINISTRATORS in user.groups:
        return
    if method in ("GET", "HEAD") and any(path == public or path.startswith(public + "/") for public in _PUBLIC):
        return
    raise errors.forbidden("", "", "", f'User "{user.name}" cannot {method.lower()} path "{path}"')


def authorize_target(user: User, target: Target, verb: str) -> None:
    """A request for a resource; raises Forbidden."""
    if ADMINISTRATORS in user.groups:
        return
    resource = target.resource
    what = resource.plural + (f"/{target.subresource}" if target.subresource else "")
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = f'User "{user.name}" cannot {verb} resource "{what}" in API group "{resource.group}" {where}'
    raise errors.forbidden(resource.group, resource.plural, target.name, why)
