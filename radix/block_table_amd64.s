//go:build !purego && !race

#include "textflag.h"

// func insertBatch256(stripes *blockStripe, hashes *uint64, n int, key, base uint64) (done int)
//
// Does insertOne for n engine hashes (at most insertBatch), as far as they find free slots and
// no slot of an equal tag: it stops before the first that needs a closer look. It reads cache
// lines of slots and fills each slot by one store; the size of a stripe is a multiple of a
// cache line. base is handle and offset of the first engine hash as in a slot.
//
// The first pass hashes the engine hashes and prefetches their slots, so that cache misses
// overlap; the second inserts.
//	DI  stripes, SI  hashes, CX  n, R8  key, R9  base of this one, R10  index of this one
//	R11 spread, R12 tagMask, R13 0
//	0(SP)   hashes of the engine hashes
//	512(SP) addresses of cache lines, 0 in a stripe without slots
TEXT ·insertBatch256(SB), 0, $1024-48
	MOVQ stripes+0(FP), DI
	MOVQ hashes+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ key+24(FP), R8
	MOVQ base+32(FP), R9
	MOVQ $0x9e3779b97f4a7c15, R11
	MOVQ $0xfffff, R12
	XORQ R10, R10
	XORQ R13, R13
	TESTQ CX, CX
	JZ   out

hash:
	MOVQ (SI)(R10*8), AX
	XORQ R8, AX
	MULQ R11
	XORQ DX, AX
	MOVQ AX, 0(SP)(R10*8)
	MOVQ AX, BX
	SHRQ $56, BX
	SHLQ $6, BX
	ADDQ DI, BX
	ANDQ R12, AX
	IMULQ 8(BX), AX
	SHRQ $20, AX
	ANDQ $~7, AX
	MOVQ (BX), DX
	LEAQ (DX)(AX*8), DX
	CMPQ 8(BX), $0
	CMOVQEQ R13, DX
	MOVQ DX, 512(SP)(R10*8)
	PREFETCHT0 (DX)
	INCQ R10
	CMPQ R10, CX
	JNE  hash

	VMOVQ        R12, X3
	VPBROADCASTQ X3, Y3
	VPXOR        Y4, Y4, Y4
	XORQ R10, R10

insert:
	MOVQ 512(SP)(R10*8), BX
	TESTQ BX, BX
	JZ   out
	MOVQ 0(SP)(R10*8), DX
	ANDQ R12, DX
	ORQ  R9, DX
	VMOVQ        DX, X1
	VPBROADCASTQ X1, Y1

line:
	VMOVDQU   (BX), Y0
	VMOVDQU   32(BX), Y2
	VPCMPEQQ  Y0, Y4, Y5     // free
	VPCMPEQQ  Y2, Y4, Y6
	VPXOR     Y0, Y1, Y0     // equal tags, free slots excluded
	VPXOR     Y2, Y1, Y2
	VPAND     Y0, Y3, Y0
	VPAND     Y2, Y3, Y2
	VPCMPEQQ  Y0, Y4, Y0
	VPCMPEQQ  Y2, Y4, Y2
	VPANDN    Y0, Y5, Y0
	VPANDN    Y2, Y6, Y2
	VPOR      Y0, Y2, Y0
	VPTEST    Y0, Y0
	JNZ       out
	VMOVMSKPD Y5, AX
	VMOVMSKPD Y6, R15
	SHLL      $4, R15
	ORL       R15, AX
	JZ        full
	BSFL      AX, AX
	LEAQ      (BX)(AX*8), R15
	MOVQ      DX, (R15)
	ADDQ      $(1<<20), R9
	INCQ      R10
	CMPQ      R10, CX
	JNE       insert
	JMP       out

	// The next cache line of the stripe, or the first behind the last. Back at the line where
	// probing began, there is no free slot.
full:
	MOVQ 0(SP)(R10*8), AX
	SHRQ $56, AX
	SHLQ $6, AX
	ADDQ DI, AX
	MOVQ (AX), R15
	MOVQ 8(AX), AX
	LEAQ (R15)(AX*8), AX
	ADDQ $64, BX
	CMPQ BX, AX
	CMOVQEQ R15, BX
	CMPQ BX, 512(SP)(R10*8)
	JNE  line

out:
	VZEROUPPER
	MOVQ R10, done+40(FP)
	RET
