//go:build !purego

#include "textflag.h"

// FOLD multiplies the low and the high word of x and stores the folded product.
#define FOLD(x, to) \
	VMOVQ   x, AX; \
	VPEXTRQ $1, x, DX; \
	MULQ    DX; \
	XORQ    DX, AX; \
	MOVQ    AX, to

// For each of n units of size bytes, one behind the other at p: of each two words, each met by a secret word of its own, the carry-less
// product; the sum of those, of lo and of hi is folded to dst.
//
// func units512(dst *Key, p unsafe.Pointer, n, size int, words *uint64, lo, hi uint64)
//
//	DI  dst, SI  p, CX  units left, R8  bytes of a unit, a multiple of 64, R9  words
//	X8  lo and hi, Z9, Z10  the words of a unit's first 128 bytes
TEXT ·units512(SB), NOSPLIT, $0-56
	MOVQ    dst+0(FP), DI
	MOVQ    p+8(FP), SI
	MOVQ    n+16(FP), CX
	MOVQ    size+24(FP), R8
	MOVQ    words+32(FP), R9
	VMOVQ   lo+40(FP), X8
	VPINSRQ $1, hi+48(FP), X8, X8
	VMOVDQU64 (R9), Z9
	CMPQ    R8, $128
	JNE     unit
	VMOVDQU64 64(R9), Z10

	// Units of 128 bytes, which are the usual ones.
usual:
	VPXORQ        (SI), Z9, Z0
	VPXORQ        64(SI), Z10, Z1
	VPCLMULQDQ    $1, Z0, Z0, Z0
	VPCLMULQDQ    $1, Z1, Z1, Z1
	VPXORQ        Z1, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y1
	VPXOR         Y1, Y0, Y0
	VEXTRACTI128  $1, Y0, X1
	VPTERNLOGQ    $0x96, X8, X1, X0
	FOLD(X0, (DI))
	ADDQ          $8, DI
	ADDQ          $128, SI
	DECQ          CX
	JNZ           usual
	VZEROUPPER
	RET

	// Units of any size.
unit:
	VPXORQ     (SI), Z9, Z0
	VPCLMULQDQ $1, Z0, Z0, Z0
	MOVL       $64, BX

step:
	CMPQ       BX, R8
	JGE        summed
	VMOVDQU64  (SI)(BX*1), Z1
	VPXORQ     (R9)(BX*1), Z1, Z1
	VPCLMULQDQ $1, Z1, Z1, Z1
	VPXORQ     Z1, Z0, Z0
	ADDQ       $64, BX
	JMP        step

summed:
	VEXTRACTI64X4 $1, Z0, Y1
	VPXOR         Y1, Y0, Y0
	VEXTRACTI128  $1, Y0, X1
	VPTERNLOGQ    $0x96, X8, X1, X0
	FOLD(X0, (DI))
	ADDQ          $8, DI
	ADDQ          R8, SI
	DECQ          CX
	JNZ           unit
	VZEROUPPER
	RET
