//go:build !purego

#include "textflag.h"

// Both functions equal hashPiecesGo and touch no other memory: they hash n consecutive pieces
// of size tokens (1 to pieceMax) to dst[0:n]. words are the secret words of the tokens; lo and
// hi are the initial value of each sum.
//
// Throughout:
//	DI  dst, SI  tokens, CX  pieces left, R9  words
//	X8  lo and hi

// FOLD multiplies the low and the high word of x and stores the folded product.
#define FOLD(x, to) \
	VMOVQ   x, AX; \
	VPEXTRQ $1, x, DX; \
	MULQ    DX; \
	XORQ    DX, AX; \
	MOVQ    AX, to

// SUM16 leaves the sum of 16 tokens at tokens+at in the stack at sum: four products, added up
// by halves. x, y and z are one register. The stack lets four sums flow at once; VPEXTRQ is a
// fifth slower here.
#define SUM16(at, x, y, z, sum) \
	VPXORQ        at(SI), Z9, z; \
	VPCLMULQDQ    $1, z, z, z; \
	VEXTRACTI64X4 $1, z, Y4; \
	VPXOR         Y4, y, y; \
	VEXTRACTI128  $1, y, X4; \
	VPTERNLOGQ    $0x96, X8, X4, x; \ // x ^= X4 ^ X8
	VMOVDQU       x, sum(SP)

// FOLD16 folds such a sum.
#define FOLD16(sum, to) \
	MOVQ sum(SP), AX; \
	MULQ (sum+8)(SP); \
	XORQ DX, AX; \
	MOVQ AX, to(DI)

// func pieces512(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)
TEXT ·pieces512(SB), NOSPLIT, $64-56
	MOVQ    dst+0(FP), DI
	MOVQ    tokens+8(FP), SI
	MOVQ    n+16(FP), CX
	MOVQ    size+24(FP), R8
	MOVQ    words+32(FP), R9
	VMOVQ   lo+40(FP), X8
	VPINSRQ $1, hi+48(FP), X8, X8

	CMPQ R8, $16
	JNE  any
	VMOVDQU64 (R9), Z9

	// Pieces of 16 tokens, four at a time.
four:
	CMPQ CX, $4
	JLT  any
	SUM16(0, X0, Y0, Z0, 0)
	SUM16(64, X1, Y1, Z1, 16)
	SUM16(128, X2, Y2, Z2, 32)
	SUM16(192, X3, Y3, Z3, 48)
	FOLD16(0, 0)
	FOLD16(16, 8)
	FOLD16(32, 16)
	FOLD16(48, 24)
	ADDQ $256, SI
	ADDQ $32, DI
	SUBQ $4, CX
	JMP  four

	// Pieces of any size: chunks of 16 tokens, of which the last may have fewer.
	//	R8   bytes of a piece
	//	R10  bytes of a piece before its last chunk
	//	K1   the tokens of the last chunk
	//	Z9   the words of its groups; 0, and so are the products, where it has none
any:
	TESTQ CX, CX
	JZ    done
	LEAQ  -1(R8), BX
	MOVQ  BX, R10
	SHRQ  $4, R10
	SHLQ  $6, R10
	ANDQ  $15, BX
	SHLQ  $2, R8

	LEAQ  1(BX), DX
	XORL  AX, AX
	BTSQ  DX, AX
	DECQ  AX
	KMOVW AX, K1 // DX ones: a bit is a token

	SHRQ        $2, BX
	LEAQ        2(BX)(BX*1), DX
	XORL        AX, AX
	BTSQ        DX, AX
	DECQ        AX
	KMOVW       AX, K2 // DX ones: a bit is a word, and a group has two
	VMOVDQU64.Z (R9)(R10*1), K2, Z9

piece:
	VMOVDQU32.Z (SI)(R10*1), K1, Z0
	VPXORQ      Z9, Z0, Z0
	VPCLMULQDQ  $1, Z0, Z0, Z0
	MOVQ        R10, BX
	TESTQ       BX, BX
	JZ          summed

chunk: // from the last but one to the first
	VMOVDQU64  -64(SI)(BX*1), Z1
	VPXORQ     -64(R9)(BX*1), Z1, Z1
	VPCLMULQDQ $1, Z1, Z1, Z1
	VPXORQ     Z1, Z0, Z0
	SUBQ       $64, BX
	JNZ        chunk

summed:
	VEXTRACTI64X4 $1, Z0, Y1
	VPXOR         Y1, Y0, Y0
	VEXTRACTI128  $1, Y0, X1
	VPTERNLOGQ    $0x96, X8, X1, X0
	FOLD(X0, (DI))
	ADDQ          $8, DI
	ADDQ          R8, SI
	DECQ          CX
	JNZ           piece

done:
	VZEROUPPER
	RET

// tails<> has the load masks of a last group of 1 to 4 tokens.
DATA tails<>+0(SB)/8, $0x00000000ffffffff
DATA tails<>+8(SB)/8, $0
DATA tails<>+16(SB)/8, $0xffffffffffffffff
DATA tails<>+24(SB)/8, $0
DATA tails<>+32(SB)/8, $0xffffffffffffffff
DATA tails<>+40(SB)/8, $0x00000000ffffffff
DATA tails<>+48(SB)/8, $0xffffffffffffffff
DATA tails<>+56(SB)/8, $0xffffffffffffffff
GLOBL tails<>(SB), RODATA|NOPTR, $64

// func pieces128(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)
//
//	R8   bytes of a piece
//	R10  bytes of a piece before its last group
//	X9   the mask of the last group
TEXT ·pieces128(SB), NOSPLIT, $0-56
	MOVQ    dst+0(FP), DI
	MOVQ    tokens+8(FP), SI
	MOVQ    n+16(FP), CX
	MOVQ    size+24(FP), R8
	MOVQ    words+32(FP), R9
	VMOVQ   lo+40(FP), X8
	VPINSRQ $1, hi+48(FP), X8, X8

	LEAQ    -1(R8), BX
	MOVQ    BX, R10
	SHRQ    $2, R10
	SHLQ    $4, R10
	ANDQ    $3, BX
	SHLQ    $4, BX
	LEAQ    tails<>(SB), AX
	VMOVDQU (AX)(BX*1), X9
	SHLQ    $2, R8

piece:
	VPMASKMOVD (SI)(R10*1), X9, X0
	VPXOR      (R9)(R10*1), X0, X0
	VPCLMULQDQ $1, X0, X0, X0
	VPXOR      X8, X0, X0
	MOVQ       R10, BX
	TESTQ      BX, BX
	JZ         summed

group: // from the last but one to the first
	VMOVDQU    -16(SI)(BX*1), X1
	VPXOR      -16(R9)(BX*1), X1, X1
	VPCLMULQDQ $1, X1, X1, X1
	VPXOR      X1, X0, X0
	SUBQ       $16, BX
	JNZ        group

summed:
	FOLD(X0, (DI))
	ADDQ $8, DI
	ADDQ R8, SI
	DECQ CX
	JNZ  piece
	VZEROUPPER
	RET
