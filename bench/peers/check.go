package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// compiled is what one environment makes of an expression. CostEstimate is upstream's upper bound.
type compiled struct {
	OK           bool   `json:"ok"`
	Error        string `json:"error,omitempty"`
	OutputType   string `json:"outputType,omitempty"`
	CostEstimate uint64 `json:"costEstimate,omitempty"`
}

// evaluated is the outcome on one device: Result, or Error.
type evaluated struct {
	Result bool    `json:"result"`
	Error  string  `json:"error,omitempty"`
	Cost   *uint64 `json:"cost,omitempty"`
}

// checked is the answer to a "check": how the scheduler (stored) and the API server (admission, default gates)
// compile an expression, and its outcome on each device held, in order.
type checked struct {
	Name      string      `json:"name"`
	Stored    compiled    `json:"stored"`
	Admission compiled    `json:"admission"`
	Eval      []evaluated `json:"eval,omitempty"`
}

// patience is for one device; the cost limit ends an evaluation long before.
const patience = 10 * time.Second

func check(todo *task, held devices) any {
	answer := checked{Name: todo.Name}
	stored, program := compileIn(environment.StoredExpressions, todo.Expression)
	answer.Stored = stored
	answer.Admission, _ = compileIn(environment.NewExpressions, todo.Expression)
	if stored.OK {
		for _, device := range held {
			answer.Eval = append(answer.Eval, evaluate(program, device))
		}
	}
	return answer
}

// compileIn never fails: a panic of the compiler is an error that begins with PANIC.
func compileIn(kind environment.Type, expression string) (answer compiled, program cel.CompilationResult) {
	defer func() {
		if cause := recover(); cause != nil {
			answer = compiled{Error: fmt.Sprintf("PANIC: %v", cause)}
		}
	}()
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	program = compiler.CompileCELExpression(expression, cel.Options{EnvType: &kind})
	if program.Error != nil {
		return compiled{Error: program.Error.Detail}, program
	}
	return compiled{OK: true, OutputType: program.OutputType.String(), CostEstimate: program.MaxCost}, program
}

func evaluate(program cel.CompilationResult, device cel.Device) (answer evaluated) {
	defer func() {
		if cause := recover(); cause != nil {
			answer = evaluated{Error: fmt.Sprintf("PANIC: %v", cause)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, details, err := program.DeviceMatches(ctx, device)
	answer.Result = result
	if err != nil {
		answer.Error = err.Error()
	}
	if details != nil {
		answer.Cost = details.ActualCost()
	}
	return answer
}
