// Command peers times upstream's DRA code on instances that a benchmark sends it.
//
// It reads one JSON object a line from standard input, does what its "task" says and writes one JSON object a
// line to standard output, in the same order:
//
//	{"task": "version"}                       the modules that are measured, and Go
//	{"task": "allocate", …}                   claims on one node, see allocate.go
//	{"task": "filter", …}                     claims on each of many nodes
//	{"task": "slice", "resourceSlice": {…}}   keep the devices of a slice; answered only when it is bad
//	{"task": "cel", …}                        one selector over all devices kept, see selector.go
//	{"task": "check", "expression": "…"}      what upstream says to an expression, in full, see check.go
//
// Times are nanoseconds of wall clock. What it must not become: a second implementation of anything. It calls
// the public API of k8s.io/dynamic-resource-allocation and counts.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// task is one line of input; each kind of task reads its own fields.
type task struct {
	Task          string                     `json:"task"`
	Name          string                     `json:"name"`
	Repeats       int                        `json:"repeats"`
	CapSeconds    float64                    `json:"capSeconds"`
	ResourceSlice *resourceapi.ResourceSlice `json:"resourceSlice"`
	allocateTask
	selectorTask
}

// limit is how long one operation may take.
func (t *task) limit() time.Duration {
	return time.Duration(t.CapSeconds * float64(time.Second))
}

type failure struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func serve(input io.Reader, output io.Writer) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	writer := json.NewEncoder(output)
	var held devices
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if answer := answer(line, &held); answer != nil {
			if err := writer.Encode(answer); err != nil {
				return err
			}
		}
	}
}

// answer never fails: what cannot be done is an answer as well, a panic of the measured code included.
func answer(line []byte, held *devices) (result any) {
	var todo task
	defer func() {
		if cause := recover(); cause != nil {
			result = failure{Name: todo.Name, Error: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	if err := json.Unmarshal(line, &todo); err != nil {
		return failure{Error: "not a task: " + err.Error()}
	}
	todo.Repeats = max(todo.Repeats, 1)
	switch todo.Task {
	case "version":
		return versions()
	case "allocate":
		return allocate(&todo)
	case "filter":
		return filter(&todo)
	case "slice":
		if todo.ResourceSlice == nil {
			return failure{Name: todo.Name, Error: "no resourceSlice"}
		}
		held.add(todo.ResourceSlice)
		return nil
	case "cel":
		return selectDevices(&todo, *held)
	case "check":
		return check(&todo, *held)
	}
	return failure{Name: todo.Name, Error: fmt.Sprintf("unknown task %q", todo.Task)}
}

// versions names the modules whose speed is measured, as linked in.
func versions() map[string]string {
	found := map[string]string{"go": runtime.Version()}
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if slices.Contains([]string{"k8s.io/dynamic-resource-allocation", "github.com/google/cel-go"}, module.Path) {
			found[module.Path] = module.Version
		}
	}
	return found
}

// median of some measurements, which it sorts.
func median(spent []time.Duration) int64 {
	if len(spent) == 0 {
		return 0
	}
	slices.Sort(spent)
	return spent[len(spent)/2].Nanoseconds()
}
