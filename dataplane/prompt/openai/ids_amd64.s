//go:build !purego

#include "textflag.h"

// BYTES and WORDS fill a register with one constant.
#define BYTES(c, y, x) MOVL $c, AX; VMOVD AX, x; VPBROADCASTB x, y
#define WORDS(c, y, x) MOVQ $c, AX; VMOVQ AX, x; VPBROADCASTQ x, y

// ELEMENT takes the first element out of the masks, and leaves its digits in r, the last one on top.
#define ELEMENT(r) \
	TZCNTQ R12, BX;          \
	BLSRQ  R12, R12;         \
	TZCNTQ AX, R15;          \
	BLSRQ  AX, AX;           \
	MOVQ   (R14)(BX*1), r;   \
	SUBQ   R15, BX;          \
	SHLQ   $3, BX;           \
	SHLXQ  BX, r, r

// func ids256(dst *uint32, room int, b *byte, n int) (count, used int)
//
//	DI  where the next id goes, CX  room left
//	SI  b, R8  place in it, behind a comma, R9  the last place from which 72 bytes can be read
//	R13  the next place, R14  the block's first byte, Y8 to Y15  constants
//
// Of 64 bytes at a time: which are commas, digits, and spaces behind commas; where elements begin and end, as masks. Then four elements
// at a time, each by its own begin and end: its eight bytes, shifted so that the last digit comes to lie on top, and pairs of digits,
// pairs of pairs, and pairs of those are added up. Elements behind the last one are rubbish that the next ones overwrite.
TEXT ·ids256(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ room+8(FP), CX
	MOVQ b+16(FP), SI
	MOVQ n+24(FP), R9
	XORL R8, R8
	SUBQ $72, R9
	JLT  done
	BYTES(',', Y8, X8)
	BYTES(' ', Y9, X9)
	BYTES('0', Y10, X10)
	BYTES(9, Y11, X11)
	WORDS(0x010a010a010a010a, Y12, X12) // tens and ones
	WORDS(0x0001006400010064, Y13, X13) // hundreds and ones
	WORDS(10000, Y14, X14)
	VPXOR Y15, Y15, Y15

block:
	CMPQ R8, R9
	JGT  done
	CMPQ CX, $32
	JLT  done
	LEAQ (SI)(R8*1), R14

	VMOVDQU   (R14), Y0
	VMOVDQU   32(R14), Y1
	VPCMPEQB  Y8, Y0, Y2
	VPCMPEQB  Y8, Y1, Y3
	VPMOVMSKB Y2, AX
	VPMOVMSKB Y3, DX
	SHLQ      $32, DX
	ORQ       DX, AX // commas
	VPCMPEQB  Y9, Y0, Y2
	VPCMPEQB  Y9, Y1, Y3
	VPMOVMSKB Y2, BX
	VPMOVMSKB Y3, DX
	SHLQ      $32, DX
	ORQ       DX, BX // spaces
	VPSUBB    Y10, Y0, Y0
	VPSUBB    Y10, Y1, Y1
	VPMINUB   Y11, Y0, Y2
	VPMINUB   Y11, Y1, Y3
	VPCMPEQB  Y2, Y0, Y2
	VPCMPEQB  Y3, Y1, Y3
	VPMOVMSKB Y2, R10
	VPMOVMSKB Y3, DX
	SHLQ      $32, DX
	ORQ       DX, R10 // digits
	VPCMPEQB  Y15, Y0, Y2
	VPCMPEQB  Y15, Y1, Y3
	VPMOVMSKB Y2, R15
	VPMOVMSKB Y3, DX
	SHLQ      $32, DX
	ORQ       R15, DX // zeros

	LEAQ  1(AX)(AX*1), R11
	ANDQ  R11, BX // spaces behind commas, of which the last one may be in the block before
	ANDNQ R11, BX, R12
	LEAQ  (R12)(BX*2), R12 // begins of elements

	// Elements count up to the first byte that is none of the three, a zero that leads an element of several digits, a comma that
	// ends one of none, or a ninth digit.
	MOVQ    R10, R11
	SHRQ    $1, R11
	ANDQ    DX, R11
	ANDQ    R12, R11 // leading zeros
	MOVQ    AX, DX
	ANDQ    R12, DX
	ORQ     DX, R11
	ORQ     AX, BX
	ORQ     R10, BX
	NOTQ    BX
	ORQ     R11, BX
	LEAQ    (R10)(R10*1), DX
	ANDQ    R10, DX // second digits
	MOVQ    DX, R11
	SHLQ    $2, R11
	ANDQ    R11, DX // fourth ones
	MOVQ    DX, R11
	SHLQ    $4, R11
	ANDQ    R11, DX // eighth ones
	ADDQ    DX, DX
	ANDQ    R10, DX
	ORQ     DX, BX
	BLSIQ   BX, BX
	DECQ    BX
	ANDQ    BX, AX // ends of elements
	JZ      done

	// The next block begins behind the last one's comma.
	LZCNTQ AX, DX
	LEAQ   64(R8), R13
	SUBQ   DX, R13
	POPCNTQ AX, R10 // elements
	MOVQ   DI, DX
	LEAQ   (DI)(R10*4), DI
	SUBQ   R10, CX

four:
	ELEMENT(R8)
	VMOVQ       R8, X0
	ELEMENT(R8)
	VPINSRQ     $1, R8, X0, X0
	ELEMENT(R8)
	VMOVQ       R8, X1
	ELEMENT(R8)
	VPINSRQ     $1, R8, X1, X1
	VINSERTI128 $1, X1, Y0, Y0
	VPSUBUSB    Y10, Y0, Y0 // what is no digit of the element is zero already
	VPMADDUBSW  Y12, Y0, Y0
	VPMADDWD    Y13, Y0, Y0
	VPMULUDQ    Y14, Y0, Y1
	VPSRLQ      $32, Y0, Y0
	VPADDQ      Y1, Y0, Y0
	VPSHUFD     $0x08, Y0, Y0
	VPERMQ      $0x08, Y0, Y0
	VMOVDQU     X0, (DX)
	ADDQ        $16, DX
	SUBQ        $4, R10
	JGT         four

	MOVQ R13, R8
	JMP  block

done:
	VZEROUPPER
	SUBQ dst+0(FP), DI
	SHRQ $2, DI
	MOVQ DI, count+32(FP)
	MOVQ R8, used+40(FP)
	RET
