// One binary with every part of a Kubernetes control plane, for tests: it looks at the name it was called by.
//
//	etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet   the upstream commands, unchanged
//	certificates                                                            keys and certificates for one run
//
// Nothing of upstream is altered; this file only chooses. Building it as one program costs one link step and
// 150 MB instead of five of each.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // time zones of CronJobs, as in the upstream commands

	"baro.dev/tests/lifeline"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	lifeline.Hold()
	var command *cobra.Command
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "certificates":
		if err := writeCertificates(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "certificates:", err)
			os.Exit(1)
		}
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kubelet":
		// The kubelet sets up its own signal handling; a context that already has it panics.
		command = kubelet.NewKubeletCommand(context.Background())
	default:
		fmt.Fprintf(os.Stderr, "called as %q: call it through a link named after the component\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
