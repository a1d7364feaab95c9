package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// celCacheSize is what kube-scheduler gives its cache of compiled selectors.
const celCacheSize = 10

// allocateTask asks for devices for claims: on Node ("allocate"), or on each of Nodes ("filter").
type allocateTask struct {
	// Features are gates by their Kubernetes names; they decide which of upstream's allocators runs.
	Features       []string                     `json:"features"`
	Node           *corev1.Node                 `json:"node"`
	Nodes          []*corev1.Node               `json:"nodes"`
	DeviceClasses  []*resourceapi.DeviceClass   `json:"deviceClasses"`
	ResourceSlices []*resourceapi.ResourceSlice `json:"resourceSlices"`
	Claims         []*resourceapi.ResourceClaim `json:"claims"`
	// Held are claims that have their devices already.
	Held []*resourceapi.ResourceClaim `json:"held"`
	// Full asks "allocate" for the results as a scheduler would write them, after one run and without times.
	Full bool `json:"full"`
}

// allocated is the answer. Outcome is "fits", "no-fit", "error" or "timeout"; Devices holds one list of
// driver/pool/device per claim.
type allocated struct {
	Name    string     `json:"name"`
	Outcome string     `json:"outcome"`
	Error   string     `json:"error,omitempty"`
	OnNode  bool       `json:"onNode,omitempty"`
	Devices [][]string `json:"devices,omitempty"`
	// Results is there when the task says "full".
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
	Repeats int                            `json:"repeats"`
	// AllocateNs is the median of Allocate alone, with selectors compiled before.
	AllocateNs int64 `json:"allocateNs"`
	// NewNs is the median of NewAllocator, which a scheduler calls once per pod.
	NewNs int64 `json:"newNs"`
	// FirstNs is NewAllocator and Allocate with an empty cache of selectors.
	FirstNs int64 `json:"firstNs"`
}

// filtered is the answer for many nodes. Devices has what each fitting node would give, claim after claim.
type filtered struct {
	Name    string              `json:"name"`
	Error   string              `json:"error,omitempty"`
	Devices map[string][]string `json:"devices"`
	Repeats int                 `json:"repeats"`
	// NewNs is the median of NewAllocator, AllNs of Allocate for all nodes, one after the other.
	NewNs int64 `json:"newNs"`
	AllNs int64 `json:"allNs"`
}

// pod is what a scheduler knows when it starts with a pod: everything but the allocator.
type pod struct {
	*allocateTask
	gates structured.Features
	state structured.AllocatedState
	cache *cel.Cache
	limit time.Duration
}

func newPod(todo *task) (*pod, error) {
	gates, err := features(todo.Features)
	if err != nil {
		return nil, err
	}
	cache := cel.NewCache(celCacheSize, cel.Features{
		EnableConsumableCapacity: gates.ConsumableCapacity,
		EnableListTypeAttributes: gates.ListTypeAttributes,
	})
	return &pod{&todo.allocateTask, gates, inUse(todo.Held, gates.ConsumableCapacity), cache, todo.limit()}, nil
}

func (p *pod) allocator(ctx context.Context) (structured.Allocator, time.Duration, error) {
	start := time.Now()
	made, err := structured.NewAllocator(ctx, p.gates, p.state, classes(p.DeviceClasses), p.ResourceSlices, p.cache)
	return made, time.Since(start), err
}

// once makes an allocator and asks it about a node.
func (p *pod) once() (answer allocated, making, allocating time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), p.limit)
	defer cancel()
	allocator, making, err := p.allocator(ctx)
	if err != nil {
		return judged(ctx, nil, err), making, 0
	}
	start := time.Now()
	results, err := allocator.Allocate(ctx, p.Node, p.Claims)
	allocating = time.Since(start)
	return judged(ctx, results, err), making, allocating
}

// allocate runs once with an empty cache, then repeats as long as all runs together stay within the cap.
func allocate(todo *task) any {
	pod, err := newPod(todo)
	if err != nil {
		return failure{Name: todo.Name, Error: err.Error()}
	}
	if todo.Node == nil {
		return failure{Name: todo.Name, Error: "no node"}
	}
	answer, making, allocating := pod.once()
	answer.Name, answer.Repeats = todo.Name, 1
	answer.FirstNs = (making + allocating).Nanoseconds()
	answer.NewNs, answer.AllocateNs = making.Nanoseconds(), allocating.Nanoseconds()
	if answer.Outcome == "timeout" || todo.Full {
		return answer
	}
	answer.Results = nil
	var makings, allocations []time.Duration
	spent := making + allocating
	for len(allocations) < todo.Repeats && spent+making+allocating < todo.limit() {
		_, making, allocating = pod.once()
		spent += making + allocating
		makings, allocations = append(makings, making), append(allocations, allocating)
	}
	if len(allocations) > 0 {
		answer.Repeats, answer.NewNs, answer.AllocateNs = len(allocations), median(makings), median(allocations)
	}
	return answer
}

// filter asks about every node, as a scheduler would if it had to look at all of them with one thread. An
// allocator is made anew for each repeat, since each stands for another pod.
func filter(todo *task) any {
	pod, err := newPod(todo)
	if err != nil {
		return failure{Name: todo.Name, Error: err.Error()}
	}
	ctx := context.Background()
	answer := filtered{Name: todo.Name, Repeats: todo.Repeats, Devices: map[string][]string{}}
	var makings, rounds []time.Duration
	for range todo.Repeats {
		allocator, making, err := pod.allocator(ctx)
		if err != nil {
			return failure{Name: todo.Name, Error: err.Error()}
		}
		found := make([][]resourceapi.AllocationResult, len(todo.Nodes))
		start := time.Now()
		for index, node := range todo.Nodes {
			if found[index], err = allocator.Allocate(ctx, node, todo.Claims); err != nil {
				return failure{Name: todo.Name, Error: node.Name + ": " + err.Error()}
			}
		}
		makings, rounds = append(makings, making), append(rounds, time.Since(start))
		for index, results := range found {
			if results != nil {
				answer.Devices[todo.Nodes[index].Name] = slices.Concat(names(results)...)
			}
		}
	}
	answer.NewNs, answer.AllNs = median(makings), median(rounds)
	return answer
}

// judged sorts upstream's three ways to say no: an error, no result, a context that ended.
func judged(ctx context.Context, results []resourceapi.AllocationResult, err error) allocated {
	switch {
	case err != nil && ctx.Err() != nil:
		return allocated{Outcome: "timeout"}
	case err != nil:
		return allocated{
			Outcome: "error",
			Error:   err.Error(),
			OnNode:  errors.Is(err, structured.ErrFailedAllocationOnNode),
		}
	case results == nil:
		return allocated{Outcome: "no-fit"}
	}
	return allocated{Outcome: "fits", Devices: names(results), Results: results}
}

// names gives driver/pool/device of what each claim gets.
func names(results []resourceapi.AllocationResult) [][]string {
	all := [][]string{}
	for _, result := range results {
		of := []string{}
		for _, device := range result.Devices.Results {
			of = append(of, device.Driver+"/"+device.Pool+"/"+device.Device)
		}
		all = append(all, of)
	}
	return all
}

// inUse gathers what held claims occupy, as the scheduler does. Admin access occupies nothing; a share occupies
// the whole device while sharing is off.
func inUse(held []*resourceapi.ResourceClaim, sharing bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range held {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case result.AdminAccess != nil && *result.AdminAccess:
			case sharing && result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				if result.ConsumedCapacity == nil {
					continue
				}
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

// classes answers upstream's questions about device classes.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

// features reads gates by name. "A+B" stands for two gates that go together.
func features(gates []string) (structured.Features, error) {
	var on structured.Features
	field := map[string]*bool{
		"DRAAdminAccess":               &on.AdminAccess,
		"DRAConsumableCapacity":        &on.ConsumableCapacity,
		"DRADerivedAttributes":         &on.DerivedAttributes,
		"DRADeviceCompatibilityGroups": &on.CompatibilityGroups,
		"DRADeviceTaints":              &on.DeviceTaints,
		"DRAFractionalCapacityRange":   &on.FractionalCapacityRange,
		"DRAListTypeAttributes":        &on.ListTypeAttributes,
		"DRAOptionalNodeOperations":    &on.OptionalNodeOperations,
		"DRAPartitionableDevices":      &on.PartitionableDevices,
		"DRAPrioritizedList":           &on.PrioritizedList,
		"DRADeviceBindingConditions+DRAResourceClaimDeviceStatus": &on.DeviceBindingAndStatus,
	}
	for _, gate := range gates {
		known, found := field[gate]
		if !found {
			return on, fmt.Errorf("unknown gate %s", gate)
		}
		*known = true
	}
	return on, nil
}
