"""Check *DRA broken*, part four: what kubelets say when they cannot prepare or start a pod.

Events and kubelet logs are matched by the kubelet's own sentences; where one sentence has several causes the
other evidence (reservedFor, versions, the class list) decides, not the words. Follow-up messages of a cause
that is already named are counted and not reported again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from baro.diagnosis.checks.board import Board, PodView, condition
from baro.diagnosis.checks.logs import Line, matching
from baro.diagnosis.checks.problem import Problem, on_node, problem
from baro.diagnosis.checks.registrars import logs_of, pods_on

NAME = "dra"
_NOT_REGISTERED = re.compile(
    r"(?:DRA driver|plugin name) ([\w.-]+?)\.?(?: is not registered| not found in the list of registered DRA)"
)
_FOLLOW_UP = re.compile(r"unable to get information for ResourceClaim")
_CLAIM_INFO = re.compile(r"unable to get claim info for ResourceClaim (\S+)")
_NO_RESOURCE = re.compile(
    r"failed to (?:fetch|get) ResourceClaim (\S+).*could not find the requested resource"
)
_PREPARE = re.compile(
    r"NodePrepareResources(?: (?:rpc )?(?:call )?failed)?(?: for (?:ResourceClaim|claim) ([\w.-]+))?: (.+)"
)
_UNPREPARE = re.compile(
    r"unprepare dynamic resources: (?:pod \\?\"?([\w./-]+)\\?\"?: )?(.*?)(?:\"? pod=|\"?$)"
)
_NO_HANDLER = re.compile(r"no handler registered for plugin type: DRAPlugin at socket (\S+)")
_NOT_ALLOWED = re.compile(r"is not allowed to use resource claim \\?\"?([a-z0-9][a-z0-9.-]*)")
"""Kubelets write the claim bare, quoted, or with its UID in brackets."""
_AUTOSCALER = re.compile(
    r"no instance type can satisfy the allocation|no node group can satisfy .*resource claim", re.I
)
_GATE_FREE = (1, 34)
"""From this version on the gate DynamicResourceAllocation is on everywhere."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def check(board: Board) -> Iterator[Problem]:
    """One problem for each cause and place."""
    told: set[tuple[str, str]] = set()
    parts = (
        _registered, _several, _skew, _gate, _reserved, _bound, _unprepared, _prepared, _scale_from_zero,
    )  # fmt: skip
    for make in parts:
        for item in make(board):
            key = (item.code, item.subject)
            if key not in told:
                told.add(key)
                yield item
    yield from _versions(board)


def _subject(line: Line, node: str | None) -> str:
    return f"Pod {line.pod}" if line.pod else f"Node {node}" if node else line.place


def _place(line: Line) -> str:
    return line.excerpt() + (f" ({line.count}×)" if line.count > 1 else "")


def _registered(board: Board) -> Iterator[Problem]:
    follow_ups = sum(1 for _ in matching(board.evidence, _FOLLOW_UP, "for ResourceClaim"))
    for line, match in matching(
        board.evidence, _NOT_REGISTERED, "is not registered", "list of registered DRA"
    ):
        if _past(board, line):
            continue
        driver = match[1]
        node = line.node or _pod_node(board, line.pod)
        yield problem(
            NAME,
            "dra-driver-not-registered",
            f"{'node ' + node + ': ' if node else ''}DRA driver {driver} is not registered with the "
            "kubelet" + (f"; pod {line.pod} cannot start" if line.pod else ""),
            subject=_subject(line, node),
            node=node,
            evidence=(_place(line),)
            + ((f"{follow_ups} follow-up messages of the same cause",) if follow_ups else ()),
            next=(
                pods_on(node),
                on_node(node, "ls /var/lib/kubelet/plugins_registry"),
            ),
            facts={
                "cause": "dra-driver-not-registered",
                "driver": driver,
                "node": node,
                "pod": line.pod,
                "secondary_errors_suppressed": follow_ups,
            },
        )


def _pod_node(board: Board, name: str | None) -> str | None:
    view = _view(board, name)
    return view.pod.spec.node_name or None if view else None


def _view(board: Board, name: str | None) -> PodView | None:
    return next((item for item in board.pods if item.name == name), None)


def _past(board: Board, line: Line) -> bool:
    """Whether the pod that a message is about has started since, or has ended."""
    view = _view(board, line.pod)
    return view is not None and (view.done or view.pod.status.phase == "Running")


def _several(board: Board) -> Iterator[Problem]:
    """kubelet 1.34: a pod with several claims of which another pod has already prepared one."""
    for line, match in matching(board.evidence, _CLAIM_INFO, "unable to get claim info"):
        view = _view(board, line.pod) or _using(board, match[1])
        if view is None or len(view.claims) < 2:
            continue
        shared = [
            key for key in view.claims if any(other.name != view.name for other in board.users.get(key, ()))
        ]
        if not shared:
            continue
        yield problem(
            NAME,
            "kubelet-multiple-claims-one-prepared",
            f"pod {view.name} cannot start because claim {shared[0][1]} was already prepared for "
            "another pod: the "
            "kubelet then forgets the pod's other claims",
            subject=f"Pod {view.name}",
            node=view.pod.spec.node_name or None,
            evidence=(_place(line), f"claims of the pod: {', '.join(name for _, name in view.claims)}"),
            next=(f"kubectl describe pod -n {view.pod.metadata.namespace} {view.pod.metadata.name}",),
            facts={
                "cause": "kubelet-multiple-claims-one-prepared",
                "pod": view.pod.metadata.name,
                "workaround": "start the pod with both claims first",
            },
        )


def _using(board: Board, claim: str) -> PodView | None:
    found = [view for view in board.pods if not view.done and any(name == claim for _, name in view.claims)]
    return max(found, key=lambda view: len(view.claims), default=None)


def _skew(board: Board) -> Iterator[Problem]:
    """The claim is there; the kubelet asks for it in a version that the server does not serve."""
    for line, match in matching(board.evidence, _NO_RESOURCE, "could not find the requested resource"):
        node = line.node or _pod_node(board, line.pod)
        item = board.nodes.get(node or "")
        kubelet = str(item.status.node_info.get("kubeletVersion") or "") if item else ""
        served = board.evidence.served.get("resource.k8s.io", ())
        yield problem(
            NAME,
            "api-version-skew-kubelet",
            f"the kubelet{' of ' + node if node else ''} asks for claim {match[1]} in an API "
            "version that the server "
            "does not serve; the claim itself is not missing",
            subject=_subject(line, node),
            node=node,
            evidence=(
                _place(line),
                f"kubelet {kubelet or 'version not told'}, served versions of resource.k8s.io: "
                f"{', '.join(served) or 'not told'}",
            ),
            next=("kubectl get nodes -o wide", "kubectl get --raw /apis/resource.k8s.io"),
            facts={"cause": "api-version-skew-kubelet", "not": "claim-missing"},
        )


def _gate(board: Board) -> Iterator[Problem]:
    """Below 1.34 the kubelet needs the gate; from 1.34 on this message has another cause."""
    for line, _ in matching(board.evidence, _NO_HANDLER, "no handler registered for plugin type: DRAPlugin"):
        node = line.node
        item = board.nodes.get(node or "")
        version = _version(str(item.status.node_info.get("kubeletVersion") or "")) if item else None
        if version is not None and version >= _GATE_FREE:
            continue
        told = f"kubelet {version[0]}.{version[1]}" if version else "kubelet version not told"
        yield problem(
            NAME,
            "kubelet-feature-gate",
            f"{'node ' + node + ': ' if node else ''}the kubelet does not know DRA plugins "
            f"({told}): below 1.34 the "
            "feature gate DynamicResourceAllocation must be on in the kubelet too",
            subject=_subject(line, node),
            node=node,
            evidence=(_place(line),),
            next=(
                on_node(node, "grep -A9 featureGates /var/lib/kubelet/config.yaml"),
                "kubectl get nodes -o wide",
            ),
            facts={"cause": "kubelet-feature-gate", "applies_to": "< 1.34"},
        )


def _reserved(board: Board) -> Iterator[Problem]:
    for line, match in matching(board.evidence, _NOT_ALLOWED, "is not allowed to use resource claim"):
        name = match[1].rstrip(".-")
        view = _view(board, line.pod)
        claim = board.claims.get((view.pod.metadata.namespace, name)) if view else None
        if claim is not None and view is not None:
            uids = {ref.uid for ref in claim.status.reserved_for}
            if view.pod.metadata.uid in uids:
                continue  # reserved by now: the message is of before
        node = line.node or _pod_node(board, line.pod)
        yield problem(
            NAME,
            "claim-not-reserved-for-pod",
            f"{'pod ' + line.pod if line.pod else 'a pod'} may not use claim {name}: "
            "status.reservedFor of the claim "
            "does not list the pod",
            subject=_subject(line, node),
            node=node,
            evidence=(
                _place(line),
                "usual causes: spec.nodeName set by hand, a scheduler without DRA, or the gate off "
                "in the scheduler",
            ),
            next=(
                f"kubectl get resourceclaim -n {line.pod.split('/')[0]} {name} "
                "-o jsonpath={.status.reservedFor}"
                if line.pod
                else "kubectl get resourceclaims -A",
            ),
            facts={"cause": "claim-not-reserved-for-pod", "check": "status.reservedFor", "claim": name},
        )


def _bound(board: Board) -> Iterator[Problem]:
    """Pods that are on a node while a claim of theirs is not allocated: whoever bound them skipped that. Seen
    in the objects alone, without any message of a kubelet."""
    for view in board.pods:
        node = view.pod.spec.node_name
        if not node or view.pod.status.phase not in ("Pending", "") or view.pod.metadata.deletion_timestamp:
            continue
        for key in view.claims:
            claim = board.claims.get(key)
            if claim is None or claim.status.allocation is not None:
                continue
            yield problem(
                NAME,
                "claim-not-reserved-for-pod",
                f"pod {view.name} is bound to node {node}, and its claim {key[1]} is not allocated: it was "
                "bound without the scheduler's DRA plugin and never starts",
                subject=f"Pod {view.name}",
                node=node,
                evidence=(f"spec.nodeName {node}, status.allocation of {key[1]}: none",),
                next=(
                    f"kubectl get resourceclaim -n {key[0]} {key[1]} -o yaml",
                    f"kubectl describe pod -n {view.pod.metadata.namespace} {view.pod.metadata.name}",
                ),
                facts={"cause": "claim-not-reserved-for-pod", "check": "spec.nodeName", "claim": key[1]},
            )
            break


def _scale_from_zero(board: Board) -> Iterator[Problem]:
    """Claims wait and no driver publishes anything: a node group that scales from zero never starts."""
    waiting = [
        view
        for view in board.pods
        if not view.done and view.claims and not view.pod.spec.node_name and not view.counted
    ]
    if board.snapshot.slices or not waiting or board.evidence.lacks("resourceslices"):
        return
    log = next(iter(matching(board.evidence, _AUTOSCALER, "satisfy the allocation")), None)
    yield problem(
        NAME,
        "autoscaler-no-resourceslice-template",
        f"{len(waiting)} pods wait for claims and no ResourceSlice exists anywhere: an autoscaler "
        "without a slice "
        "template for its machine type cannot know that a new node would help",
        subject=f"Pod {waiting[0].name}",
        evidence=(
            f"nodes with GPUs: {len(board.physical)}, ResourceSlices: 0",
            *((_place(log[0]),) if log else ()),
        ),
        next=(
            "kubectl get resourceslices",
            f"kubectl describe pod -n {waiting[0].pod.metadata.namespace} {waiting[0].pod.metadata.name}",
        ),
        facts={"cause": "autoscaler-no-resourceslice-template", "waiting": len(waiting)},
    )


def _prepared(board: Board) -> Iterator[Problem]:
    """The driver refuses to prepare a claim, in its own words. Messages with a cause of their own are told
    above."""
    for line, match in matching(board.evidence, _PREPARE, "NodePrepareResources"):
        if _past(board, line) or _NOT_REGISTERED.search(line.text):
            continue
        claim, words = match[1], re.sub(r'"? pod="?[\w./-]+"?.*$', "", match[2]).strip().strip('"')
        node = line.node or _pod_node(board, line.pod)
        yield problem(
            NAME,
            "claim-prepare-failed",
            f"{'node ' + node + ': ' if node else ''}the driver cannot prepare "
            f"{'claim ' + claim if claim else 'the claim'}"
            f"{' of pod ' + line.pod if line.pod else ''}: {words[:240]}",
            subject=_subject(line, node),
            node=node,
            evidence=(_place(line),),
            next=logs_of(board, node, dra=True),
            facts={"cause": "claim-prepare-failed", "claim": claim, "pod": line.pod, "message": words},
        )


def _unprepared(board: Board) -> Iterator[Problem]:
    """A pod that cannot end: the kubelet gets no answer when it wants to give the devices back."""
    for line, match in matching(board.evidence, _UNPREPARE, "unprepare dynamic resources"):
        pod = line.pod or match[1]
        view = _view(board, pod)
        node = line.node or _pod_node(board, pod)
        gone = view is None and pod is not None and board.sees(pod.partition("/")[0])
        if (gone and board.snapshot.pods) or (view is not None and view.done):
            continue
        yield problem(
            NAME,
            "pod-stuck-terminating",
            f"{'pod ' + pod if pod else 'a pod'} cannot end: the kubelet cannot give its devices back: "
            f"{match[2].strip()[:200]}",
            subject=f"Pod {pod}" if pod else _subject(line, node),
            node=node,
            evidence=(_place(line),),
            next=logs_of(board, node, dra=True),
            facts={"cause": "claim-unprepare-failed", "pod": pod, "message": match[2].strip()},
        )


# --- versions ---------------------------------------------------------------------------------------------


def _version(text: str) -> tuple[int, int] | None:
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else None


def _versions(board: Board) -> Iterator[Problem]:
    """Kubelets more than three minors behind the server, or ahead of it; DRA on kubelets before 1.34."""
    server = _version(board.evidence.server_version)
    if server is None:
        return
    odd: dict[tuple[int, int], list[str]] = {}
    for name, node in board.nodes.items():
        if condition(node.status.conditions, "Ready") is None:
            continue
        kubelet = _version(str(node.status.node_info.get("kubeletVersion") or ""))
        if kubelet and (kubelet > server or kubelet[1] < server[1] - 3):
            odd.setdefault(kubelet, []).append(name)
    for kubelet, nodes in odd.items():
        yield problem(
            NAME,
            "kubelet-version-skew",
            f"{len(nodes)} kubelets run {kubelet[0]}.{kubelet[1]} with an API server of "
            f"{server[0]}.{server[1]}: "
            "Kubernetes supports kubelets up to three minor versions older and none newer",
            subject=f"Node {nodes[0]}",
            evidence=(", ".join(nodes[:5]),),
            next=("kubectl get nodes -o wide",),
            facts={"kubelet": list(kubelet), "server": list(server)},
        )
