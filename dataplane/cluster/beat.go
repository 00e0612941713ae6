package cluster

import (
	"encoding/json"
	"fmt"
)

// beat shows that the process behind a record lives, or that it leaves.
type beat struct {
	Version  int     `json:"v"`
	Kind     string  `json:"k"`
	Name     string  `json:"n"`
	Instance string  `json:"i"`
	Seq      uint64  `json:"s,omitempty"`   // of the record that is in the bucket
	Facts    []int64 `json:"f,omitempty"`   // numbers of the node that differ from its record
	Bye      bool    `json:"bye,omitempty"` // the record is taken back

	place string // end of its subject, as decodeBeat finds it
}

func (b *beat) key() key { return key{b.Kind, b.Name} }

// beatPlace is the end of the subject of beats for a record. Permissions are by subject.
func (k key) beatPlace() string { return k.kind + "." + escape(k.owner()) }

func (b *beat) encode() []byte {
	b.Version = version
	data, err := json.Marshal(b)
	if err != nil { // strings and numbers always have a JSON form
		return nil
	}
	return data
}

// decodeBeat reads a beat; it shares no memory with data. Of one of a later release, with errNewer,
// only the key is to be believed, where its subject has the same.
func decodeBeat(data []byte) (beat, error) {
	var b beat
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("%w: beat: %w", errMalformed, err)
	}
	b.place = b.key().beatPlace()
	switch {
	case b.Version > version:
		return b, fmt.Errorf("%w: beat of version %d", errNewer, b.Version)
	case b.Version < 1 || b.Kind != kindNode && b.Kind != kindRouter || b.Instance == "" || len(b.Instance) > maxName:
		return b, fmt.Errorf("%w: beat %.64q", errMalformed, data)
	}
	return b, checkName(b.Name)
}
