package proxy

// GrowthOf is growth of descriptors.
func GrowthOf(all []Sample, slack float64) Growth {
	return growth("descriptors", all, slack, func(s Sample) float64 { return float64(s.Descriptors) })
}
