"""What a command that somebody runs in a simulated container answers. Pure."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.node_calls import ExecResult
from kubeloop.node.environment import environment_of
from kubeloop.node.simulated.shell import course_of
from kubeloop.node.spec import container_named


def executed(pod: Pod, container: str, command: tuple[str, ...], stdin: bytes) -> ExecResult:
    """Its output and exit code; what nobody understands says so, as a shell would."""
    name = command[0].rpartition("/")[2] if command else ""
    if name in ("env", "printenv"):
        return ExecResult(_environment(pod, container))
    if name == "hostname":
        return ExecResult(f"{pod.spec.hostname or pod.metadata.name}\n".encode())
    if name == "cat" and len(command) == 1:
        return ExecResult(stdin)
    course = course_of(command)
    output = "".join(f"{text}\n" for _, text in course.lines).encode()
    if course.seconds is None and not output:
        return ExecResult(stderr=f"{name}: not found in a simulated container\n".encode(), exit_code=127)
    return ExecResult(output, exit_code=course.exit_code)


def _environment(pod: Pod, container: str) -> bytes:
    found = container_named(pod, container)
    values = environment_of(pod, found) if found is not None else {}
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()
