//go:build !purego

#include "textflag.h"

// 0 to 63, and each of 0 to 7 eight times.
DATA places<>+0(SB)/8, $0x0706050403020100
DATA places<>+8(SB)/8, $0x0f0e0d0c0b0a0908
DATA places<>+16(SB)/8, $0x1716151413121110
DATA places<>+24(SB)/8, $0x1f1e1d1c1b1a1918
DATA places<>+32(SB)/8, $0x2726252423222120
DATA places<>+40(SB)/8, $0x2f2e2d2c2b2a2928
DATA places<>+48(SB)/8, $0x3736353433323130
DATA places<>+56(SB)/8, $0x3f3e3d3c3b3a3938
GLOBL places<>(SB), RODATA|NOPTR, $64
DATA eights<>+0(SB)/8, $0x0000000000000000
DATA eights<>+8(SB)/8, $0x0101010101010101
DATA eights<>+16(SB)/8, $0x0202020202020202
DATA eights<>+24(SB)/8, $0x0303030303030303
DATA eights<>+32(SB)/8, $0x0404040404040404
DATA eights<>+40(SB)/8, $0x0505050505050505
DATA eights<>+48(SB)/8, $0x0606060606060606
DATA eights<>+56(SB)/8, $0x0707070707070707
GLOBL eights<>(SB), RODATA|NOPTR, $64

// BYTES and WORDS fill a register with one constant.
#define BYTES(c, z) MOVL $c, AX; VPBROADCASTB AX, z
#define WORDS(c, z) MOVQ $c, AX; VPBROADCASTQ AX, z

// func ids512(dst *uint32, room int, b *byte, n int) (count, used int)
//
//	DI  where the next id goes, CX  room left
//	SI  b, R8  place in it, behind a comma, R9  the last place from which 64 bytes can be read
//	R13  the next place, Z16 to Z28  constants
//
// Of 64 bytes at a time: which are commas, digits, and spaces behind commas; where elements begin and end, as masks and then, compressed,
// as lists of places; how many digits each has. Then eight elements at a time: the eight bytes from each one's begin,
// shifted so that the last digit comes to lie on top, and pairs of digits, pairs of pairs, and pairs of those are added up.
TEXT ·ids512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ room+8(FP), CX
	MOVQ b+16(FP), SI
	MOVQ n+24(FP), R9
	XORL R8, R8
	SUBQ $64, R9
	JLT  done
	BYTES(',', Z16)
	BYTES(' ', Z17)
	BYTES('0', Z18)
	BYTES(9, Z19)
	VMOVDQU64 places<>(SB), Z20
	VMOVDQU64 eights<>(SB), Z21
	WORDS(0x0706050403020100, Z22)
	WORDS(0x010a010a010a010a, Z23) // tens and ones
	WORDS(0x0001006400010064, Z24) // hundreds and ones
	WORDS(10000, Z25)
	BYTES(64, Z26)
	BYTES(7, Z27)
	BYTES(1, Z28)

block:
	CMPQ R8, R9
	JGT  done
	CMPQ CX, $32
	JLT  done
	VMOVDQU8  (SI)(R8*1), Z0
	VPCMPEQB  Z16, Z0, K1
	VPCMPEQB  Z17, Z0, K2
	VPSUBB    Z18, Z0, Z1
	VPCMPUB   $2, Z19, Z1, K3
	VPTESTNMB Z1, Z1, K4
	KMOVQ     K1, AX // commas
	KMOVQ     K2, BX // spaces
	KMOVQ     K3, R10 // digits
	KMOVQ     K4, DX // zeros

	LEAQ  1(AX)(AX*1), R11
	ANDQ  R11, BX // spaces behind commas, of which the last one may be in the block before
	ANDNQ R11, BX, R12
	LEAQ  (R12)(BX*2), R12 // begins of elements

	// Elements count up to the first byte that is none of the three, or a zero that leads an element of several digits.
	MOVQ    R10, R11
	SHRQ    $1, R11
	ANDQ    DX, R11
	ANDQ    R12, R11
	ORQ     AX, BX
	ORQ     R10, BX
	NOTQ    BX
	ORQ     R11, BX
	BLSMSKQ BX, BX
	ANDQ    BX, AX // ends of elements
	JZ      done

	// The next block begins behind the last one's comma. What it depends on is kept short: the next block waits for it.
	LZCNTQ AX, DX
	LEAQ   64(R8), R13
	SUBQ   DX, R13

	// Which of those have not 1 to 8 digits?
	KMOVQ         AX, K1
	KMOVQ         R12, K2
	VPCOMPRESSB.Z Z20, K1, Z2
	VPCOMPRESSB.Z Z20, K2, Z3
	VPSUBB        Z3, Z2, Z4
	VPSUBB        Z28, Z4, Z5
	VPCMPUB       $6, Z27, Z5, K3
	KMOVQ         K3, DX
	TZCNTQ        DX, DX
	POPCNTQ       AX, R10 // elements
	CMPQ          DX, R10
	JLT           some

all:
	VPSLLW $3, Z4, Z4
	VPSUBB Z4, Z26, Z4 // 64 less 8 for each digit
	MOVQ   DI, BX
	MOVQ   R10, DX

eight:
	VPERMB     Z3, Z21, Z6
	VPADDB     Z22, Z6, Z6
	VPERMB     Z1, Z6, Z6
	VPMOVZXBQ  X4, Z7
	VPSLLVQ    Z7, Z6, Z6
	VPMADDUBSW Z23, Z6, Z6
	VPMADDWD   Z24, Z6, Z6
	VPMULUDQ   Z25, Z6, Z7
	VPSRLQ     $32, Z6, Z6
	VPADDQ     Z7, Z6, Z6
	VPMOVQD    Z6, Y6
	VMOVDQU    Y6, (BX)
	ADDQ       $32, BX
	VALIGNQ    $1, Z3, Z3, Z3
	VALIGNQ    $1, Z4, Z4, Z4
	SUBQ       $8, DX
	JGT        eight

	LEAQ (DI)(R10*4), DI
	SUBQ R10, CX
	MOVQ R13, R8
	JMP  block

	// The elements before the first of those are the last ones.
some:
	MOVQ   DX, R10
	TESTQ  R10, R10
	JZ     done
	LEAQ   -1(R10), DX
	MOVL   $1, R11
	SHLXQ  DX, R11, R11
	PDEPQ  AX, R11, R11
	TZCNTQ R11, R11
	LEAQ   1(R8)(R11*1), R13
	MOVQ   $-1, R9
	JMP    all

done:
	VZEROUPPER
	SUBQ dst+0(FP), DI
	SHRQ $2, DI
	MOVQ DI, count+32(FP)
	MOVQ R8, used+40(FP)
	RET
