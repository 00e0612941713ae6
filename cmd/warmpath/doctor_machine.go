package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/pebbe/zmq4"

	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/radix/hugepage"
)

// examineMachine looks at what does not depend on any worker.
func examineMachine(version string) []finding {
	major, minor, patch := zmq4.Version()
	found := []finding{
		{"warmpath", stateOK, fmt.Sprintf("%s, %s, %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH), ""},
		{"libzmq", stateOK, fmt.Sprintf("%d.%d.%d", major, minor, patch), ""},
		examineHugePages(hugepage.Setting()),
	}
	found = append(found, examineGPUs(nvml.New(nvml.Config{}))...)
	return append(found, examineNIXL())
}

// examineHugePages says what the kernel's setting means for look-ups.
func examineHugePages(setting string) finding {
	switch setting {
	case "always", "madvise":
		return finding{"huge pages", stateOK, setting + ": the router's heap gets them", ""}
	case "":
		return finding{"huge pages", stateMissing, "the kernel has none of 2 MiB", "routing works without; look-ups in a large index take longer"}
	default:
		return finding{
			"huge pages", stateMissing, setting + ": look-ups in a large index take longer",
			"routing works without; as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
		}
	}
}

// examineGPUs reads the driver and closes the reader.
func examineGPUs(reader *nvml.Reader) []finding {
	defer reader.Close()
	driver, err := reader.Driver()
	if err != nil {
		advice := "routing works without; install the NVIDIA driver where this machine has GPUs"
		if !errors.Is(err, nvml.ErrNoDriver) {
			advice = "routing works without; nvidia-smi should say the same"
		}
		return []finding{{"driver", stateMissing, err.Error(), advice}}
	}
	found := []finding{{"driver", stateOK, "NVIDIA " + known(driver.Version) + ", CUDA up to " + known(driver.CUDA), ""}}
	gpus, err := reader.Read()
	if err != nil {
		return append(found, finding{"GPUs", stateMissing, err.Error(), "nvidia-smi should say the same"})
	}
	if len(gpus) == 0 {
		return append(found, finding{"GPUs", stateMissing, "the driver sees none", "in a container, give it GPUs: docker run --gpus all"})
	}
	for _, gpu := range gpus {
		found = append(found, examineGPU(&gpu))
	}
	return found
}

func examineGPU(gpu *nvml.GPU) finding {
	name := fmt.Sprintf("GPU %d", gpu.Index)
	if gpu.Err != nil {
		return finding{name, stateMissing, gpu.Err.Error(), "see dmesg for its XID; the GPU or the machine needs a reset"}
	}
	text := fmt.Sprintf("%s, %s of %s used", known(gpu.Name), gibibytes(gpu.MemoryUsed), gibibytes(gpu.MemoryTotal))
	switch links, active := gpu.NVLinks, gpu.NVLinksActive; {
	case !links.OK:
		return finding{name, stateOK, text + ", no NVLink", ""}
	case active.Value < links.Value:
		return finding{
			name, stateMissing, fmt.Sprintf("%s, %d of %d NVLinks up", text, active.Value, links.Value),
			"links are down by design on some machines; else see nvidia-smi nvlink --status",
		}
	default:
		return finding{name, stateOK, fmt.Sprintf("%s, %d NVLinks up", text, links.Value), ""}
	}
}

// examineNIXL loads the library and lists its plugins, which is all that Warmpath does with it so far.
func examineNIXL() finding {
	lib, err := nixl.Open("")
	if err != nil {
		return finding{
			"NIXL", stateMissing, strings.ReplaceAll(err.Error(), "; ", "\n"),
			"routing works without; pip install --no-deps nixl-cu12==1.5.1, or set " + nixl.EnvLibrary,
		}
	}
	plugins, err := lib.Plugins()
	if err != nil {
		return finding{"NIXL", stateMissing, lib.Path() + ": " + err.Error(), "is $HOME readable? NIXL fails without it"}
	}
	if len(plugins) == 0 {
		return finding{"NIXL", stateMissing, lib.Path() + ": no plugins", "leave the library in its wheel's tree, or set NIXL_PLUGIN_DIR"}
	}
	return finding{"NIXL", stateOK, lib.Path() + "\nplugins " + strings.Join(plugins, " "), ""}
}

// known is the text of a field, or what stands for an unknown one.
func known(f nvml.Field[string]) string {
	if !f.OK {
		return "unknown"
	}
	return f.Value
}

func gibibytes(f nvml.Field[uint64]) string {
	if !f.OK {
		return "unknown"
	}
	return fmt.Sprintf("%.1f GiB", float64(f.Value)/(1<<30))
}
