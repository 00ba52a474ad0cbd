# SPDX-License-Identifier: Apache-2.0
"""ImagePolicyWebhook with a real webhook server on loopback."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubeloop.apiserver.admission.plugin_names import AdmissionConfigError, AdmissionOptions
from kubeloop.apiserver.admission.plugins.image_policy_webhook import ImagePolicyConfiguration
from tests.unit.apiserver.admission.hook_server import HookServer, make_pki
from tests.unit.apiserver.conftest import POD_SPEC, ManualClock
from tests.unit.apiserver.secured_api import SecuredApi, refused

PODS = "/api/v1/namespaces/shop/pods"
FAILED_OPEN = "alpha.image-policy.k8s.io/failed-open"
KUBECONFIG = """
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}/policy", certificate-authority: {ca}}}}}]
users: [{{name: u, user: {{token: secret}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


class ImagePolicyApi(SecuredApi):
    """A server with the plugin, and the webhook that it asks."""

    hooks: HookServer


@pytest.fixture
def policed(tmp_path):
    with asyncio.Runner() as runner:
        hooks = HookServer(make_pki(tmp_path))
        runner.run(hooks.start())

        def start(**settings):
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(KUBECONFIG.format(port=hooks.port, ca=hooks.pki.ca))
            file = tmp_path / "admission.yaml"
            policy = {"kubeConfigFile": str(kubeconfig), "retryBackoff": 1, **settings}
            file.write_text(json.dumps({"imagePolicy": policy}))
            options = AdmissionOptions(("ImagePolicyWebhook",), config_file=file)
            api = type("PolicedApi", (ImagePolicyApi,), {"admission_options": options, "hooks": hooks})(
                runner, ManualClock()
            )
            api.namespace("shop")
            return api

        yield start
        runner.run(hooks.stop())


def _says(api, *answers):
    """Let the webhook answer with these in turn, and then always with the last: a status, or code and text."""
    left = list(answers)

    def answer(_):
        said = left.pop(0) if len(left) > 1 else left[0]
        return said if isinstance(said, tuple) else (200, json.dumps({"status": said}).encode())

    api.hooks.behaviours["/policy"] = answer


def _pod(api, name="p", **metadata):
    return api.post(PODS, {"metadata": {"name": name, **metadata}, "spec": POD_SPEC})


def test_the_webhook_is_asked_about_the_images(policed):
    api = policed()
    _says(api, {"allowed": True, "auditAnnotations": {"who": "me"}})
    annotations = {"team.image-policy.k8s.io/ticket": "7", "other": "x"}
    assert _pod(api, annotations=annotations).status == 201
    (review,) = api.hooks.reviews
    assert review["apiVersion"] == "imagepolicy.k8s.io/v1alpha1"
    assert review["kind"] == "ImageReview"
    assert review["spec"] == {
        "containers": [{"image": POD_SPEC["containers"][0]["image"]}],
        "annotations": {"team.image-policy.k8s.io/ticket": "7"},
        "namespace": "shop",
    }
    assert "Authorization: Bearer secret" in api.hooks.heads[0]
    assert api.hooks.heads[0].startswith("POST /policy?timeout=30s ")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            {"allowed": False, "reason": "bad"},
            'pods "p" is forbidden: image policy webhook backend denied one or more images: bad',
        ),
        ({}, 'pods "p" is forbidden: one or more images rejected by webhook backend'),
    ],
)
def test_a_denied_image_is_refused(policed, status, message):
    api = policed()
    _says(api, status)
    assert refused(_pod(api)) == message


def test_answers_are_cached_until_they_expire(policed):
    api = policed(allowTTL=10, denyTTL=5)
    _says(api, {"allowed": True}, {"allowed": False}, {"allowed": True})
    assert [_pod(api, f"p{index}").status for index in range(2)] == [201, 201]
    api.clock.advance(10)
    assert [_pod(api, f"q{index}").status for index in range(2)] == [403, 403]
    api.clock.advance(5)
    assert _pod(api, "r").status == 201
    assert len(api.hooks.reviews) == 3


def test_a_failed_webhook_refuses_by_default(policed):
    api = policed()
    _says(api, (403, b"no"))
    assert refused(_pod(api)).startswith('pods "p" is forbidden: ')
    assert len(api.hooks.reviews) == 1


def test_a_failed_webhook_may_let_pods_in_and_marks_them(policed):
    api = policed(defaultAllow=True)
    _says(api, (403, b"no"))
    assert _pod(api).body["metadata"]["annotations"][FAILED_OPEN] == "true"
    assert api.get(f"{PODS}/p").body["metadata"]["annotations"][FAILED_OPEN] == "true"


def test_a_server_error_is_retried(policed):
    api = policed()
    _says(api, (500, b"later"), (429, b"later"), {"allowed": True})
    assert _pod(api).status == 201
    assert len(api.hooks.reviews) == 3


def test_retries_end(policed):
    api = policed()
    _says(api, (500, b"later"))
    assert _pod(api).status == 403
    assert len(api.hooks.reviews) == 5


def test_ephemeral_containers_are_reviewed_alone(policed):
    api = policed()
    _says(api, {"allowed": True})
    _pod(api)
    pod = api.get(f"{PODS}/p").body
    pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "tools"}]
    assert api.put(f"{PODS}/p/ephemeralcontainers", pod).status == 200
    assert api.hooks.reviews[-1]["spec"]["containers"] == [{"image": "tools"}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"allow_ttl": 1801}, "valid value is between 1s and 30m0s, got 30m1s"),
        ({"deny_ttl": -2}, "valid value is between 1s and 30m0s, got -2s"),
        ({"retry_backoff": 300001}, "valid value is between 1ns and 5m0s, got 5m0.001s"),
    ],
)
def test_a_duration_out_of_range_is_refused(settings, message):
    (name,) = settings
    with pytest.raises(AdmissionConfigError) as caught:
        ImagePolicyConfiguration(**settings).seconds(name)
    assert str(caught.value) == message


def test_durations_have_defaults_and_can_be_off():
    config = ImagePolicyConfiguration(allow_ttl=-1)
    assert [config.seconds(name) for name in ("retry_backoff", "allow_ttl", "deny_ttl")] == [0.5, 0.0, 30.0]


def test_a_kubeconfig_without_a_server_is_refused(policed, tmp_path):
    with pytest.raises(AdmissionConfigError, match=r'init admission plugin "ImagePolicyWebhook": stat '):
        policed(kubeConfigFile=str(tmp_path / "none"))
    (tmp_path / "empty").write_text("")
    with pytest.raises(AdmissionConfigError, match="invalid configuration: no configuration has been provided"):
        policed(kubeConfigFile=str(tmp_path / "empty"))
