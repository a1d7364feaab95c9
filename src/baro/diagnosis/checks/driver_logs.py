"""Check *DRA broken*, part seven: what drivers' own logs say when the API server does not take their slices.

Such a driver is Running and Ready, and retries for ever; only its log tells. The API server's words are kept,
what they mean is told by what else is known (served versions), not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.logs import at, matching
from baro.diagnosis.checks.problem import Problem, on_node, problem
from baro.diagnosis.checks.registrars import logs_of

NAME = "dra"
GROUP = "resource.k8s.io"
_WIDTH = 300
"""Characters of a line that are shown: the API server's reasons come late in it."""
_KINDS = "ResourceSlice|ResourceClaimTemplate|ResourceClaim|DeviceClass|DeviceTaintRule"
_UNSERVED = re.compile(
    rf"failed to (?:list|watch) \*(v\d+\w*)\.({_KINDS})\b.*could not find the requested resource"
    rf'|no matches for kind \\?"({_KINDS})\\?" in (?:version|group) \\?"{re.escape(GROUP)}/(v\d+\w*)\\?"'
)
_REFUSED = re.compile(r'ResourceSlice(?:\.resource\.k8s\.io)? \\?"([^"\\ ]*)\\?" is invalid: (.+)')
_DROPPED = re.compile(
    r"fields were dropped by the apiserver.*features are disabled: ([A-Z]\w+(?:,? ?[A-Z]\w+)*)"
)
_FORBIDDEN = re.compile(
    r'resource\w+\.resource\.k8s\.io(?: \\?"[^"\\]*\\?")? is forbidden: User \\?"([^"\\]+)\\?" cannot (\w+)'
    r' resource \\?"([\w/]+)\\?"'
)
_POLICY = re.compile(
    r"resource\w+\.resource\.k8s\.io(?: \\?\"[^\"\\]*\\?\")? is forbidden: "
    r"ValidatingAdmissionPolicy '([^']+)'.*denied request: ([^\"]+)"
)
_SOCKET = re.compile(
    r"(?:listen|dial) unix (/\S+?/(?:plugins_registry/\S+?|device-plugins/kubelet)\.sock):"
    r" (?:bind|connect): no such file or directory"
)
_TAIL = re.compile(r'"?\s+(?:logger|poolName|slice|driver|node|requeue)=.*$|\\?"?\}?\s*$')


def check(board: Board) -> Iterator[Problem]:
    """One problem for each cause and driver's log."""
    told: set[tuple[str, str, str]] = set()
    for make in (_unserved, _refused, _dropped, _forbidden, _policy, _socket):
        for item in make(board):
            key = (item.code, item.subject, item.message)
            if key not in told:
                told.add(key)
                yield item


def _unserved(board: Board) -> Iterator[Problem]:
    """A client asks for a version that the server does not serve (any more, or yet)."""
    served = board.evidence.served.get(GROUP, ())
    words = ("could not find the requested resource", "no matches for kind")
    for line, match in matching(board.evidence, _UNSERVED, *words):
        version, kind = match[1] or match[4], match[2] or match[3]
        if version in served:
            continue  # served by now: the line is of before
        yield problem(
            NAME,
            "api-version-not-served",
            f"{at(line.node)}a driver asks for {kind} of {GROUP}/{version}, which the server does not serve"
            + (f" (it serves {', '.join(served)})" if served else ""),
            subject=line.subject,
            node=line.node,
            evidence=(line.excerpt(_WIDTH),),
            next=(f"kubectl get --raw /apis/{GROUP}", "kubectl get resourceslices"),
            remedy="Upgrade the driver to one that uses resource.k8s.io/v1, or serve the old version for"
            f" a while: --runtime-config={GROUP}/{version}=true on the API server.",
            facts={
                "cause": "api-version-not-served",
                "wanted": f"{GROUP}/{version}",
                "served": [f"{GROUP}/{one}" for one in served],
            },
        )


def _refused(board: Board) -> Iterator[Problem]:
    for line, match in matching(board.evidence, _REFUSED, "is invalid"):
        words = _TAIL.sub("", match[2]).replace('\\"', '"').strip()
        where = match[1] or "without a name"
        yield problem(
            NAME,
            "slice-refused",
            f"{at(line.node)}the API server refuses ResourceSlice {where}: {words[:300]}; none of its devices"
            " is published, and the driver tries again for ever",
            subject=line.subject,
            node=line.node,
            evidence=(line.excerpt(_WIDTH),),
            next=("kubectl get resourceslices", *logs_of(board, line.node, dra=True)),
            facts={
                "cause": "slice-refused",
                "slice": match[1],
                "message": words,
                "path": words.split(": ")[0],
            },
        )


def _dropped(board: Board) -> Iterator[Problem]:
    for line, match in matching(board.evidence, _DROPPED, "fields were dropped by the apiserver"):
        gates = re.findall(r"[A-Z]\w+", match[1])
        yield problem(
            NAME,
            "slice-fields-dropped",
            f"{at(line.node)}the API server dropped fields of a driver's slices, because the feature gate"
            f"{'s' if len(gates) > 1 else ''} {', '.join(gates)} {'are' if len(gates) > 1 else 'is'} off",
            subject=line.subject,
            node=line.node,
            evidence=(line.excerpt(_WIDTH),),
            next=("kubectl get resourceslices -o yaml", "kubectl version"),
            facts={"cause": "slice-fields-dropped", "gates": gates},
        )


def _forbidden(board: Board) -> Iterator[Problem]:
    for line, match in matching(board.evidence, _FORBIDDEN, "is forbidden"):
        user, verb, resource = match[1], match[2], match[3]
        yield problem(
            NAME,
            "driver-forbidden",
            f"{at(line.node)}{user} may not {verb} {resource} of {GROUP}: what runs under it cannot do"
            " its work",
            subject=f"User {user}",
            node=line.node,
            evidence=(line.excerpt(_WIDTH),),
            next=(f"kubectl auth can-i {verb} {resource}.{GROUP} --as={user}",),
            facts={"cause": "driver-forbidden", "user": user, "verb": verb, "resource": resource},
        )


def _policy(board: Board) -> Iterator[Problem]:
    for line, match in matching(board.evidence, _POLICY, "ValidatingAdmissionPolicy"):
        yield problem(
            NAME,
            "driver-forbidden",
            f"{at(line.node)}the admission policy {match[1]} denies what a driver publishes:"
            f" {match[2].strip()}",
            subject=f"ValidatingAdmissionPolicy {match[1]}",
            node=line.node,
            evidence=(line.excerpt(_WIDTH),),
            next=(f"kubectl get validatingadmissionpolicy {match[1]} -o yaml",),
            facts={"cause": "driver-forbidden", "policy": match[1]},
        )


def _socket(board: Board) -> Iterator[Problem]:
    """The plugin looks for the kubelet where it is not: another root directory, or a missing mount."""
    for line, match in matching(board.evidence, _SOCKET, "no such file or directory"):
        directory = match[1].rpartition("/")[0]
        yield problem(
            NAME,
            "kubelet-directory-wrong",
            f"{at(line.node)}a plugin finds no {directory}: it is not mounted from the host, or the kubelet"
            " uses another root directory",
            subject=line.subject,
            node=line.node,
            evidence=(line.excerpt(_WIDTH),),
            next=(on_node(line.node, "ps -o args= -C kubelet"), on_node(line.node, f"ls -ld {directory}")),
            facts={"cause": "kubelet-directory-wrong", "directory": directory},
        )
