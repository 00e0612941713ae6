package nixl

// PackMetadata makes metadata of any content.
func PackMetadata(name string, memories []RemoteMemory, blob []byte) []byte {
	return (&metadata{name, memories, blob}).append(nil)
}

// UnpackMetadata takes it apart.
func UnpackMetadata(data []byte) (name string, memories []RemoteMemory, blob []byte, err error) {
	m, err := decodeMetadata(data)
	if err != nil {
		return "", nil, nil, err
	}
	return m.name, m.memories, m.blob, nil
}

// SortByLocal is the sort of Coalesce.
var SortByLocal = sortByLocal
