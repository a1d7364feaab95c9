package main

import (
	"context"
	"encoding/hex"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// selectorTask asks for the devices that one CEL selector matches.
type selectorTask struct {
	Expression string `json:"expression"`
}

// devices are what slices published, in order of arrival.
type devices []cel.Device

func (d *devices) add(slice *resourceapi.ResourceSlice) {
	for _, device := range slice.Spec.Devices {
		*d = append(*d, cel.Device{
			Driver:                   slice.Spec.Driver,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
		})
	}
}

// selected is the answer. Matched and Failed are bit sets over the devices, in hexadecimal, lowest bit first
// within a byte; a device whose evaluation failed is not matched.
type selected struct {
	Name    string `json:"name"`
	Error   string `json:"error,omitempty"`
	Devices int    `json:"devices"`
	Matched string `json:"matched"`
	Failed  string `json:"failed"`
	// RoundNs is the best of all rounds over all devices.
	RoundNs int64 `json:"roundNs"`
	Rounds  int   `json:"rounds"`
	// CompileNs is the median of compiling as the scheduler does, without an estimate of the cost.
	CompileNs int64 `json:"compileNs"`
}

func selectDevices(todo *task, held devices) any {
	answer := selected{Name: todo.Name, Devices: len(held)}
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	options := cel.Options{DisableCostEstimation: true}
	var compiling []time.Duration
	var program cel.CompilationResult
	for range todo.Repeats {
		start := time.Now()
		program = compiler.CompileCELExpression(todo.Expression, options)
		compiling = append(compiling, time.Since(start))
	}
	answer.CompileNs = median(compiling)
	if program.Error != nil {
		answer.Error = program.Error.Detail
		return answer
	}
	var best, total time.Duration
	for answer.Rounds < todo.Repeats && (answer.Rounds == 0 || total < todo.limit()) {
		start := time.Now()
		matched, failed := sweep(program, held)
		spent := time.Since(start)
		total += spent
		if answer.Rounds == 0 || spent < best {
			best = spent
		}
		answer.Rounds++
		answer.Matched, answer.Failed = hex.EncodeToString(matched), hex.EncodeToString(failed)
	}
	answer.RoundNs = best.Nanoseconds()
	return answer
}

// sweep evaluates a program once per device.
func sweep(program cel.CompilationResult, held devices) (matched, failed []byte) {
	ctx := context.Background()
	matched, failed = make([]byte, (len(held)+7)/8), make([]byte, (len(held)+7)/8)
	for index, device := range held {
		yes, _, err := program.DeviceMatches(ctx, device)
		switch {
		case err != nil:
			failed[index/8] |= 1 << (index % 8)
		case yes:
			matched[index/8] |= 1 << (index % 8)
		}
	}
	return matched, failed
}
