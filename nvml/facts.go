package nvml

import (
	"fmt"
	"time"
)

// State tells whether the driver can be read.
type State string

// The states of a driver, none of which is an error of this program.
const (
	StateStarting State = "starting" // nothing has been read yet
	StateReady    State = "ready"
	StateNoDriver State = "no driver" // no library, module, permission or cgo
	StateBroken   State = "broken"    // the driver refuses; Detail gives the reason
)

// Snapshot is the result of one read. It is never changed once it is published.
type Snapshot struct {
	State  State         `json:"state"`
	Detail string        `json:"detail,omitempty"` // reason why the state is not ready, for people
	At     time.Time     `json:"at"`               // when the read ended
	Took   time.Duration `json:"took_ns"`          // duration of the read
	Since  time.Time     `json:"since"`            // last initialization of the driver
	Driver Driver        `json:"driver"`
	GPUs   []GPU         `json:"gpus"` // in the driver's order

	next chan struct{} // closed when a newer snapshot is there
}

// Next is closed as soon as there is a newer snapshot.
func (s *Snapshot) Next() <-chan struct{} { return s.next }

// Driver describes the driver.
type Driver struct {
	Version Opt[string] `json:"version"` // for instance 570.86.15
	CUDA    Opt[string] `json:"cuda"`    // newest supported CUDA, for instance 12.8
	Events  bool        `json:"events"`  // whether XIDs are reported as they happen
}

// Error is an NVML return code other than success.
type Error struct {
	Code int    `json:"code"` // nvmlReturn_t
	Text string `json:"text"` // nvmlErrorString of the code
}

// Error is NVML's text and code.
func (e *Error) Error() string { return fmt.Sprintf("nvml: %s (%d)", e.Text, e.Code) }

// Codes of nvmlReturn_t that users of the facts distinguish.
const (
	CodeNoPermission  = 4
	CodeLost          = 15 // the GPU has fallen off the bus
	CodeResetRequired = 16
)

// GPU holds the facts of one GPU. Memory is in bytes.
type GPU struct {
	Index       int           `json:"index"` // as in nvidia-smi; may change at a reboot
	UUID        Opt[string]   `json:"uuid"`  // from an earlier read where the GPU no longer answers
	Name        Opt[string]   `json:"name"`  // as UUID
	Bus         Opt[string]   `json:"bus"`   // PCI address, as UUID
	Err         *Error        `json:"error"` // reason of no answer; facts are then unknown
	Since       time.Time     `json:"since"` // it has answered without interruption since then
	Memory      Memory        `json:"memory"`
	Utilization Utilization   `json:"utilization"`
	Temperature Temperature   `json:"temperature"`
	Clocks      Clocks        `json:"clocks"`
	Power       Power         `json:"power"`
	Throttle    Opt[Throttle] `json:"throttle"`
	MemoryErrors
	Interconnect
	MIG       Opt[MIG]       `json:"mig"`
	Processes Opt[[]Process] `json:"processes"` // compute processes, as far as visible to this user
	XIDs      []XID          `json:"xids"`      // the newest 32, oldest first
}

// MemoryErrors are a GPU's memory errors and their repair.
type MemoryErrors struct {
	ECC      ECC           `json:"ecc"`
	Rows     Rows          `json:"rows"`
	Pages    Pages         `json:"pages"`
	Recovery Opt[Recovery] `json:"recovery"` // the driver's own advice
}

// Interconnect is a GPU's connections to its host and, by NVLink, to other GPUs.
type Interconnect struct {
	PCIe   PCIe        `json:"pcie"`
	Links  []Link      `json:"links"` // NVLinks; none where the GPU has none
	Fabric Opt[Fabric] `json:"fabric"`
}

// Memory is in bytes.
type Memory struct {
	Total    Opt[uint64] `json:"total"`
	Free     Opt[uint64] `json:"free"`
	Used     Opt[uint64] `json:"used"`     // by processes; includes an unknown Reserved
	Reserved Opt[uint64] `json:"reserved"` // by driver and firmware; unknown before driver 510
}

// Utilization is in percent of the last sample period (1/6 to 1 s).
type Utilization struct {
	GPU    Opt[int] `json:"gpu"`    // share of time with a kernel running
	Memory Opt[int] `json:"memory"` // share of time with memory accesses
}

// Temperature is in degrees Celsius.
type Temperature struct {
	GPU    Opt[int] `json:"gpu"`
	Memory Opt[int] `json:"memory"`
}

// Clocks are in MHz.
type Clocks struct {
	SM     Opt[int] `json:"sm"`
	SMMax  Opt[int] `json:"sm_max"`
	Memory Opt[int] `json:"memory"`
}

// Power is in milliwatts.
type Power struct {
	Draw   Opt[int]    `json:"draw"`
	Limit  Opt[int]    `json:"limit"`  // enforced now, from all sources
	Energy Opt[uint64] `json:"energy"` // millijoules since the driver was loaded
}

// ECC counts memory errors: volatile ones since the driver was loaded, aggregate ones since the
// GPU was made.
type ECC struct {
	VolatileCorrected    Opt[uint64] `json:"volatile_corrected"`
	VolatileUncorrected  Opt[uint64] `json:"volatile_uncorrected"`
	AggregateCorrected   Opt[uint64] `json:"aggregate_corrected"`
	AggregateUncorrected Opt[uint64] `json:"aggregate_uncorrected"`
}

// Rows counts remapped rows: Ampere and later replace bad rows at the next reset.
type Rows struct {
	Corrected   Opt[int]  `json:"corrected"`
	Uncorrected Opt[int]  `json:"uncorrected"`
	Pending     Opt[bool] `json:"pending"` // a reset will remap
	Failed      Opt[bool] `json:"failed"`  // a remapping failed for lack of a spare row
}

// Pages counts retired pages; GPUs before Ampere retire pages instead of remapping rows.
type Pages struct {
	SingleBit Opt[int]  `json:"single_bit"`
	DoubleBit Opt[int]  `json:"double_bit"`
	Pending   Opt[bool] `json:"pending"`
}

// PCIe is the GPU's link to its host. Bytes are counted since the driver was loaded and may wrap.
type PCIe struct {
	Generation    Opt[int]    `json:"generation"` // falls while the GPU is idle, to save power
	GenerationMax Opt[int]    `json:"generation_max"`
	Width         Opt[int]    `json:"width"`
	WidthMax      Opt[int]    `json:"width_max"`
	Replays       Opt[uint64] `json:"replays"`
	Sent          Opt[uint64] `json:"sent"`
	Received      Opt[uint64] `json:"received"`
}

// XID is an error reported by the driver, by its number in NVIDIA's catalogue.
type XID struct {
	Code     int       `json:"code"`
	At       time.Time `json:"at"`       // when this process received it
	Instance Opt[int]  `json:"instance"` // the MIG GPU instance concerned, if any
}

// Process is a compute process on a GPU. Its PID is the driver's: in the machine's PID
// namespace, or the container's where the driver knows it.
type Process struct {
	PID    int         `json:"pid"`
	Memory Opt[uint64] `json:"memory"` // bytes; unknown for MIG devices and in some containers
}

// MIG is the partitioning of a GPU.
type MIG struct {
	Enabled   bool `json:"enabled"`
	Pending   bool `json:"pending"` // Enabled after the next reset
	Instances int  `json:"instances"`
}
