"""What a client learns before its first request: version, groups, resources, verbs.

Two forms of the same facts: aggregated discovery (``apidiscovery.k8s.io/v2``, what kubectl asks for) and
the older lists of groups and resources.
"""

from __future__ import annotations

from typing import Any, Final

from baro.apiserver import reviews
from baro.apiserver.catalogue import SCALE, VERBS, Catalogue, Served
from baro.model.schema import Kind
from baro.model.validation.rules import parse

Body = dict[str, Any]

RELEASES: Final = {"1.34": "v1.34.4", "1.35": "v1.35.4", "1.36": "v1.36.3", "1.37": "v1.37.2"}
"""The Kubernetes releases whose answers this server imitates."""
_SUBRESOURCE_VERBS: Final = {"binding": ["create"], "finalize": ["update"]}
_SUBRESOURCE_KINDS: Final = {"binding": "Binding"}


def _subresource_kind(kind: Kind, name: str) -> tuple[str, str, str]:
    """Group, version and kind of what a subresource takes and gives."""
    if name == "scale":
        return SCALE.group, SCALE.version, SCALE.kind
    return kind.group, kind.version, _SUBRESOURCE_KINDS.get(name, kind.kind)


def version(kube_version: str) -> Body:
    """``/version``. The platform says plainly that no Kubernetes runs here."""
    major, minor = map(str, parse(kube_version))
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "gitVersion": RELEASES[kube_version],
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "python",
        "platform": "baro/embedded-simulated",
    }


def group_versions(catalogue: Catalogue) -> tuple[tuple[str, str], ...]:
    """(group, version) pairs of stored kinds and of reviews, preferred versions before others."""
    return (*catalogue.group_versions(), *reviews.group_versions())


def aggregated(catalogue: Catalogue, *, core: bool) -> Body:
    """``APIGroupDiscoveryList`` of ``/api`` (``core``) or ``/apis``."""
    groups: dict[str, list[str]] = {}
    for group, api in group_versions(catalogue):
        if (group == "") == core:
            groups.setdefault(group, []).append(api)
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": api,
                    "resources": [
                        *(_discovered(served) for served in catalogue.of_version(group, api)),
                        *(_discovered_review(review) for review in reviews.of_version(group, api)),
                    ],
                    "freshness": "Current",
                }
                for api in versions
            ],
        }
        for group, versions in groups.items()
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _discovered(served: Served) -> Body:
    kind = served.kind
    found: Body = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(VERBS),
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    if served.subresources:
        found["subresources"] = [
            {
                "subresource": name,
                "responseKind": dict(
                    zip(("group", "version", "kind"), _subresource_kind(kind, name), strict=True)
                ),
                "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
            }
            for name in served.subresources
        ]
    return found


def _discovered_review(review: reviews.Review) -> Body:
    return {
        "resource": review.plural,
        "responseKind": {"group": review.group, "version": review.version, "kind": review.kind},
        "scope": "Namespaced" if review.namespaced else "Cluster",
        "singularResource": review.kind.lower(),
        "verbs": ["create"],
    }


def api_versions(address: str) -> Body:
    """Legacy ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(catalogue: Catalogue) -> Body:
    """Legacy ``/apis``."""
    names = dict.fromkeys(group for group, _ in group_versions(catalogue) if group)
    groups = [api_group(catalogue, name) for name in names]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(catalogue: Catalogue, name: str) -> Body | None:
    """Legacy ``/apis/GROUP``; None for a group that is not served."""
    versions = [
        {"groupVersion": f"{group}/{api}", "version": api}
        for group, api in group_versions(catalogue)
        if group == name
    ]
    if not versions or not name:
        return None
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def _listed_subresource(kind: Kind, name: str) -> Body:
    group, version, shown = _subresource_kind(kind, name)
    entry: Body = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
    if (group, version) != (kind.group, kind.version):
        entry |= {"group": group, "version": version}
    return {**entry, "kind": shown, "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"])}


def resource_list(catalogue: Catalogue, group: str, api: str) -> Body | None:
    """Legacy ``/api/v1`` and ``/apis/GROUP/VERSION``; None for a version that is not served."""
    resources: list[Body] = []
    for served in catalogue.of_version(group, api):
        kind = served.kind
        entry: Body = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(VERBS),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        resources.append(entry)
        resources += [_listed_subresource(kind, name) for name in served.subresources]
    resources += [
        {
            "name": review.plural,
            "singularName": review.kind.lower(),
            "namespaced": review.namespaced,
            "kind": review.kind,
            "verbs": ["create"],
        }
        for review in reviews.of_version(group, api)
    ]
    if not resources:
        return None
    group_version = f"{group}/{api}" if group else api
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }
