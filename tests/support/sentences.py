"""Sentences of kubelets, drivers, plugins and runtimes, and the one problem that each gives.

The lines are our own, in the shape of those that Kubernetes 1.30 to 1.37, several generations of NVIDIA's
plugin and driver, and the container runtimes write.
"""

from __future__ import annotations

from typing import Any

import msgspec

from baro.model.findings import Severity

UUID = "GPU-00000000-1111-4222-8333-444444444444"
KLOG = "E0102 10:00:00.123456       1 x.go:1] "
KUBELET = 'Jan  2 10:00:00 node-a kubelet[77]: E0102 10:00:00.123456      77 x.go:1] "m" err="'


class Said(msgspec.Struct, frozen=True):
    """A text and the only problem above info that it may give."""

    text: str
    code: str
    facts: dict[str, Any] = {}
    severity: Severity = Severity.ERROR


SENTENCES = {
    "registered, since 1.34": Said(
        KUBELET + 'prepare dynamic resources: DRA driver nic.example.org is not registered" pod="ml/w-0"',
        "dra-driver-not-registered",
        {"driver": "nic.example.org", "pod": "ml/w-0", "node": "node-a"},
    ),
    "registered, before 1.34": Said(
        KUBELET + "failed to get gRPC client for driver nic.example.org: plugin name nic.example.org not"
        " found in"
        ' the list of registered DRA plugins" pod="ml/w-0"',
        "dra-driver-not-registered",
        {"driver": "nic.example.org", "pod": "ml/w-0"},
    ),
    "not allowed, with the UIDs": Said(
        KUBELET + "pod w-0(6f1c9a1e-0000-4000-8000-000000000001) is not allowed to use resource claim"
        ' fast-nic(6f1c9a1e-0000-4000-8000-000000000002)" pod="ml/w-0"',
        "claim-not-reserved-for-pod",
        {"claim": "fast-nic"},
    ),
    "not allowed, quoted": Said(
        "Warning  FailedPrepareDynamicResources  kubelet  Failed to prepare dynamic resources: pod w-0 is not"
        ' allowed to use resource claim "fast-nic".',
        "claim-not-reserved-for-pod",
        {"claim": "fast-nic"},
    ),
    "prepare": Said(
        KUBELET + "prepare dynamic resources: NodePrepareResources failed for ResourceClaim w-0-gpu-x:"
        " prepare"
        ' devices: no device gpu-3" pod="ml/w-0"',
        "claim-prepare-failed",
        {"claim": "w-0-gpu-x", "pod": "ml/w-0", "message": "prepare devices: no device gpu-3"},
    ),
    "prepare takes too long": Said(
        KUBELET + "prepare dynamic resources: NodePrepareResources: rpc error: code = DeadlineExceeded desc ="
        ' context deadline exceeded" pod="ml/w-0"',
        "claim-prepare-failed",
        {"claim": None},
    ),
    "unprepare": Said(
        KUBELET + 'unprepare dynamic resources: pod \\"ml/w-0\\": ResourceClaim not created yet"'
        ' pod="ml/w-0"',
        "pod-stuck-terminating",
        {"pod": "ml/w-0", "message": "ResourceClaim not created yet"},
        Severity.WARNING,
    ),
    "old API": Said(
        KLOG + '"Failed to watch" err="failed to list *v1beta1.ResourceSlice: the server could not find the'
        ' requested resource" logger="UnhandledError"',
        "api-version-not-served",
        {"wanted": "resource.k8s.io/v1beta1"},
    ),
    "old API of claims": Said(
        KLOG + '"Failed to watch" err="failed to watch *v1beta2.ResourceClaim: the server could not find the'
        ' requested resource"',
        "api-version-not-served",
        {"wanted": "resource.k8s.io/v1beta2"},
    ),
    "no kind": Said(
        KLOG + 'no matches for kind "DeviceClass" in version "resource.k8s.io/v1beta1"',
        "api-version-not-served",
        {"wanted": "resource.k8s.io/v1beta1"},
    ),
    "slice refused": Said(
        KLOG + '"processing ResourceSlice objects" err="create ResourceSlice: ResourceSlice.resource.k8s.io'
        ' \\"n1-x\\" is invalid: spec.devices[3].attributes[socket-1]: Invalid value: \\"socket-1\\": a'
        ' valid C'
        ' identifier must start with …" logger="UnhandledError"',
        "slice-refused",
        {"slice": "n1-x", "path": "spec.devices[3].attributes[socket-1]"},
    ),
    "slice with too many devices": Said(
        KLOG + 'update: ResourceSlice.resource.k8s.io "n1-x" is invalid: spec.devices: Too many: 304:'
        ' must have at'
        " most 128 items",
        "slice-refused",
        {"path": "spec.devices"},
    ),
    "fields dropped": Said(
        KLOG + '"update ResourceSlice" err="pool \\"n\\", slice #0: some fields were dropped by the'
        ' apiserver,'
        ' probably because these features are disabled: DRADeviceTaints DRAConsumableCapacity" logger="x"',
        "slice-fields-dropped",
        {"gates": ["DRADeviceTaints", "DRAConsumableCapacity"]},
        Severity.WARNING,
    ),
    "right is lacking": Said(
        KLOG + 'resourceslices.resource.k8s.io is forbidden: User \\"system:serviceaccount:gpu:driver\\"'
        ' cannot'
        ' create resource \\"resourceslices\\" in API group \\"resource.k8s.io\\" at the cluster scope',
        "driver-forbidden",
        {"user": "system:serviceaccount:gpu:driver", "verb": "create", "resource": "resourceslices"},
    ),
    "policy": Said(
        KLOG + 'update: resourceslices.resource.k8s.io "x" is forbidden: ValidatingAdmissionPolicy'
        ' \'own-node\' with'
        " binding 'own-node' denied request: not your node",
        "driver-forbidden",
        {"policy": "own-node"},
    ),
    "another kubelet root": Said(
        KLOG + "start registrar: listen unix /var/lib/kubelet/plugins_registry/x.org-reg.sock: bind: no"
        " such file or"
        " directory",
        "kubelet-directory-wrong",
        {"directory": "/var/lib/kubelet/plugins_registry"},
    ),
    "no kubelet socket": Said(
        KLOG + "dial unix /data/kubelet/device-plugins/kubelet.sock: connect: no such file or directory",
        "kubelet-directory-wrong",
        {"directory": "/data/kubelet/device-plugins"},
    ),
    "no NVML, of 2018": Said(
        "2018/05/02 10:00:00 Loading NVML\n2018/05/02 10:00:00 Failed to initialize NVML: could not load NVML"
        " library.",
        "plugin-finds-no-gpus",
        {"cause": "nvml-library-not-found"},
    ),
    "no NVML, of today": Said(
        KLOG + "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND.\n" + KLOG + "No devices found. Waiting"
        " indefinitely.",
        "plugin-finds-no-gpus",
        {"cause": "nvml-library-not-found"},
    ),
    "no strategy": Said(
        KLOG + "Incompatible strategy detected auto\n" + KLOG + "No devices found. Waiting indefinitely.",
        "plugin-finds-no-gpus",
        {"cause": "nvml-library-not-found"},
    ),
    "library of another version": Said(
        KLOG + "Failed to initialize NVML: ERROR_LIB_RM_VERSION_MISMATCH.",
        "plugin-finds-no-gpus",
        {"cause": "driver-library-mismatch"},
    ),
    "no driver": Said(
        KLOG + "Failed to initialize NVML: Driver Not Loaded.",
        "plugin-finds-no-gpus",
        {"cause": "driver-not-loaded"},
    ),
    "the plugin's container lost the GPUs": Said(
        KLOG + "Starting NVIDIA Device Plugin\n" + KLOG + "Failed to initialize NVML: Unknown Error",
        "plugin-lost-device-access",
    ),
    "some container lost its GPUs": Said(
        "2026-01-02T10:00:00Z Failed to initialize NVML: Unknown Error",
        "container-lost-gpus",
        {"cause": "device-cgroup-reset", "gpu_ready": True},
    ),
    "a lost GPU stops the plugin": Said(
        KLOG + "error starting plugins: unable to create resource managers: error building device map: error"
        " getting device handle: GPU is lost",
        "lost-gpu-stops-plugin",
        {"action": "cordon"},
    ),
    "MIG layouts differ": Said(
        KLOG + "error starting plugins: invalid MIG configuration: more than one MIG device type present"
        " on node",
        "mig-layout-not-single",
    ),
    "MIG layouts differ, of 2022": Said(
        "2022/12/15 12:28:28 Retreiving plugins.\npanic: At least one device with migEnabled=true was not"
        " configured"
        " correctly: …",
        "mig-layout-not-single",
    ),
    "mark without an Xid": Said(
        KLOG + f"'nvidia.com/gpu' device marked unhealthy: {UUID}",
        "device-marked-unhealthy",
        {"devices": [UUID]},
    ),
    "all devices": Said(
        KLOG + "Error waiting for event: ERROR_UNKNOWN; Marking all devices as unhealthy",
        "device-marked-unhealthy",
        {"devices": ["all devices"]},
    ),
    "mark of a MIG device": Said(
        KLOG + f"XidCriticalError: Xid=94 on Device=MIG-{UUID[4:]}; marking device as unhealthy.",
        "xid-marked-unhealthy",
        {"xid": 94, "uuid": f"MIG-{UUID[4:]}"},
    ),
    "too old, of today": Said(
        KLOG + f"Device {UUID} is too old to support healthchecking: Not Supported; marking it unhealthy.\n"
        + KLOG + f"'nvidia.com/gpu' device marked unhealthy: {UUID}",
        "healthcheck-unsupported",
        {"uuid": UUID},
    ),
    "two shares": Said(
        "Warning  UnexpectedAdmissionError  3s  kubelet  Allocate failed due to rpc error: code = Unknown"
        " desc ="
        " request for 'nvidia.com/gpu: 2' too large: maximum request size for shared resources is 1, which is"
        " unexpected",
        "shared-request-too-large",
        {"most": 1},
    ),
    "devices gone": Said(
        "Warning  UnexpectedAdmissionError  3s  kubelet  Allocate failed due to requested number of devices"
        " unavailable for nvidia.com/gpu. Requested: 2, Available: 0, which is unexpected",
        "devices-gone-at-admission",
        {"resource": "nvidia.com/gpu", "available": 0},
        Severity.WARNING,
    ),
    "CDI, runc wrapper": Said(
        "Warning  Failed  1s  kubelet  Error: failed to create containerd task: failed to create shim"
        " task: OCI"
        " runtime create failed: could not apply required modification to OCI specification: error"
        " modifying OCI"
        " spec: failed to inject CDI devices: unresolvable CDI devices management.nvidia.com/gpu=" + UUID,
        "cdi-spec-missing",
        {"devices": [f"management.nvidia.com/gpu={UUID}"]},
    ),
    "CDI, log of the runtime": Said(
        '{"level":"warning","msg":"could not resolve CDI devices: [nvidia.com/gpu=all nvidia.com/gpu=0]"}',
        "cdi-spec-missing",
        {"devices": ["nvidia.com/gpu=all", "nvidia.com/gpu=0"]},
    ),
    "CDI, device node": Said(
        'Error: CDI device injection failed: failed to stat CDI host device "/dev/nvidia-modeset": no'
        ' such file or'
        " directory",
        "cdi-host-path-missing",
        {"path": "/dev/nvidia-modeset"},
    ),
    "CDI, library, crun": Said(
        "crun: error stat'ing file /usr/lib64/libcuda.so.550.54.15: No such file or directory",
        "cdi-spec-stale",
        {"spec_version": "550.54.15", "driver_version": None},
    ),
    "CDI, library, runc": Said(
        'error mounting "/usr/lib64/libcuda.so.550.54.15" to rootfs at "/usr/lib64/libcuda.so.550.54.15":'
        ' no such'
        " file or directory",
        "cdi-spec-stale",
        {"spec_version": "550.54.15"},
    ),
    "CDI, nothing to write": Said(
        KLOG + 'failed to write spec: invalid CDI Spec: failed add device "u1-gpu-0": invalid device, empty'
        " device edits",
        "cdi-device-nodes-missing",
    ),
    "CDI, a piece of a spec without device nodes": Said(
        "devices:\n- name: claim-u1-gpu-0\n  containerEdits:\n    env: [NVIDIA_VISIBLE_DEVICES=void]\n",
        "cdi-device-nodes-missing",
        {"usable": False},
    ),
    "a lost GPU, in a wrapped event": Said(
        "Warning  UnexpectedAdmissionError  kubelet  Allocate failed due to device plugin"
        " GetPreferredAllocation"
        " rpc failed\nwith err: rpc error: code = Unknown desc = error creating nvml.Device 5:\nnvml: GPU"
        " is lost",
        "lost-gpu-breaks-preferred-allocation",
        {"gpu_index": 5},
    ),
    "CDI, switched off": Said(
        '[plugins."io.containerd.grpc.v1.cri"]\n  enable_cdi = false\n',
        "cdi-disabled",
        {"cause": "cdi-disabled"},
    ),
}  # fmt: skip
