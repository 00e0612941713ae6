//go:build !purego

#include "textflag.h"

// GROUP adds the product of V1's halves, each xor its secret word at R9, to V0.
#define GROUP \
	VLD1.P 16(R9), [V2.B16]; \
	VEOR   V2.B16, V1.B16, V1.B16; \
	VEXT   $8, V1.B16, V1.B16, V2.B16; \
	VPMULL V2.D1, V1.D1, V1.Q1; \
	VEOR   V1.B16, V0.B16, V0.B16

// pieces128 equals hashPiecesGo and touches no other memory: it hashes n consecutive pieces of
// size tokens (1 to pieceMax) to dst[0:n]. words are the secret words of the tokens; lo and hi
// are the initial value of each sum.
//
// func pieces128(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)
//
//	R0  dst, R1  tokens, R2  pieces left
//	R7  whole groups in a piece, R8  tokens behind the groups
TEXT ·pieces128(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD tokens+8(FP), R1
	MOVD n+16(FP), R2
	MOVD size+24(FP), R3
	MOVD words+32(FP), R4
	MOVD lo+40(FP), R5
	MOVD hi+48(FP), R6
	LSR  $2, R3, R7
	AND  $3, R3, R8

piece:
	VMOV R5, V0.D[0]
	VMOV R6, V0.D[1]
	MOVD R4, R9
	MOVD R7, R10
	CBZ  R10, tail

group:
	VLD1.P 16(R1), [V1.B16]
	GROUP
	SUB    $1, R10
	CBNZ   R10, group

tail: // R11 and R12 become the words of 1 to 3 tokens
	CBZ     R8, summed
	MOVD    ZR, R12
	TBZ     $1, R8, one
	MOVD.P  8(R1), R11
	TBZ     $0, R8, loaded
	MOVWU.P 4(R1), R12
	B       loaded

one:
	MOVWU.P 4(R1), R11

loaded:
	VMOV R11, V1.D[0]
	VMOV R12, V1.D[1]
	GROUP

summed:
	VMOV   V0.D[0], R10
	VMOV   V0.D[1], R11
	MUL    R10, R11, R12
	UMULH  R10, R11, R13
	EOR    R12, R13, R12
	MOVD.P R12, 8(R0)
	SUB    $1, R2
	CBNZ   R2, piece
	RET
