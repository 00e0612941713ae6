//go:build !linux

package proxy

import (
	"os/exec"

	"github.com/warmpath/warmpath/bench/proxy/loop"
)

// Usage is the processor time and memory of a process and its children.
type Usage struct {
	CPU         float64 `json:"cpu_seconds"`
	User        float64 `json:"user_seconds"`
	System      float64 `json:"system_seconds"`
	RSS         int64   `json:"rss_bytes"`
	Peak        int64   `json:"peak_rss_bytes"`
	Descriptors int     `json:"descriptors"`
	Threads     int     `json:"threads"`
	Processes   int     `json:"processes"`
}

// Use needs Linux.
func Use(int) (Usage, error) { return Usage{}, loop.ErrPlatform }

// ResetPeak needs Linux.
func ResetPeak(int) {}

func cpus() []int                        { return nil }
func startOn(c *exec.Cmd, _ []int) error { return c.Start() }
func moveTo([]int) error                 { return nil }
func raiseFiles(int) error               { return nil }
