// Package lifeline ends a test component when the process that started it is gone, however it went.
//
// The supervisor keeps the write end of the component's standard input open and writes nothing. When the
// supervisor exits, crashes or is killed with SIGKILL, the kernel closes that end, and the read below returns.
// PR_SET_PDEATHSIG would not do: it fires when the *thread* that forked ends, not the process.
package lifeline

import (
	"io"
	"os"
	"syscall"
	"time"
)

// Variable is the environment variable that switches the lifeline on. Its value is how long to wait between
// the end of the supervisor and SIGTERM ("0s", "2s"): etcd waits, so that the API server can go first.
const Variable = "BARO_LIFELINE"

// grace is how long a component may take to end after SIGTERM before SIGKILL.
const grace = 10 * time.Second

// Hold starts to watch standard input when the environment asks for it, and returns at once.
func Hold() {
	value, asked := os.LookupEnv(Variable)
	if !asked {
		return
	}
	delay, err := time.ParseDuration(value)
	if err != nil {
		delay = 0
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(delay)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(grace)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}()
}
