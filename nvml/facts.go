package nvml

import (
	"fmt"
	"time"
)

// State says whether the driver can be read at all.
type State string

// The states of a driver. None of them is an error of this program.
const (
	StateStarting State = "starting" // nothing has been read yet
	StateReady    State = "ready"
	StateNoDriver State = "no driver" // no library, no kernel module, no permission, or a build without cgo
	StateBroken   State = "broken"    // there is a driver and it refuses: Detail says how
)

// Snapshot is what the driver told in one read. It is never changed once it is published: keep it, pass it on, compare
// it with the next one.
type Snapshot struct {
	State  State         `json:"state"`
	Detail string        `json:"detail,omitempty"` // why the state is not ready, for people
	At     time.Time     `json:"at"`               // when the read ended
	Took   time.Duration `json:"took_ns"`          // what the read cost
	Since  time.Time     `json:"since"`            // when the driver was last initialized; a reload sets it anew
	Driver Driver        `json:"driver"`
	GPUs   []GPU         `json:"gpus"` // in the driver's order

	next chan struct{} // closed when a newer snapshot is there
}

// Next is closed as soon as there is a newer snapshot.
func (s *Snapshot) Next() <-chan struct{} { return s.next }

// Driver is what the driver tells of itself.
type Driver struct {
	Version Opt[string] `json:"version"` // for instance 570.86.15
	CUDA    Opt[string] `json:"cuda"`    // newest CUDA that the driver supports, for instance 12.8
	Events  bool        `json:"events"`  // whether XIDs are told as they happen
}

// Error is what NVML answered when that was not success.
type Error struct {
	Code int    `json:"code"` // nvmlReturn_t
	Text string `json:"text"` // nvmlErrorString of the code
}

// Error gives NVML's words and code.
func (e *Error) Error() string { return fmt.Sprintf("nvml: %s (%d)", e.Text, e.Code) }

// Codes of nvmlReturn_t that mean something to a reader of facts.
const (
	CodeNoPermission  = 4
	CodeLost          = 15 // the GPU has fallen off the bus
	CodeResetRequired = 16
)

// GPU is what the driver tells of one GPU. Memory is in bytes.
type GPU struct {
	Index       int            `json:"index"` // as in nvidia-smi; may change when the machine restarts
	UUID        Opt[string]    `json:"uuid"`  // kept from an earlier read where the GPU no longer answers
	Name        Opt[string]    `json:"name"`  // as UUID
	Bus         Opt[string]    `json:"bus"`   // PCI address, as UUID
	Err         *Error         `json:"error"` // why the GPU does not answer; all that is read anew is then unknown
	Since       time.Time      `json:"since"` // since when it has answered without a break
	Memory      Memory         `json:"memory"`
	Utilization Utilization    `json:"utilization"`
	Temperature Temperature    `json:"temperature"`
	Clocks      Clocks         `json:"clocks"`
	Power       Power          `json:"power"`
	Throttle    Opt[Throttle]  `json:"throttle"`
	ECC         ECC            `json:"ecc"`
	Rows        Rows           `json:"rows"`
	Pages       Pages          `json:"pages"`
	Recovery    Opt[Recovery]  `json:"recovery"` // what the driver itself says must be done
	PCIe        PCIe           `json:"pcie"`
	Links       []Link         `json:"links"` // NVLinks; none where the GPU has none
	Fabric      Opt[Fabric]    `json:"fabric"`
	Peers       []Peer         `json:"peers"` // the other GPUs of this machine
	MIG         Opt[MIG]       `json:"mig"`
	Processes   Opt[[]Process] `json:"processes"` // that compute on it, as far as the driver tells this user
	XIDs        []XID          `json:"xids"`      // the newest, oldest first; at most 32
}

// Memory is of a GPU or a MIG instance, in bytes.
type Memory struct {
	Total    Opt[uint64] `json:"total"`
	Free     Opt[uint64] `json:"free"`
	Used     Opt[uint64] `json:"used"`     // by processes; where Reserved is not known, it is counted here
	Reserved Opt[uint64] `json:"reserved"` // by driver and firmware; not known to drivers before 510
}

// Utilization is in percent of the last sample period (1/6 to 1 s).
type Utilization struct {
	GPU    Opt[int] `json:"gpu"`    // of the time a kernel ran
	Memory Opt[int] `json:"memory"` // of the time memory was read or written
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
	Limit  Opt[int]    `json:"limit"`  // what is enforced now, from all sources
	Energy Opt[uint64] `json:"energy"` // millijoules since the driver was loaded
}

// ECC counts errors of memory. Volatile ones are since the driver was loaded, aggregate ones since the GPU was made.
type ECC struct {
	VolatileCorrected    Opt[uint64] `json:"volatile_corrected"`
	VolatileUncorrected  Opt[uint64] `json:"volatile_uncorrected"`
	AggregateCorrected   Opt[uint64] `json:"aggregate_corrected"`
	AggregateUncorrected Opt[uint64] `json:"aggregate_uncorrected"`
}

// Rows tells of row remapping, by which Ampere and later replace bad memory at the next reset.
type Rows struct {
	Corrected   Opt[int]   `json:"corrected"`
	Uncorrected Opt[int]   `json:"uncorrected"`
	Pending     Opt[bool]  `json:"pending"` // a reset will remap
	Failed      Opt[bool]  `json:"failed"`  // a remapping has failed: no spare row was left
	Spare       Opt[Spare] `json:"spare"`
}

// Spare counts memory banks by how many spare rows they have left.
type Spare struct {
	Max     int `json:"max"`
	High    int `json:"high"`
	Partial int `json:"partial"`
	Low     int `json:"low"`
	None    int `json:"none"`
}

// Pages tells of page retirement, which GPUs before Ampere have instead of row remapping.
type Pages struct {
	SingleBit Opt[int]  `json:"single_bit"`
	DoubleBit Opt[int]  `json:"double_bit"`
	Pending   Opt[bool] `json:"pending"`
}

// PCIe is the GPU's link to its host. Bytes are counted since the driver was loaded and may wrap; rates are between
// two reads.
type PCIe struct {
	Generation    Opt[int]     `json:"generation"` // falls while a GPU is idle, to save power
	GenerationMax Opt[int]     `json:"generation_max"`
	Width         Opt[int]     `json:"width"`
	WidthMax      Opt[int]     `json:"width_max"`
	Replays       Opt[uint64]  `json:"replays"`
	Sent          Opt[uint64]  `json:"sent"`
	Received      Opt[uint64]  `json:"received"`
	SendRate      Opt[float64] `json:"send_rate"` // bytes a second
	ReceiveRate   Opt[float64] `json:"receive_rate"`
}

// XID is an error that the driver reported, by its number in NVIDIA's catalogue.
type XID struct {
	Code     int       `json:"code"`
	At       time.Time `json:"at"`       // when this process heard of it
	Instance Opt[int]  `json:"instance"` // the MIG GPU instance that it is about, where it is about one
}

// Process is one that computes on a GPU. Its PID is the driver's: of the machine, or of the container where that has PIDs of its own and
// the driver knows it.
type Process struct {
	PID    int         `json:"pid"`
	Memory Opt[uint64] `json:"memory"` // bytes; not told of MIG devices, and to some containers
}

// MIG is how a GPU is divided.
type MIG struct {
	Enabled   bool       `json:"enabled"`
	Pending   bool       `json:"pending"` // Enabled after the next reset
	Instances []Instance `json:"instances"`
}

// Instance is one MIG device.
type Instance struct {
	UUID    Opt[string] `json:"uuid"`
	GPU     Opt[int]    `json:"gpu_instance"`
	Compute Opt[int]    `json:"compute_instance"`
	Memory  Memory      `json:"memory"`
}
