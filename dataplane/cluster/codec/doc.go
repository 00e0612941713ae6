// Package codec reads and writes the binary messages that members of a cluster exchange: load
// and questions between routers, announcements of KV tiers, pull hints, metadata of NIXL agents.
//
// Fixed-width numbers are little-endian, varints are unsigned LEB128 as in encoding/binary, and a
// text or a list has its length in front. A message's owner defines its fields and their order.
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
