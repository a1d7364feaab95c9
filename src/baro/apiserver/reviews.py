"""Reviews: may I do this, who am I? The answer is always yes, and the reason says why.

The server has no authentication and no authorization, so everybody is the same user and everything is
allowed. Reviews are answered and not stored.
Source: ``k8s.io/api/authorization/v1`` and ``authentication/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from baro.apiserver.status import bad_request

Body = dict[str, Any]

REASON: Final = "the embedded API server has no authentication and no authorization: everything is allowed"
USER: Final = "system:anonymous"
_GROUPS: Final = ["system:unauthenticated"]


class Review(msgspec.Struct, frozen=True):
    """A kind that can only be created, and is gone with the answer."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


REVIEWS: Final = (
    Review("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews"),
    Review(
        "authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True
    ),
    Review("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    Review("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    Review("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews"),
)


def find_review(path: str) -> Review | None:
    """The review that a URL's path is the collection of."""
    match path.strip("/").split("/"):
        case ["apis", group, version, plural]:
            named, namespaced = (group, version, plural), False
        case ["apis", group, version, "namespaces", _, plural]:
            named, namespaced = (group, version, plural), True
        case _:
            return None
    return next(
        (r for r in REVIEWS if (r.group, r.version, r.plural, r.namespaced) == (*named, namespaced)), None
    )


def group_versions() -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((review.group, review.version) for review in REVIEWS))


def of_version(group: str, version: str) -> tuple[Review, ...]:
    return tuple(review for review in REVIEWS if (review.group, review.version) == (group, version))


def answer(review: Review, body: Any) -> Body:
    """The review with its status. Raises 400 for a body of another kind."""
    if not isinstance(body, Mapping):
        raise bad_request(f"the object provided is unrecognized (must be of type {review.kind})")
    kind, version = body.get("kind", review.kind), body.get("apiVersion", review.api_version)
    if (version, kind) != (review.api_version, review.kind):
        raise bad_request(f"{kind} of {version} is no {review.kind} of {review.api_version}")
    answered: Body = {
        "kind": review.kind,
        "apiVersion": review.api_version,
        "metadata": body.get("metadata") or {},
    }
    if "spec" in body:
        answered["spec"] = body["spec"]
    return {**answered, "status": _status(review.kind)}


def _status(kind: str) -> Body:
    if kind == "SelfSubjectReview":
        return {"userInfo": {"username": USER, "groups": _GROUPS, "extra": {"reason": [REASON]}}}
    if kind == "SelfSubjectRulesReview":
        return {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    return {"allowed": True, "reason": REASON}
