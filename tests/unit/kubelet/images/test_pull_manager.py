# SPDX-License-Identifier: Apache-2.0
"""Image pull manager: which pods have access to a present image, and what is left when the kubelet is killed."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.clock import SystemClock
from kubeloop.kubelet.cri.messages.image import Image
from kubeloop.kubelet.images.pull_credentials import (
    MOST_MATCHED_SECRETS,
    PodPullCredentials,
    match_credentials,
    merge_credentials,
)
from kubeloop.kubelet.images.pull_manager import ImagePullManager
from kubeloop.kubelet.images.pull_policies import new_verification_policy
from kubeloop.kubelet.images.pull_records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
    PullRecords,
)

IMAGE, REF = "r.io/app:1", "sha256:id"
PRESENT = Image(id=REF, repo_tags=(IMAGE,))
ANYONE = ImagePullCredentials(node_pods_accessible=True)
ACCOUNT = ImagePullServiceAccount(uid="u", namespace="ns", name="sa")


def secret(name: str, hash: str, uid: str = "u", namespace: str = "ns") -> ImagePullSecret:
    return ImagePullSecret(uid=uid, namespace=namespace, name=name, credential_hash=hash)


def with_secrets(*secrets: ImagePullSecret) -> ImagePullCredentials:
    return ImagePullCredentials(kubernetes_secrets=secrets)


def new_manager(folder: Path, policy: str = "NeverVerifyPreloadedImages", *present: Image) -> ImagePullManager:
    """Start the manager as a kubelet does."""
    found = ImagePullManager(PullRecords(folder), new_verification_policy(policy, ()), SystemClock())
    found.open()
    if found.has_intents():
        found.resolve_intents(present)
    return found


def must_pull(manager: ImagePullManager, pod: PodPullCredentials | None = None, image: str = IMAGE) -> bool:
    async def read() -> PodPullCredentials:
        return pod or PodPullCredentials()

    return asyncio.run(manager.must_attempt_pull(image, REF, read))


def pull(manager: ImagePullManager, credentials: ImagePullCredentials, image: str = IMAGE) -> None:
    manager.record_intent(image)
    manager.record_pulled(image, REF, credentials)


def pod_with(*secrets: ImagePullSecret, account: ImagePullServiceAccount | None = None) -> PodPullCredentials:
    return PodPullCredentials(secrets, account)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("NeverVerify", False),
        ("NeverVerifyPreloadedImages", False),
        ("NeverVerifyAllowlistedImages", True),
        ("AlwaysVerify", True),
    ],
)
def test_an_image_that_the_kubelet_did_not_pull(tmp_path: Path, policy: str, expected: bool) -> None:
    assert must_pull(new_manager(tmp_path, policy)) is expected


def test_an_image_that_was_pulled_without_credentials_is_for_all_pods(tmp_path: Path) -> None:
    manager = new_manager(tmp_path, "AlwaysVerify")
    pull(manager, ANYONE)
    assert not must_pull(manager)
    assert must_pull(manager, image="other.io/app:1"), "access was shown for another name only"
    assert not must_pull(manager, image="r.io/app:2")


def test_pods_with_the_same_secret_or_equal_credentials_have_access(tmp_path: Path) -> None:
    manager = new_manager(tmp_path)
    pull(manager, with_secrets(secret("a", "h1")))
    assert must_pull(manager)
    assert must_pull(manager, pod_with(secret("b", "h2")))
    assert not must_pull(manager, pod_with(secret("a", "h1")))
    assert not must_pull(manager, pod_with(secret("b", "h1"))), "other secrets with equal credentials"
    assert not must_pull(manager, pod_with(secret("b", "h3"))), "the secret was recorded, and has changed"
    assert not must_pull(manager, pod_with(secret("c", "h3"))), "its new credentials were recorded, too"
    assert must_pull(manager, pod_with(secret("a", "h9", uid="other")))
    assert must_pull(manager, pod_with(secret("a", ""))) is False
    assert must_pull(new_manager(tmp_path), pod_with(secret("z", "")))


def test_an_empty_hash_matches_nothing(tmp_path: Path) -> None:
    manager = new_manager(tmp_path)
    pull(manager, with_secrets(secret("a", "")))
    assert must_pull(manager, pod_with(secret("b", "")))


def test_pods_of_the_same_service_account_have_access(tmp_path: Path) -> None:
    manager = new_manager(tmp_path)
    pull(manager, ImagePullCredentials(kubernetes_service_accounts=(ACCOUNT,)))
    other = ImagePullServiceAccount(uid="new", namespace="ns", name="sa")
    assert not must_pull(manager, pod_with(account=ACCOUNT))
    assert must_pull(manager, pod_with(account=other))
    assert must_pull(manager)
    pull(manager, ImagePullCredentials(kubernetes_service_accounts=(other,)))
    assert not must_pull(manager, pod_with(account=other))
    assert not must_pull(manager, pod_with(account=ACCOUNT))
    pull(manager, ANYONE)
    assert not must_pull(manager)


def test_records_survive_a_restart(tmp_path: Path) -> None:
    pull(new_manager(tmp_path), with_secrets(secret("a", "h1")))
    assert must_pull(new_manager(tmp_path))
    assert not must_pull(new_manager(tmp_path), pod_with(secret("a", "h1")))


def test_an_intent_counts_until_the_last_pull_ends(tmp_path: Path) -> None:
    manager = new_manager(tmp_path)
    manager.record_intent(IMAGE)
    manager.record_intent(IMAGE)
    manager.record_pull_failed(IMAGE)
    assert must_pull(manager), "a pull under way: the image is the kubelet's"
    assert must_pull(new_manager(tmp_path)), "for a kubelet that starts again, too"
    manager.record_pull_failed(IMAGE)
    assert not must_pull(manager), "no pull has succeeded: the image was preloaded"


def test_a_damaged_record_gives_no_access(tmp_path: Path) -> None:
    manager = new_manager(tmp_path)
    pull(manager, ANYONE)
    (file,) = (tmp_path / "image_manager/pulled").iterdir()
    file.write_text("{")
    assert must_pull(manager)
    pull(manager, ANYONE)
    assert not must_pull(manager)


def test_records_of_removed_images_are_removed(tmp_path: Path) -> None:
    manager = new_manager(tmp_path)
    pull(manager, ANYONE)
    now = SystemClock().now()
    manager.prune({REF}, now + timedelta(seconds=5))
    manager.prune((), now - timedelta(seconds=5))
    assert PullRecords(tmp_path).get_pulled(REF) is not None
    manager.prune((), now + timedelta(seconds=5))
    assert PullRecords(tmp_path).get_pulled(REF) is None


def run_and_kill(folder: Path, step: int) -> bool:
    """Pull an image with a secret in another process, which is killed at a step; returns True if it came to its end.

    Steps are the calls that change files.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    count = itertools.count()

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        changes = event in ("os.rename", "os.remove", "os.mkdir") or (event == "open" and arguments[2] != os.O_RDONLY)
        if changes and next(count) == step:
            os._exit(9)

    try:
        manager = new_manager(folder)
        sys.addaudithook(on_event)
        manager.record_intent(IMAGE)
        (folder / "pulled-by-runtime").touch()
        manager.record_pulled(IMAGE, REF, with_secrets(secret("a", "h1")))
    except BaseException:
        os._exit(1)
    os._exit(0)


def test_a_kubelet_that_is_killed_never_gives_access_to_all_pods(tmp_path: Path) -> None:
    outcomes = []
    for step in itertools.count():
        folder = tmp_path / str(step)
        is_done = run_and_kill(folder, step)
        is_present = (folder / "pulled-by-runtime").exists()
        manager = new_manager(folder, "NeverVerifyPreloadedImages", *((PRESENT,) if is_present else ()))
        if is_present:
            assert must_pull(manager), f"killed at step {step}"
            outcomes.append(must_pull(manager, pod_with(secret("a", "h1"))))
        if is_present or is_done:
            assert not PullRecords(folder).intents()
        assert run_and_kill(folder, -1)
        assert not must_pull(new_manager(folder), pod_with(secret("a", "h1"))), f"not pulled again after step {step}"
        if is_done:
            break
    assert outcomes[-1] is False
    assert True in outcomes, "killed between the pull and its record"


names = st.sampled_from(("a", "b", "c"))
hashes = st.sampled_from(("", "h1", "h2", "h3"))
secrets = st.builds(secret, names, hashes)
accounts = st.builds(lambda name: ImagePullServiceAccount(uid="u", namespace="ns", name=name), names)
pods = st.builds(PodPullCredentials, st.lists(secrets, max_size=3).map(tuple), st.none() | accounts)


@given(st.lists(st.one_of(secrets, accounts), min_size=1, max_size=8), pods)
def test_matching_and_merging(pulls: list[ImagePullSecret | ImagePullServiceAccount], pod: PodPullCredentials) -> None:
    record = ImagePulledRecord(image_ref=REF, last_updated_time="before")
    known: dict[str, str] = {}
    owners = set()
    for one in pulls:
        if isinstance(one, ImagePullSecret):
            new = with_secrets(one)
            known[one.name] = one.credential_hash
        else:
            new = ImagePullCredentials(kubernetes_service_accounts=(one,))
            owners.add(one.name)
        record = merge_credentials(record, "r.io/app", new, "now")
        assert merge_credentials(record, "r.io/app", new, "later") is record
    recorded = record.credential_mapping["r.io/app"]
    assert {one.name: one.credential_hash for one in recorded.kubernetes_secrets} == known
    assert list(recorded.kubernetes_secrets) == sorted(recorded.kubernetes_secrets, key=lambda one: one.name)
    assert [one.name for one in recorded.kubernetes_service_accounts] == sorted(owners)
    expected = any(
        one.name in known or (one.credential_hash and one.credential_hash in known.values()) for one in pod.secrets
    ) or (pod.service_account is not None and pod.service_account.name in owners)
    found = match_credentials(recorded, pod)
    assert found.is_found is bool(expected)
    if found.new_secret is not None:
        record = merge_credentials(record, "r.io/app", with_secrets(found.new_secret), "now")
        again = match_credentials(record.credential_mapping["r.io/app"], pod_with(found.new_secret))
        assert again.is_found


def test_records_do_not_grow_by_matches_without_bound() -> None:
    many = with_secrets(*(secret(f"s{at}", "h") for at in range(MOST_MATCHED_SECRETS)))
    assert match_credentials(many, pod_with(secret("new", "h"))) == (True, None)
    assert match_credentials(many, pod_with(secret("s1", "changed"))) == (False, None)
    fewer = with_secrets(*many.kubernetes_secrets[1:])
    assert match_credentials(fewer, pod_with(secret("new", "h"))) == (True, secret("new", "h"))
    assert match_credentials(fewer, pod_with(secret("s1", "changed"))) == (True, secret("s1", "changed"))
