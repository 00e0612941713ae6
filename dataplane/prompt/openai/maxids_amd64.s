//go:build !purego

#include "textflag.h"

// func maxIDs256(ids *uint32, n int) uint32
TEXT ·maxIDs256(SB), NOSPLIT, $0-20
	MOVQ  ids+0(FP), SI
	MOVQ  n+8(FP), CX
	VPXOR Y0, Y0, Y0

next:
	VPMAXUD (SI), Y0, Y0
	ADDQ    $32, SI
	SUBQ    $8, CX
	JNZ     next

	// The largest of eight is in all lanes then.
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0x4E, X0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0xB1, X0, X1
	VPMAXUD      X1, X0, X0
	VMOVD        X0, AX
	MOVL         AX, ret+16(FP)
	VZEROUPPER
	RET
