// Command controlplane holds the parts of a real Kubernetes control plane in one
// binary, so that they are linked once: its first argument names the component, the
// rest are that component's own flags.
//
//	controlplane etcd --data-dir …
//	controlplane kube-apiserver --etcd-servers …
//	controlplane kubectl get nodes
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// policyRefreshInterval is how often kube-apiserver looks for admission policies that changed.
// In a cluster it is a second, for which tests that take policies apart would wait hundreds of times.
const policyRefreshInterval = 50 * time.Millisecond

// components maps a component's name to a function that runs it and returns the exit code.
var components = map[string]func() int{
	"etcd": func() int {
		etcdmain.Main(os.Args)
		return 0
	},
	"kube-apiserver": func() int {
		generic.SetPolicyRefreshIntervalForTests(policyRefreshInterval)
		return cli.Run(kubeapiserver.NewAPIServerCommand())
	},
	"kube-controller-manager": run(kubecontrollermanager.NewControllerManagerCommand),
	"kube-scheduler": func() int {
		return cli.Run(kubescheduler.NewSchedulerCommand())
	},
	"kubectl": func() int {
		// kubectl prints its own errors and chooses its own exit code, as its main does.
		if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
			cmdutil.CheckErr(err)
		}
		return 0
	},
}

func run(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func main() {
	if len(os.Args) > 1 {
		if component, ok := components[os.Args[1]]; ok {
			// The component parses os.Args itself: leave it the arguments that it would see
			// as a program of its own.
			os.Args = os.Args[1:]
			os.Exit(component())
		}
	}
	names := make([]string, 0, len(components))
	for name := range components {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: controlplane COMPONENT [flags], where COMPONENT is one of %s\n", strings.Join(names, ", "))
	os.Exit(2)
}
