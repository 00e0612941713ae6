//go:build !race

package turns

const (
	slotBits = 15 // of branches
	// markSlots hold some 60 marks for each of 4,096 agents. Marks of chats are three or four.
	markSlots = 1 << 18
)
