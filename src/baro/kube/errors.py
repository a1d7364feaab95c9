"""What an API server may answer instead of what was asked, as errors of baro's tree.

``ForbiddenError`` and ``UnreachableError`` live in ``baro.model.errors``; here are those that a caller
handles rather than shows: a conflict is planned again, a missing object is news, an expired
resourceVersion means a new list. Nothing of the HTTP library leaks out of this package.
"""

from __future__ import annotations

from baro.model.errors import BaroError, ForbiddenError, UnreachableError, Where


class ApiError(BaroError):
    """The server answered with a Status that is not success. ``code`` is HTTP's, ``reason`` Kubernetes'."""

    def __init__(
        self,
        what: str,
        *,
        code: int,
        reason: str = "",
        where: Where | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(what, where=where, next_step=next_step)
        self.code = code
        self.reason = reason


class NotFoundError(ApiError):
    """404: the object, or the whole resource, is not there."""


class ConflictError(ApiError):
    """409 Conflict: the object changed since it was read, or a precondition does not hold."""


class AlreadyExistsError(ApiError):
    """409 AlreadyExists: an object of that name is there."""


class InvalidError(ApiError):
    """422: the server's validation refuses the object."""


class GoneError(ApiError):
    """410: the resourceVersion or continue token is older than what the server remembers."""


class BusyError(UnreachableError):
    """429, or 5xx: the server is there but cannot serve now. ``retry_after`` in seconds when it said so."""

    def __init__(
        self,
        what: str,
        *,
        retry_after: float | None = None,
        where: Where | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(what, where=where, next_step=next_step)
        self.retry_after = retry_after


_BY_CODE: dict[int, type[ApiError]] = {404: NotFoundError, 410: GoneError, 422: InvalidError}


def from_status(
    *,
    code: int,
    reason: str,
    message: str,
    verb: str,
    resource: str,
    where: Where | None = None,
    retry_after: float | None = None,
) -> BaroError:
    """The error for a Status object. ``verb`` and ``resource`` are RBAC's words for the call, such as
    ``pods/status`` or ``resourceclaims.resource.k8s.io``.
    """
    if code in (401, 403):
        whole, _, part = resource.partition("/")
        return ForbiddenError(
            f"the server does not allow to {verb} {resource}: {message}",
            where=where,
            next_step=f"kubectl auth can-i {verb} {whole}{f' --subresource={part}' if part else ''}"
            if code == 403
            else "check the credentials of the kubeconfig",
        )
    if code == 429 or code >= 500:
        return BusyError(
            f"the server could not {verb} {resource} ({code} {reason}): {message}",
            retry_after=retry_after,
            where=where,
            next_step="try again; kubectl get --raw /readyz?verbose shows what ails the server",
        )
    if code == 409:
        kind = AlreadyExistsError if reason == "AlreadyExists" else ConflictError
        return kind(message, code=code, reason=reason, where=where)
    return _BY_CODE.get(code, ApiError)(message, code=code, reason=reason, where=where)
