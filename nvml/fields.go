//go:build cgo && linux

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// fieldBatch bounds the field values of one call. NVML documents no limit; an H100 with 18
// links has 178, and three calls cost no more than one.
const fieldBatch = 64

// gpuFields are read for each GPU.
var gpuFields = []struct {
	id  uint32
	set func(*GPU, uint64)
}{
	{nvml.FI_DEV_ECC_SBE_VOL_TOTAL, func(g *GPU, v uint64) { g.ECC.VolatileCorrected = Some(v) }},
	{nvml.FI_DEV_ECC_DBE_VOL_TOTAL, func(g *GPU, v uint64) { g.ECC.VolatileUncorrected = Some(v) }},
	{nvml.FI_DEV_ECC_SBE_AGG_TOTAL, func(g *GPU, v uint64) { g.ECC.AggregateCorrected = Some(v) }},
	{nvml.FI_DEV_ECC_DBE_AGG_TOTAL, func(g *GPU, v uint64) { g.ECC.AggregateUncorrected = Some(v) }},
	{nvml.FI_DEV_RETIRED_SBE, func(g *GPU, v uint64) { g.Pages.SingleBit = Some(int(v)) }},
	{nvml.FI_DEV_RETIRED_DBE, func(g *GPU, v uint64) { g.Pages.DoubleBit = Some(int(v)) }},
	{nvml.FI_DEV_RETIRED_PENDING, func(g *GPU, v uint64) { g.Pages.Pending = Some(v != 0) }},
	{nvml.FI_DEV_REMAPPED_COR, func(g *GPU, v uint64) { g.Rows.Corrected = Some(int(v)) }},
	{nvml.FI_DEV_REMAPPED_UNC, func(g *GPU, v uint64) { g.Rows.Uncorrected = Some(int(v)) }},
	{nvml.FI_DEV_REMAPPED_PENDING, func(g *GPU, v uint64) { g.Rows.Pending = Some(v != 0) }},
	{nvml.FI_DEV_REMAPPED_FAILURE, func(g *GPU, v uint64) { g.Rows.Failed = Some(v != 0) }},
	{nvml.FI_DEV_MEMORY_TEMP, func(g *GPU, v uint64) { g.Temperature.Memory = Some(int(v)) }},
	{nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION, func(g *GPU, v uint64) { g.Power.Energy = Some(v) }},
	{nvml.FI_DEV_PCIE_REPLAY_COUNTER, func(g *GPU, v uint64) { g.PCIe.Replays = Some(v) }},
	{nvml.FI_DEV_PCIE_COUNT_TX_BYTES, func(g *GPU, v uint64) { g.PCIe.Sent = Some(v) }},
	{nvml.FI_DEV_PCIE_COUNT_RX_BYTES, func(g *GPU, v uint64) { g.PCIe.Received = Some(v) }},
	{nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, func(g *GPU, v uint64) { g.Recovery = Some(Recovery(named(recoveries, v))) }},
}

// linkFields are read for each NVLink; the link's number is the field's scope. They replace the
// deprecated NVLINK_BANDWIDTH_* and GetNvLinkUtilization*. The ERROR_DL_* do not exist on
// Blackwell, the COUNT_* only there.
var linkFields = []struct {
	id  uint32
	set func(*Link, uint64)
}{
	{nvml.FI_DEV_NVLINK_GET_SPEED, func(l *Link, v uint64) { l.Speed = Some(int(v)) }},
	// KiB.
	{nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, func(l *Link, v uint64) { l.Sent = Some(v << 10) }},
	{nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, func(l *Link, v uint64) { l.Received = Some(v << 10) }},
	{nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY, func(l *Link, v uint64) { l.Replays = Some(v) }},
	{nvml.FI_DEV_NVLINK_ERROR_DL_RECOVERY, func(l *Link, v uint64) { l.Recoveries = Some(v) }},
	{nvml.FI_DEV_NVLINK_ERROR_DL_CRC, func(l *Link, v uint64) { l.CRC = Some(v) }},
	{nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, func(l *Link, v uint64) { l.Recoveries = Some(v) }},
	{nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, func(l *Link, v uint64) { l.RecoveriesFailed = Some(v) }},
}

// plannedField is a field value to ask for at each read.
type plannedField struct {
	id, scope uint32
	set       func(*GPU, uint64)
}

// planFields lists all field values of a GPU. readFields removes those that the GPU refuses.
func planFields(links int) []plannedField {
	plan := make([]plannedField, 0, len(gpuFields)+links*len(linkFields))
	for _, f := range gpuFields {
		plan = append(plan, plannedField{f.id, 0, f.set})
	}
	for link := range links {
		for _, f := range linkFields {
			plan = append(plan, plannedField{f.id, uint32(link), func(g *GPU, v uint64) { f.set(&g.Links[link], v) }})
		}
	}
	return plan
}

// readFields asks for all fields of the plan, in batches.
func (g *device) readFields(v *GPU) {
	supported := g.plan[:0]
	for rest := g.plan; len(rest) > 0; {
		batch := rest[:min(len(rest), fieldBatch)]
		rest = rest[len(batch):]
		values := get(g, "nvmlDeviceGetFieldValues", func() ([]nvml.FieldValue, nvml.Return) {
			values := make([]nvml.FieldValue, len(batch))
			for i, p := range batch {
				values[i].FieldId, values[i].ScopeId = p.id, p.scope
			}
			return values, g.GetFieldValues(values)
		})
		for i, p := range batch {
			if !values.OK || apply(v, p, &values.Value[i]) {
				supported = append(supported, p)
			}
		}
	}
	g.plan = supported
}

// apply stores a value, and reports whether to ask for it again.
func apply(v *GPU, p plannedField, value *nvml.FieldValue) bool {
	switch nvml.Return(value.NvmlReturn) {
	case nvml.SUCCESS:
		if n := decodeValue(value.ValueType, value.Value); n.OK {
			p.set(v, n.Value)
		}
		return true
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT:
		return false
	default:
		return true
	}
}

// rates fills in the rates of links between two reads.
func (g *device) rates(v *GPU, seconds float64) {
	for i := range min(len(v.Links), len(g.last.Links)) {
		was, is := &g.last.Links[i], &v.Links[i]
		is.SendRate = rate(was.Sent, is.Sent, seconds)
		is.ReceiveRate = rate(was.Received, is.Received, seconds)
	}
}
