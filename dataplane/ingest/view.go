package ingest

import (
	"slices"
)

// Shape is a way in which some worker cuts prompts into blocks. A prompt must
// be hashed once for each shape of its model.
type Shape struct {
	Model     string
	BlockSize int  // tokens a block
	Bigram    bool // blocks of token pairs (EAGLE)
}

// View is what the request path must know of the streams. Immutable.
type View struct {
	Shapes []Shape
}

// BlockSize returns the block size whose hashes are kept with prompts: that of the first shape
// without bigrams, 0 when there is none. Prompts for other shapes are hashed at each request.
func (v *View) BlockSize() int {
	for _, shape := range v.Shapes {
		if !shape.Bigram {
			return shape.BlockSize
		}
	}
	return 0
}

// buildView gathers the shapes of these streams and tells each rank its
// holders.
func buildView(streams []*Stream) *View {
	v := &View{}
	for _, s := range streams {
		holders, shapes := s.content.view()
		ids := make([]uint32, len(holders))
		for i, id := range holders {
			ids[i] = uint32(id)
		}
		s.rank.SetIndexIDs(ids)
		for _, shape := range shapes {
			if !slices.Contains(v.Shapes, shape) {
				v.Shapes = append(v.Shapes, shape)
			}
		}
	}
	return v
}
