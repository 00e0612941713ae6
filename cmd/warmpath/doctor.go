package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/admin/top"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/nixl"
)

// errUnfit makes doctor's exit status tell a script that a worker it was asked about cannot be
// routed to.
var errUnfit = errors.New("a worker is unfit")

// The states of a finding. Only unfit changes the exit status: the rest is about what this machine
// could have.
const (
	stateOK      = "ok"
	stateMissing = "missing"
	stateUnfit   = "unfit"
)

// finding is one line of doctor's answer.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // the remedy
}

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	var library string
	var workers []string
	var wait time.Duration
	var files tlsconfig.ClientFiles
	var keyFile, router, operatorKey string
	cmd := &cobra.Command{
		Use:   "doctor [WORKER …]",
		Short: "Check this machine and its workers: drivers, libraries, KV events, missing parts",
		Long: "Shows what this machine has and lacks for routing: the NVIDIA driver and its GPUs, NIXL and the path\n" +
			"that it takes between two processes, RDMA devices; and for each worker whether it is\n" +
			"ready and publishes the KV events that exact routing needs. Nothing is changed. The exit status is 0 unless a given worker is unfit.",
		Example: "  warmpath doctor\n  warmpath doctor http://gpu1:30000 http://gpu2:30000\n  warmpath doctor --router http://127.0.0.1:8000",
		RunE: func(cmd *cobra.Command, named []string) error {
			found := examineMachine(cmd.Root().Version, library)
			for _, url := range append(workers, named...) {
				found = append(found, examineWorker(cmd.Context(), url, files, keyFile, wait)...)
			}
			if router != "" {
				found = append(found, examineRouter(router, operatorKey)...)
			}
			cmd.SilenceUsage = true
			if err := report(cmd.OutOrStdout(), found, asJSON); err != nil {
				return err
			}
			return verdict(found)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().StringArrayVar(&workers, "worker", nil, "also examine the worker at this `URL`, as an argument does; may be repeated")
	cmd.Flags().StringVar(&router, "router", "", "also ask the router with this `URL` of its operator API for workers that need attention")
	secretFlag(cmd.Flags(), &operatorKey, "operator-key", "bearer token of that API")
	workerTLSFlags(cmd.Flags(), &files)
	workerKeyFlag(cmd.Flags(), &keyFile)
	cmd.Flags().StringVar(&library, "nixl-lib", "", "libnixl_capi.so (default: "+nixl.EnvLibrary+", an installed wheel, the system's)")
	cmd.Flags().DurationVar(&wait, "wait", 3*time.Second, "longest wait for a worker to be ready")
	return cmd
}

// verdict is errUnfit when any finding is.
func verdict(found []finding) error {
	for _, f := range found {
		if f.State == stateUnfit {
			return fmt.Errorf("%w: %s: %s", errUnfit, f.Name, f.Detail)
		}
	}
	return nil
}

// report writes the findings, as a table for people or as JSON.
func report(w io.Writer, found []finding, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(found)
	}
	table := tabwriter.NewWriter(top.Plain(w), 0, 0, 2, ' ', 0)
	for _, f := range found {
		// A reason may have several lines; each stays in its column.
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.State, f.Name, strings.ReplaceAll(f.Detail, "\n", "\n\t\t"))
		if f.Advice != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", f.Advice)
		}
	}
	return table.Flush()
}
