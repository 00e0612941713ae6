//go:build !purego && !race

#include "textflag.h"

// func claimRow256(stripes *placeStripe, names *uint64, n int, key, base uint64) (done int)
//
// Does what places.put does with n names (at most batch), as far as these find free slots and none that could be theirs already: it stops before
// the first that needs a closer look. It reads buckets of slots and fills slots, each by one store, and touches nothing else. base is
// handle and offset of the first name as they stand in a slot. The size of a stripe is a multiple of a bucket's.
//
// The first pass hashes the names and asks for their slots, so that misses overlap; the second claims.
//	DI  stripes, SI  names, CX  n, R8  key, R9  base of this name, R10  this name
//	R11 spread, R12 tagMask, R13 0
//	0(SP)   hashes
//	512(SP) addresses of buckets, 0 in a stripe without slots
TEXT ·claimRow256(SB), 0, $1024-48
	MOVQ stripes+0(FP), DI
	MOVQ names+8(FP), SI
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

claim:
	MOVQ 512(SP)(R10*8), BX
	TESTQ BX, BX
	JZ   out
	MOVQ 0(SP)(R10*8), DX
	ANDQ R12, DX
	ORQ  R9, DX
	VMOVQ        DX, X1
	VPBROADCASTQ X1, Y1

bucket:
	VMOVDQU   (BX), Y0
	VMOVDQU   32(BX), Y2
	VPCMPEQQ  Y0, Y4, Y5     // free
	VPCMPEQQ  Y2, Y4, Y6
	VPXOR     Y0, Y1, Y0     // of the same tag, and not free
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
	JNE       claim
	JMP       out

	// The next bucket of the stripe, or the first behind the last one. Where that is the bucket of the beginning, there is no free slot.
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
	JNE  bucket

out:
	VZEROUPPER
	MOVQ R10, done+40(FP)
	RET
