package nixl

// SealMetadata puts a valid header before any body.
var SealMetadata = sealMetadata

// EncodeMetadata makes metadata of any content.
func EncodeMetadata(name string, memories []RemoteMemory, library []byte) []byte {
	data, err := (&metadata{name, memories, library}).encode()
	if err != nil {
		panic(err)
	}
	return data
}

// DecodeMetadata reads metadata.
func DecodeMetadata(data []byte) (name string, memories []RemoteMemory, library []byte, err error) {
	m, err := decodeMetadata(data)
	if err != nil {
		return "", nil, nil, err
	}
	return m.Name, m.Memories, m.Library, nil
}

// Coalesce merges pieces as Prepare does.
var Coalesce = coalesce

// Mapped reports whether the memory is still mapped.
func (m *Mapping) Mapped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file != nil
}

// Fail declares the peer dead for a reason.
func (r *Remote) Fail(reason error) { r.fail(reason) }
