// Command kwok plays the kubelets of nodes that do not exist. It is a program of its
// own because its --version flag collides with Kubernetes' in one process.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

// run reads the flags that decide logging and configuration before the command itself
// is made, because kwok's command takes its defaults from the configuration.
func run() error {
	early := pflag.NewFlagSet("early", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), early)
	ctx, err := config.InitFlags(ctx, early)
	if err != nil {
		return err
	}
	kwok := cmd.NewCommand(ctx)
	kwok.PersistentFlags().AddFlagSet(early)
	return kwok.ExecuteContext(ctx)
}
