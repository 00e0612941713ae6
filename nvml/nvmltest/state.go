package nvmltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Capacities of the C structures.
const (
	maxGPUs, maxLinks, maxFails, maxEvents, maxProcesses = 16, 18, 32, 64, 16
)

// State is the fake's behaviour from the next call on.
type State struct {
	Init    int            // result of nvmlInit_v2; 0 is success
	Version string         // of the driver
	CUDA    int            // 12080 is CUDA 12.8
	Hang    string         // a function that does not return while it is named here
	Fail    map[string]int // functions that return this nvmlReturn_t instead
	Fields  map[uint32]int // the same for field values, by id
	GPUs    []GPU
}

// GPU is one GPU of a State.
type GPU struct {
	UUID, Name, Bus string
	Facts
	Links []Link
}

// Facts are the numbers of a GPU, in NVML's units and in the order of the C structure.
type Facts struct {
	Lost uint64 // 1: it has fallen off the bus
	MemoryFacts
	Activity
	Errors
	PCIeFacts
	FabricFacts
	MIG, MIGPending, MIGInstances uint64
	ClockMemory, Energy           uint64
	Processes                     [maxProcesses]uint64 // PIDs; 0 ends the list
}

// MemoryFacts are in bytes.
type MemoryFacts struct {
	Total, Used, Reserved uint64
}

// Activity is utilization, temperature, clocks and power.
type Activity struct {
	Utilization, MemoryUtilization uint64
	Temperature, MemoryTemperature uint64
	Clock, ClockMax                uint64
	Power, PowerLimit              uint64
	Throttle                       uint64
}

// Errors are memory errors and their repair.
type Errors struct {
	VolatileCorrected, VolatileUncorrected                  uint64
	AggregateCorrected, AggregateUncorrected                uint64
	RowsCorrected, RowsUncorrected, RowsPending, RowsFailed uint64
	PagesSingle, PagesDouble, PagesPending                  uint64
	Recovery                                                uint64
}

// PCIeFacts are the link to the host.
type PCIeFacts struct {
	PCIeGen, PCIeGenMax, PCIeWidth, PCIeWidthMax uint64
	PCIeReplays, PCIeSent, PCIeReceived          uint64
}

// FabricFacts are the membership in an NVSwitch fabric.
type FabricFacts struct {
	FabricState, FabricStatus, FabricMask, FabricSummary uint64
}

// Link is one NVLink of a GPU.
type Link struct {
	Up, Version, Remote, Speed, Sent, Received uint64
	Replays, Recoveries, CRC                   uint64
	RecoveriesFailed                           uint64
}

// The raw types have the layout of the C structures.
type (
	rawGPU struct {
		UUID, Name [96]byte
		Bus        [32]byte
		Facts
		Count uint64
		Links [maxLinks]Link
	}
	rawFail struct {
		Symbol [80]byte
		Code   uint64
	}
	rawField struct{ ID, Code uint64 }
	rawEvent struct{ GPU, Type, Data, Instance uint64 }
	// rawHead is written separately from the state.
	rawHead struct {
		Seq, Calls, Head uint64
		Events           [maxEvents]rawEvent
	}
	rawState struct {
		Epoch, Init, GPUs, CUDA uint64
		Version, Hang           [80]byte
		Fails                   [maxFails]rawFail
		Fields                  [maxFails]rawField
		GPU                     [maxGPUs]rawGPU
	}
)

// encode lays out a state as the library reads it.
func (s *State) encode(epoch uint64) ([]byte, error) {
	if len(s.GPUs) > maxGPUs || len(s.Fail) > maxFails || len(s.Fields) > maxFails {
		return nil, fmt.Errorf("nvmltest: more than %d GPUs or %d failures", maxGPUs, maxFails)
	}
	raw := &rawState{Epoch: epoch, Init: uint64(s.Init), GPUs: uint64(len(s.GPUs)), CUDA: uint64(s.CUDA)}
	copy(raw.Version[:79], s.Version)
	copy(raw.Hang[:79], s.Hang)
	i := 0
	for symbol, code := range s.Fail {
		copy(raw.Fails[i].Symbol[:79], symbol)
		raw.Fails[i].Code = uint64(code)
		i++
	}
	i = 0
	for id, code := range s.Fields {
		raw.Fields[i] = rawField{uint64(id), uint64(code)}
		i++
	}
	for i, g := range s.GPUs {
		if len(g.Links) > maxLinks {
			return nil, fmt.Errorf("nvmltest: more than %d links", maxLinks)
		}
		to := &raw.GPU[i]
		to.Facts, to.Count = g.Facts, uint64(len(g.Links))
		copy(to.UUID[:95], g.UUID)
		copy(to.Name[:95], g.Name)
		copy(to.Bus[:31], g.Bus)
		copy(to.Links[:], g.Links)
	}
	var b bytes.Buffer
	err := binary.Write(&b, binary.NativeEndian, raw)
	return b.Bytes(), err
}

// HGX is a machine with 8 busy and healthy H100 behind four NVSwitches: 18 links each, 75 of 80
// GiB used, 1 GiB of it by the driver.
func HGX() State {
	s := State{
		Version: "570.86.15", CUDA: 12080,
		// Counters of Blackwell, which Hopper refuses.
		Fields: map[uint32]int{214: NotSupported, 215: NotSupported},
	}
	for i := range 8 {
		g := GPU{
			UUID: fmt.Sprintf("GPU-%08d-86f3-7a43-b711-4771313afc50", i), Name: "NVIDIA H100 80GB HBM3",
			Bus: fmt.Sprintf("00000000:%02X:00.0", 0x18+i*0x11),
			Facts: Facts{
				MemoryFacts: MemoryFacts{Total: 80 << 30, Used: 74 << 30, Reserved: 1 << 30},
				Activity: Activity{
					Utilization: 87, MemoryUtilization: 55, Temperature: 61, MemoryTemperature: 72,
					Clock: 1830, ClockMax: 1980, Power: 560_000, PowerLimit: 700_000,
				},
				ClockMemory: 2619,
				PCIeFacts:   PCIeFacts{PCIeGen: 5, PCIeGenMax: 5, PCIeWidth: 16, PCIeWidthMax: 16},
				FabricFacts: FabricFacts{
					FabricState: 3, FabricSummary: 1,
					FabricMask: 0x2 | 0x2<<2 | 0x2<<4 | 0x2<<6 | 1<<8,
				},
			},
		}
		for range 18 {
			g.Links = append(g.Links, Link{Up: 1, Version: 6, Remote: 2, Speed: 26562})
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}
