// Package codec reads and writes the numbers, texts and lists of binary messages between members
// of a cluster. Each message is defined by its owner: load and questions in routing/peers,
// announcements in kvtier/announce, pull hints in kvtier/hint.
//
// Fixed-width numbers are little-endian, varints are unsigned LEB128 as in encoding/binary, and a
// text or a list has its length in front.
//
// Members counts the senders of such messages, and bounds those that a receiver remembers.
//
// # Ownership
//
// A Reader aliases the bytes that it reads, and so do the slices that Take and Bytes return.
//
// # Errors
//
// A Reader keeps its first fault. From then on each method returns a zero value, so a decoder
// reads all fields and asks for Err or End once. Every fault wraps ErrMessage.
package codec
