package sidecar

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/nvml"
)

// fact is a number that may be unknown.
type fact = nvml.Opt[float64]

// dcgmMetric is a metric of dcgm-exporter, with name, type and help of its default-counters.csv
// or of DCGM's dcgm_fields.h. It is the same quantity in the same unit, from the same call of
// NVML. That excludes DCGM_FI_PROF_* (profiling counters, whose PCIe and NVLink bytes count
// packet headers), DCGM_FI_DEV_PCIE_*_THROUGHPUT (a sample of 20 ms, deprecated) and the two CRC
// counts of NVLink, which NVML's current field does not tell apart.
type dcgmMetric struct {
	name string
	kind prometheus.ValueType
	help string
	of   func(*nvml.GPU) fact
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
	mib     = 1 << 20
)

// value converts a fact to another unit.
func value[T ~int | ~uint64](v nvml.Opt[T], unit float64) fact {
	return fact{Value: float64(v.Value) / unit, OK: v.OK}
}

func flag(v nvml.Opt[bool]) fact { return fact{Value: boolValue(v.Value), OK: v.OK} }

// sumLinks adds a counter over all NVLinks that have it.
func sumLinks(links []nvml.Link, of func(*nvml.Link) nvml.Opt[uint64]) fact {
	var sum fact
	for i := range links {
		if v := of(&links[i]); v.OK {
			sum = nvml.Some(sum.Value + float64(v.Value))
		}
	}
	return sum
}

// nvlinkBandwidth returns the bytes sent and received since the last read in units of 1000 KiB a
// second, as DCGM does (DcgmCacheManager.cpp, ReadAndCacheNvLinkBandwidth). dcgm-exporter calls
// it a counter, and so do its dashboards.
func nvlinkBandwidth(g *nvml.GPU) fact {
	var sum fact
	for i := range g.Links {
		l := &g.Links[i]
		if l.SendRate.OK && l.ReceiveRate.OK {
			sum = nvml.Some(sum.Value + (l.SendRate.Value+l.ReceiveRate.Value)/1024/1000)
		}
	}
	return sum
}

// lastXID returns the newest XID, or 0.
func lastXID(g *nvml.GPU) fact {
	if n := len(g.XIDs); n > 0 {
		return nvml.Some(float64(g.XIDs[n-1].Code))
	}
	return nvml.Some(0.0)
}

// recoveries leaves out Blackwell, whose recoveries are another counter than this metric.
func recoveries(l *nvml.Link) nvml.Opt[uint64] {
	if !l.Replays.OK {
		return nvml.Opt[uint64]{}
	}
	return l.Recoveries
}

var dcgmMetrics = []dcgmMetric{
	{"DCGM_FI_DEV_SM_CLOCK", gauge, "SM clock frequency (in MHz).", func(g *nvml.GPU) fact { return value(g.Clocks.SM, 1) }},
	{"DCGM_FI_DEV_MEM_CLOCK", gauge, "Memory clock frequency (in MHz).", func(g *nvml.GPU) fact { return value(g.Clocks.Memory, 1) }},
	{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", gauge, "Current clock event reasons (bitmask of DCGM_CLOCKS_EVENT_REASON_*).", func(g *nvml.GPU) fact { return value(g.Throttle, 1) }},
	{"DCGM_FI_DEV_MEMORY_TEMP", gauge, "Memory temperature (in C).", func(g *nvml.GPU) fact { return value(g.Temperature.Memory, 1) }},
	{"DCGM_FI_DEV_GPU_TEMP", gauge, "GPU temperature (in C).", func(g *nvml.GPU) fact { return value(g.Temperature.GPU, 1) }},
	{"DCGM_FI_DEV_POWER_USAGE", gauge, "Power draw (in W).", func(g *nvml.GPU) fact { return value(g.Power.Draw, 1000) }},
	{"DCGM_FI_DEV_ENFORCED_POWER_LIMIT", gauge, "Effective power limit that the driver enforces (in W).", func(g *nvml.GPU) fact { return value(g.Power.Limit, 1000) }},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", counter, "Total energy consumption since boot (in mJ).", func(g *nvml.GPU) fact { return value(g.Power.Energy, 1) }},
	{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", counter, "Total number of PCIe retries.", func(g *nvml.GPU) fact { return value(g.PCIe.Replays, 1) }},
	{"DCGM_FI_DEV_PCIE_LINK_GEN", gauge, "PCIe Current Link Generation.", func(g *nvml.GPU) fact { return value(g.PCIe.Generation, 1) }},
	{"DCGM_FI_DEV_PCIE_MAX_LINK_GEN", gauge, "PCIe Max Link Generation.", func(g *nvml.GPU) fact { return value(g.PCIe.GenerationMax, 1) }},
	{"DCGM_FI_DEV_PCIE_LINK_WIDTH", gauge, "PCIe Current Link Width.", func(g *nvml.GPU) fact { return value(g.PCIe.Width, 1) }},
	{"DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", gauge, "PCIe Max Link Width.", func(g *nvml.GPU) fact { return value(g.PCIe.WidthMax, 1) }},
	{"DCGM_FI_DEV_GPU_UTIL", gauge, "GPU utilization (in %).", func(g *nvml.GPU) fact { return value(g.Utilization.GPU, 1) }},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", gauge, "Memory utilization (in %).", func(g *nvml.GPU) fact { return value(g.Utilization.Memory, 1) }},
	{"DCGM_FI_DEV_FB_TOTAL", gauge, "Total Frame Buffer of the GPU (in MiB).", func(g *nvml.GPU) fact { return value(g.Memory.Total, mib) }},
	{"DCGM_FI_DEV_FB_FREE", gauge, "Framebuffer memory free (in MiB).", func(g *nvml.GPU) fact { return value(g.Memory.Free, mib) }},
	{"DCGM_FI_DEV_FB_USED", gauge, "Framebuffer memory used (in MiB).", func(g *nvml.GPU) fact { return value(g.Memory.Used, mib) }},
	{"DCGM_FI_DEV_FB_RESERVED", gauge, "Reserved Frame Buffer (in MiB).", func(g *nvml.GPU) fact { return value(g.Memory.Reserved, mib) }},
	{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", counter, "Total number of single-bit volatile ECC errors.", func(g *nvml.GPU) fact { return value(g.ECC.VolatileCorrected, 1) }},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", counter, "Total number of double-bit volatile ECC errors.", func(g *nvml.GPU) fact { return value(g.ECC.VolatileUncorrected, 1) }},
	{"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", counter, "Total number of single-bit persistent ECC errors.", func(g *nvml.GPU) fact { return value(g.ECC.AggregateCorrected, 1) }},
	{"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", counter, "Total number of double-bit persistent ECC errors.", func(g *nvml.GPU) fact { return value(g.ECC.AggregateUncorrected, 1) }},
	{"DCGM_FI_DEV_RETIRED_SBE", counter, "Total number of retired pages due to single-bit errors.", func(g *nvml.GPU) fact { return value(g.Pages.SingleBit, 1) }},
	{"DCGM_FI_DEV_RETIRED_DBE", counter, "Total number of retired pages due to double-bit errors.", func(g *nvml.GPU) fact { return value(g.Pages.DoubleBit, 1) }},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", counter, "Number of remapped rows for uncorrectable errors", func(g *nvml.GPU) fact { return value(g.Rows.Uncorrected, 1) }},
	{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", counter, "Number of remapped rows for correctable errors", func(g *nvml.GPU) fact { return value(g.Rows.Corrected, 1) }},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", gauge, "Whether remapping of rows has failed", func(g *nvml.GPU) fact { return flag(g.Rows.Failed) }},
	{"DCGM_FI_DEV_ROW_REMAP_PENDING", gauge, "Whether remapping of rows is pending", func(g *nvml.GPU) fact { return flag(g.Rows.Pending) }},
	{"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", counter, "Total number of NVLink retries.", func(g *nvml.GPU) fact {
		return sumLinks(g.Links, func(l *nvml.Link) nvml.Opt[uint64] { return l.Replays })
	}},
	{"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", counter, "Total number of NVLink recovery errors.", func(g *nvml.GPU) fact { return sumLinks(g.Links, recoveries) }},
	{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", counter, "Total number of NVLink bandwidth counters for all lanes", nvlinkBandwidth},
}

// xidErrors is sent only where the driver reports XIDs: 0 would mean that there were none.
var xidErrors = dcgmMetric{"DCGM_FI_DEV_XID_ERRORS", gauge, "Value of the last XID error encountered.", lastXID}
