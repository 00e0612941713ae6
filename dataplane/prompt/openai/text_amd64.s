//go:build !purego

#include "textflag.h"

// What may stand behind a backslash, "\/bfnrtu, by the lower and by the upper half of its byte: it does where both have a bit in common.
DATA lower<>+0(SB)/8, $0x00040808000d0000
DATA lower<>+8(SB)/8, $0x0104000200000000
GLOBL lower<>(SB), RODATA|NOPTR, $16
DATA upper<>+0(SB)/8, $0x0804020000010000
DATA upper<>+8(SB)/8, $0x0000000000000000
GLOBL upper<>(SB), RODATA|NOPTR, $16

#define BYTES(c, z) MOVL $c, AX; VPBROADCASTB AX, z

// func text512(b *byte, n int) (used int, high, escapes uint64)
//
//	SI  b, R8  place in it, never inside of an escape, R9  the last place from which 64 bytes can be read
//	Z4  all bytes passed, or-ed; R13, Z16 to Z26  constants
TEXT ·text512(SB), NOSPLIT, $0-40
	MOVQ b+0(FP), SI
	MOVQ n+8(FP), R9
	XORL R8, R8
	MOVQ R8, escapes+32(FP)
	SUBQ $64, R9
	VPXORQ Z4, Z4, Z4
	BYTES('"', Z16)
	BYTES(0x5c, Z17) // backslash
	BYTES(' ', Z18)
	MOVQ $0xaaaaaaaaaaaaaaaa, R13

block:
	CMPQ      R8, R9
	JGT       done
	VMOVDQU8  (SI)(R8*1), Z0
	VPCMPEQB  Z16, Z0, K1
	VPCMPEQB  Z17, Z0, K2
	VPCMPUB   $1, Z18, Z0, K3
	VPORQ     Z0, Z4, Z4
	KORQ      K1, K3, K1
	KORTESTQ  K1, K2
	JNE       found
	ADDQ      $64, R8
	JMP       block

found:
	KMOVQ  K1, AX // quotes and control characters
	KMOVQ  K2, BX // backslashes
	TESTQ  BX, BX
	JNE    escapes
	TZCNTQ AX, AX
	ADDQ   AX, R8
	JMP    done

	// Which backslashes begin an escape and which bytes one ends with: a run of them counts from its first, as in simdjson.
escapes:
	BYTES(15, Z19)
	VBROADCASTI32X4 lower<>(SB), Z20
	VBROADCASTI32X4 upper<>(SB), Z21
	KMOVQ K1, AX
	LEAQ  (BX)(BX*1), R10
	ORQ   R13, R10
	SUBQ  BX, R10
	XORQ  R13, R10
	MOVQ  R10, R11
	XORQ  BX, R11 // escaped
	ANDQ  BX, R10 // begin an escape

	VPANDQ   Z19, Z0, Z1
	VPSRLW   $4, Z0, Z2
	VPANDQ   Z19, Z2, Z2
	VPSHUFB  Z1, Z20, Z1
	VPSHUFB  Z2, Z21, Z2
	VPTESTMB Z1, Z2, K4
	KMOVQ    K4, DX
	ANDNQ    R11, DX, DX // escaped, but may not be

	MOVL         $'u', CX
	VPBROADCASTB CX, Z22
	VPCMPEQB     Z22, Z0, K5
	KMOVQ        K5, R12
	ANDQ         R11, R12
	JZ           stops

	// A u must have four hex digits behind it; where they are not all in this block, it is looked at again from the next one.
	MOVL         $'0', CX
	VPBROADCASTB CX, Z23
	MOVL         $9, CX
	VPBROADCASTB CX, Z24
	VPSUBB       Z23, Z0, Z1
	VPCMPUB      $2, Z24, Z1, K6
	MOVL         $0x20, CX
	VPBROADCASTB CX, Z23
	VPORQ        Z23, Z0, Z2
	MOVL         $'a', CX
	VPBROADCASTB CX, Z23
	MOVL         $5, CX
	VPBROADCASTB CX, Z24
	VPSUBB       Z23, Z2, Z2
	VPCMPUB      $2, Z24, Z2, K7
	KORQ         K6, K7, K6
	KMOVQ        K6, BX
	SHRQ         $1, BX
	MOVQ         BX, CX
	SHRQ         $1, CX
	ANDQ         CX, BX
	MOVQ         BX, CX
	SHRQ         $2, CX
	ANDQ         CX, BX
	ANDNQ        R12, BX, R12
	SHRQ         $1, R12 // backslashes of escapes that are not whole, or wrong

	// What ends the text, and what begins the next block: that, and a backslash at the end of this one.
stops:
	ANDNQ AX, R11, AX
	SHRQ  $1, DX
	ORQ   DX, AX
	MOVQ  R10, CX
	SHRQ  $63, CX
	SHLQ  $63, CX
	ORQ   CX, R12
	ORQ   AX, R12
	BLSMSKQ R12, CX
	ANDQ  CX, R10
	ORQ   R10, escapes+32(FP)
	TZCNTQ R12, CX // 64: the block is passed
	ADDQ  CX, R8
	TZCNTQ AX, AX
	CMPQ  CX, $64
	JEQ   block
	CMPQ  AX, CX
	JEQ   done
	TESTQ CX, CX
	JNE   block

done:
	VPMOVB2M Z4, K1
	KMOVQ    K1, AX
	MOVQ     R8, used+16(FP)
	MOVQ     AX, high+24(FP)
	VZEROUPPER
	RET
