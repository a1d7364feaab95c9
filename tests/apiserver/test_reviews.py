"""Access reviews: always allowed, and the answer says that nobody is checked."""

from __future__ import annotations

import pytest

from baro.apiserver.reviews import REASON, REVIEWS
from tests.support.apiserver import Api

ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_access_is_allowed_and_the_reason_says_why() -> None:
    spec = {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    result = Api().post(ACCESS, {**kind, "spec": spec})
    assert (result.code, result.body["spec"]) == (201, spec)
    assert result.body["status"] == {"allowed": True, "reason": REASON}


@pytest.mark.parametrize("review", REVIEWS, ids=lambda review: review.kind)
def test_every_review_is_in_discovery_and_can_be_created(review: object) -> None:
    api = Api()
    found = next(one for one in REVIEWS if one is review)
    listed = api.get(f"/apis/{found.api_version}").body["resources"]
    assert [entry["verbs"] for entry in listed if entry["name"] == found.plural] == [["create"]]
    place = "/namespaces/default" if found.namespaced else ""
    result = api.post(f"/apis/{found.api_version}{place}/{found.plural}", {"kind": found.kind})
    assert (result.code, result.body["kind"]) == (201, found.kind)


def test_reviews_are_not_stored_and_refuse_other_kinds() -> None:
    api = Api()
    assert api.get(ACCESS).code == 405
    assert api.post(ACCESS, {"kind": "Pod", "apiVersion": "v1"}).code == 400
    assert api.call("POST", ACCESS, b"[]").code == 400
