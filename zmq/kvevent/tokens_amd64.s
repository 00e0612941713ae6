//go:build !purego

#include "textflag.h"

// 1 to 64: the place behind each byte.
DATA behind<>+0(SB)/8, $0x0807060504030201
DATA behind<>+8(SB)/8, $0x100f0e0d0c0b0a09
DATA behind<>+16(SB)/8, $0x1817161514131211
DATA behind<>+24(SB)/8, $0x201f1e1d1c1b1a19
DATA behind<>+32(SB)/8, $0x2827262524232221
DATA behind<>+40(SB)/8, $0x302f2e2d2c2b2a29
DATA behind<>+48(SB)/8, $0x3837363534333231
DATA behind<>+56(SB)/8, $0x403f3e3d3c3b3a39
GLOBL behind<>(SB), RODATA|NOPTR, $64

// Each of 0 to 15 four times.
DATA fours<>+0(SB)/8, $0x0101010100000000
DATA fours<>+8(SB)/8, $0x0303030302020202
DATA fours<>+16(SB)/8, $0x0505050504040404
DATA fours<>+24(SB)/8, $0x0707070706060606
DATA fours<>+32(SB)/8, $0x0909090908080808
DATA fours<>+40(SB)/8, $0x0b0b0b0b0a0a0a0a
DATA fours<>+48(SB)/8, $0x0d0d0d0d0c0c0c0c
DATA fours<>+56(SB)/8, $0x0f0f0f0f0e0e0e0e
GLOBL fours<>(SB), RODATA|NOPTR, $64

// By the low half of a code, 8-bit cc, 16-bit cd and 32-bit ce: how many bytes follow it, and how many have the value, less one.
DATA follow<>+0(SB)/8, $0x0000000000000000
DATA follow<>+8(SB)/8, $0x0004020100000000
GLOBL follow<>(SB), RODATA|NOPTR, $16
DATA value<>+0(SB)/8, $0x0000000000000000
DATA value<>+8(SB)/8, $0x0003010000000000
GLOBL value<>(SB), RODATA|NOPTR, $16

// BYTES and DWORDS fill a register with one constant.
#define BYTES(c, z) MOVL $c, AX; VPBROADCASTB AX, z
#define DWORDS(c, z) MOVL $c, AX; VPBROADCASTD AX, z
#define MASK(c, k) MOVL $c, AX; KMOVQ AX, k

// func tokens512(dst *uint32, n int, b *byte, size int) (count, used int)
//
//	DI  where the next id goes, CX  ids left
//	SI  b, R8  place in it, an id's first byte, R9  the last place from which 64 bytes can be read
//	Z16 to Z26  constants, K1 to K4  the numbers below 16 with bit 0, 1, 2, 3, K7  16
//	DX  place behind the ids that are used, R10  how many they are, R11  a bit for each, R12  bits of BX that are not theirs
//
// Where the next id begins depends on this one's code: one by one, that is a chain of loads. Here each of 64 bytes is taken for a code,
// and has the place where the next id would begin; looked up in itself this list gives the place of the second next, of the fourth and the
// eighth, and these, by the bits of a number, the places of the first 16 ids. Twelve of at most 5 bytes surely lie in 64 bytes, and mostly all
// do: only these are used, so what the list says of bytes that are no codes does not matter. A place beyond the 64 bytes is looked up at one
// of the first five, from where three ids lead to the 19th at most: less than the place behind twelve, which is at least the 49th then.
TEXT ·tokens512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ n+8(FP), CX
	MOVQ b+16(FP), SI
	MOVQ size+24(FP), R9
	XORL R8, R8
	SUBQ $64, R9
	JLT  done
	BYTES(0x80, Z16)
	VMOVDQU64 behind<>(SB), Z17
	VBROADCASTI32X4 follow<>(SB), Z18
	VBROADCASTI32X4 value<>(SB), Z19
	VMOVDQU64 fours<>(SB), Z20
	DWORDS(0xfcfdfeff, Z21) // -1, -2, -3, -4
	DWORDS(0x03020100, Z22)
	BYTES(0x4c, Z23) // cc without its highest bit: the first code
	BYTES(0x4f, Z24) // behind the last
	BYTES(0x31, Z25) // and so many more
	BYTES(1, Z26)
	VPADDB Z26, Z20, Z26 // each of 1 to 16
	MASK(0xaaaa, K1)
	MASK(0xcccc, K2)
	MASK(0xf0f0, K3)
	MASK(0xff00, K4)
	MASK(0x10000, K7)

group:
	CMPQ CX, $12
	JLT  done
	CMPQ R8, R9
	JGT  done
	VMOVDQU8 (SI)(R8*1), Z0
	VPXORQ   Z16, Z0, Z1  // small ids have the highest bit now: they are to nothing in both tables
	VPSHUFB  Z1, Z18, Z2
	VPADDB   Z17, Z2, Z2  // the next
	VPERMB   Z2, Z2, Z3   // the second next
	VPERMB   Z3, Z3, Z4   // the fourth
	VPERMB   Z4, Z4, Z5   // the eighth
	VPERMB   Z5, Z5, Z11  // the sixteenth
	VPXORQ   Z6, Z6, Z6
	VPERMB   Z2, Z6, K1, Z6
	VPERMB   Z3, Z6, K2, Z6
	VPERMB   Z4, Z6, K3, Z6
	VPERMB   Z5, Z6, K4, Z6 // where the ids begin
	VPERMB   Z11, Z6, K7, Z6 // and behind the last
	VPEXTRB  $12, X6, DX
	VPEXTRB  $0, X11, AX

	// Sixteen, where there is room for them and 12th < 16th <= 64; without a branch, as in a large vocabulary half of them would be mispredicted.
	XORL    R13, R13
	MOVL    $64, BX
	SUBQ    DX, BX
	CMPQ    CX, $16
	CMOVQLT R13, BX
	LEAQ    -1(AX), R13
	SUBQ    DX, R13
	MOVL    $12, R10
	MOVL    $0x0fff, R11
	MOVL    $16, R12
	CMPQ    R13, BX
	CMOVQCS AX, DX
	MOVL    $16, AX
	CMOVQCS AX, R10
	MOVL    $0xffff, AX
	CMOVQCS AX, R11
	MOVL    $0, AX
	CMOVQCS AX, R12

	// Four bytes for each id: its code; and the value's bytes from the last to the first, as many as it has.
	VPERMB   Z6, Z20, Z7
	VPERMB   Z1, Z7, Z7
	VPERMB   Z6, Z26, Z8
	VPADDB   Z21, Z8, Z8
	VPSHUFB  Z7, Z19, Z9
	VPCMPUB  $2, Z9, Z22, K5
	VPERMB.Z Z0, Z8, K5, Z10

	// Other codes are the caller's.
	VPCMPUB $1, Z23, Z7, K5
	VPSUBB  Z24, Z7, Z7
	VPCMPUB $1, Z25, Z7, K6
	KORQ    K5, K6, K6
	KMOVQ   K6, BX
	SHLXQ   R12, BX, BX // four bits for each
	TESTQ   BX, BX
	JNZ     done

	KMOVW     R11, K5
	VMOVDQU32 Z10, K5, (DI)
	LEAQ (DI)(R10*4), DI
	ADDQ DX, R8
	SUBQ R10, CX
	JMP  group

done:
	MOVQ n+8(FP), AX
	SUBQ CX, AX
	MOVQ AX, count+32(FP)
	MOVQ R8, used+40(FP)
	VZEROUPPER
	RET
