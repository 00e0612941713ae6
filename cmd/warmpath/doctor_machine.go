package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/zmq"
)

// examineMachine looks at all that does not depend on any worker.
func examineMachine(version, nixlLibrary string) []finding {
	found := []finding{
		{"warmpath", stateOK, fmt.Sprintf("%s, %s, %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH), ""},
	}
	found = append(found, examineCurve()...)
	found = append(found, examineGPUs(nvml.Config{Library: os.Getenv(nvml.EnvLibrary)})...)
	return append(found, examineNIXL(nixlLibrary)...)
}

// examineCurve reports the encryption of event streams where the environment asks for it.
func examineCurve() []finding {
	switch text, err := zmq.Curve(); {
	case err != nil:
		return []finding{{"CURVE", stateUnfit, err.Error(), "no events are read; unset " + zmq.EnvCurve + ", or see SECURITY.md"}}
	case text != "":
		return []finding{{"CURVE", stateOK, text, ""}}
	}
	return nil
}

// driverPatience is how long doctor waits for the driver; a GPU whose firmware does not answer
// holds a read for 45 s.
const driverPatience = 10 * time.Second

// examineGPUs reads the driver once, and judges each GPU by the rules that routing goes by.
func examineGPUs(cfg nvml.Config) []finding {
	ctx, stop := context.WithTimeout(context.Background(), driverPatience)
	defer stop()
	seen, err := nvml.Read(ctx, cfg)
	switch {
	case err != nil:
		return []finding{{"driver", stateMissing, err.Error(), "see dmesg for XIDs; nvidia-smi should hang too"}}
	case seen.State == nvml.StateNoDriver:
		advice := "routing works without; install the NVIDIA driver where this machine has GPUs, or name its library in " + nvml.EnvLibrary
		return []finding{{"driver", stateMissing, seen.Detail, advice}}
	case seen.State != nvml.StateReady:
		return []finding{{"driver", stateMissing, seen.Detail, "routing works without; nvidia-smi should say the same"}}
	}
	text := "NVIDIA " + seen.Driver.Version.Or("unknown") + ", CUDA up to " + seen.Driver.CUDA.Or("unknown")
	if !seen.Driver.Events {
		text += ", tells no XIDs"
	}
	found := []finding{{"driver", stateOK, text, ""}}
	if len(seen.GPUs) == 0 {
		return append(found, finding{"GPUs", stateMissing, "the driver sees none", "in a container, give it GPUs: docker run --gpus all"})
	}
	for i, judged := range health.Once(seen.At, seen) {
		found = append(found, examineGPU(&seen.GPUs[i], &judged))
	}
	return found
}

// examineGPU shows a GPU and its problems.
func examineGPU(gpu *nvml.GPU, judged *health.Result) finding {
	found := finding{fmt.Sprintf("GPU %d", gpu.Index), stateOK, describeGPU(gpu), ""}
	if judged.State == health.Healthy {
		return found
	}
	found.State = stateMissing
	found.Detail += "\n" + judged.State.String()
	if judged.State == health.Degraded && judged.Weight < 1 {
		found.Detail += fmt.Sprintf(", gets %.0f %% of its share", judged.Weight*100)
	}
	if !judged.TP {
		found.Detail += ", no tensor-parallel work"
	}
	for _, reason := range judged.Reasons {
		found.Detail += "\n- " + reason.Detail
	}
	found.Advice = strings.ReplaceAll(actionAdvice[judged.Action], "-i N", fmt.Sprintf("-i %d", gpu.Index))
	return found
}

// actionAdvice says how to do what GPU N needs.
var actionAdvice = map[health.Action]string{
	health.Nothing:       "nothing to do: it ends by itself, or with the work that causes it",
	health.Look:          "find out more: nvidia-smi -q -i N, nvidia-smi nvlink --status, dmesg",
	health.ResetWhenIdle: "when nobody is on it: nvidia-smi --gpu-reset -i N",
	health.Reset:         "stop what is on it, then nvidia-smi --gpu-reset -i N",
	health.Reboot:        "restart the machine; if it comes back, the GPU or its slot is bad",
	health.Replace:       "replace the GPU",
}

func describeGPU(gpu *nvml.GPU) string {
	text := gpu.Name.Or("unknown")
	if gpu.Err != nil {
		return text
	}
	text += fmt.Sprintf(", %s of %s used", gibibytes(gpu.Memory.Used), gibibytes(gpu.Memory.Total))
	if gpu.Utilization.GPU.OK {
		text += fmt.Sprintf(", %d %% busy", gpu.Utilization.GPU.Value)
	}
	if gpu.Temperature.GPU.OK {
		text += fmt.Sprintf(", %d °C", gpu.Temperature.GPU.Value)
	}
	if mig := gpu.MIG.Value; mig.Enabled {
		text += fmt.Sprintf(", divided into %d", len(mig.Instances))
	}
	return text + ", " + describeLinks(gpu.Links)
}

// describeLinks sums up the NVLinks of a GPU, which are all of one kind.
func describeLinks(links []nvml.Link) string {
	if len(links) == 0 {
		return "no NVLink"
	}
	up, speed := 0, 0
	for _, l := range links {
		if l.Up.Or(false) {
			up++
			speed += l.Speed.Or(0)
		}
	}
	text := fmt.Sprintf("%d NVLinks", up)
	if up < len(links) {
		text = fmt.Sprintf("%d of %d NVLinks", up, len(links))
	}
	text += " up"
	if links[0].Remote.OK {
		text += ", to a " + links[0].Remote.Value
	}
	if speed > 0 {
		text += fmt.Sprintf(", %.0f GB/s each way", float64(speed)/1000)
	}
	return text
}

func gibibytes(f nvml.Opt[uint64]) string {
	if !f.OK {
		return "unknown"
	}
	return fmt.Sprintf("%.1f GiB", float64(f.Value)/(1<<30))
}
