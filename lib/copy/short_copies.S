// bool uroce_read_short(to, from, length), bool uroce_store_ascending(to, from, length): see guarded_copy.h.
//
// Copies that need no guard. They keep their arguments as they came and leave the stack alone, so take_fault() finds the
// guarded end of a copy in the registers of the thread that faulted, and lets it go on at uroce_short_copy_lost as if
// the copy had returned. Hence between _begin and _end: `to` stays in %rdi, `from` in %rsi, `length` in %rdx, and %rsp
// points to the return address.

        .text

        .globl  uroce_read_short
        .hidden uroce_read_short
        .type   uroce_read_short, @function
        .globl  uroce_read_short_end
        .hidden uroce_read_short_end
        .p2align 4
// At most 256 bytes: all of them into registers, from both ends with an overlap in the middle, and out again.
uroce_read_short:
        .cfi_startproc
        cmpq    $32, %rdx
        jbe     .Lread_at_most_32
        movups  (%rsi), %xmm0
        movups  16(%rsi), %xmm1
        movups  -32(%rsi,%rdx), %xmm2
        movups  -16(%rsi,%rdx), %xmm3
        cmpq    $64, %rdx
        ja      .Lread_more_than_64
        movups  %xmm0, (%rdi)
        movups  %xmm1, 16(%rdi)
        movups  %xmm2, -32(%rdi,%rdx)
        movups  %xmm3, -16(%rdi,%rdx)
        movl    $1, %eax
        ret

.Lread_more_than_64:
        movups  32(%rsi), %xmm4
        movups  48(%rsi), %xmm5
        movups  -64(%rsi,%rdx), %xmm6
        movups  -48(%rsi,%rdx), %xmm7
        cmpq    $128, %rdx
        jbe     .Lwrite_both_ends
        movups  64(%rsi), %xmm8
        movups  80(%rsi), %xmm9
        movups  96(%rsi), %xmm10
        movups  112(%rsi), %xmm11
        movups  -128(%rsi,%rdx), %xmm12
        movups  -112(%rsi,%rdx), %xmm13
        movups  -96(%rsi,%rdx), %xmm14
        movups  -80(%rsi,%rdx), %xmm15
        movups  %xmm8, 64(%rdi)
        movups  %xmm9, 80(%rdi)
        movups  %xmm10, 96(%rdi)
        movups  %xmm11, 112(%rdi)
        movups  %xmm12, -128(%rdi,%rdx)
        movups  %xmm13, -112(%rdi,%rdx)
        movups  %xmm14, -96(%rdi,%rdx)
        movups  %xmm15, -80(%rdi,%rdx)
.Lwrite_both_ends:
        movups  %xmm0, (%rdi)
        movups  %xmm1, 16(%rdi)
        movups  %xmm4, 32(%rdi)
        movups  %xmm5, 48(%rdi)
        movups  %xmm6, -64(%rdi,%rdx)
        movups  %xmm7, -48(%rdi,%rdx)
        movups  %xmm2, -32(%rdi,%rdx)
        movups  %xmm3, -16(%rdi,%rdx)
        movl    $1, %eax
        ret

.Lread_at_most_32:
        cmpl    $16, %edx
        jb      .Lread_less_than_16
        movups  (%rsi), %xmm0
        movups  -16(%rsi,%rdx), %xmm1
        movups  %xmm0, (%rdi)
        movups  %xmm1, -16(%rdi,%rdx)
        movl    $1, %eax
        ret
.Lread_less_than_16:
        testb   $8, %dl
        jz      .Lread_less_than_8
        movq    (%rsi), %rax
        movq    -8(%rsi,%rdx), %rcx
        movq    %rax, (%rdi)
        movq    %rcx, -8(%rdi,%rdx)
        movl    $1, %eax
        ret
.Lread_less_than_8:
        testb   $4, %dl
        jz      .Lread_less_than_4
        movl    (%rsi), %eax
        movl    -4(%rsi,%rdx), %ecx
        movl    %eax, (%rdi)
        movl    %ecx, -4(%rdi,%rdx)
        movl    $1, %eax
        ret
.Lread_less_than_4:
        testb   $2, %dl
        jz      .Lread_less_than_2
        movzwl  (%rsi), %eax
        movzwl  -2(%rsi,%rdx), %ecx
        movw    %ax, (%rdi)
        movw    %cx, -2(%rdi,%rdx)
        movl    $1, %eax
        ret
.Lread_less_than_2:
        testl   %edx, %edx
        jz      .Lread_nothing
        movzbl  (%rsi), %eax
        movb    %al, (%rdi)
.Lread_nothing:
        movl    $1, %eax
        ret
        .cfi_endproc
        .size   uroce_read_short, . - uroce_read_short
uroce_read_short_end:

        .globl  uroce_store_ascending
        .hidden uroce_store_ascending
        .type   uroce_store_ascending, @function
        .globl  uroce_store_ascending_end
        .hidden uroce_store_ascending_end
        .p2align 4
// Every store is of a word that is aligned to its size, so it happens at once and within one cache line; the CPU keeps
// their order.
uroce_store_ascending:
        .cfi_startproc
        testb   $7, %dil
        jnz     .Lstore_up_to_a_word
        // A whole line, as most tails are.
        cmpq    $64, %rdx
        jne     .Lstore_words
        movups  (%rsi), %xmm0
        movups  16(%rsi), %xmm1
        movups  32(%rsi), %xmm2
        movups  48(%rsi), %xmm3
        movq    %xmm0, (%rdi)
        movhps  %xmm0, 8(%rdi)
        movq    %xmm1, 16(%rdi)
        movhps  %xmm1, 24(%rdi)
        movq    %xmm2, 32(%rdi)
        movhps  %xmm2, 40(%rdi)
        movq    %xmm3, 48(%rdi)
        movhps  %xmm3, 56(%rdi)
        movl    $1, %eax
        ret

        // %rcx bytes are stored, %r8 are left. Where fewer are left than the next step has, none of the larger steps
        // below fits either.
.Lstore_up_to_a_word:
        xorl    %ecx, %ecx
        movq    %rdx, %r8
        testb   $1, %dil
        jz      .Lstore_up_to_four
        cmpq    $1, %r8
        jb      .Lstore_rest
        movzbl  (%rsi), %eax
        movb    %al, (%rdi)
        incq    %rcx
        decq    %r8
.Lstore_up_to_four:
        leal    (%rdi,%rcx), %eax
        testb   $2, %al
        jz      .Lstore_up_to_eight
        cmpq    $2, %r8
        jb      .Lstore_rest
        movzwl  (%rsi,%rcx), %eax
        movw    %ax, (%rdi,%rcx)
        addq    $2, %rcx
        subq    $2, %r8
.Lstore_up_to_eight:
        leal    (%rdi,%rcx), %eax
        testb   $4, %al
        jz      .Lstore_words_left
        cmpq    $4, %r8
        jb      .Lstore_rest
        movl    (%rsi,%rcx), %eax
        movl    %eax, (%rdi,%rcx)
        addq    $4, %rcx
        subq    $4, %r8
        jmp     .Lstore_words_left

.Lstore_words:
        xorl    %ecx, %ecx
        movq    %rdx, %r8
.Lstore_words_left:
        subq    $8, %r8
        jb      .Lstore_less_than_a_word
.Lstore_word:
        movq    (%rsi,%rcx), %rax
        movq    %rax, (%rdi,%rcx)
        addq    $8, %rcx
        subq    $8, %r8
        jae     .Lstore_word
.Lstore_less_than_a_word:
        // Eight less than what is left: its low three bits are the same.
.Lstore_rest:
        testb   $4, %r8b
        jz      .Lstore_less_than_4
        movl    (%rsi,%rcx), %eax
        movl    %eax, (%rdi,%rcx)
        addq    $4, %rcx
.Lstore_less_than_4:
        testb   $2, %r8b
        jz      .Lstore_less_than_2
        movzwl  (%rsi,%rcx), %eax
        movw    %ax, (%rdi,%rcx)
        addq    $2, %rcx
.Lstore_less_than_2:
        testb   $1, %r8b
        jz      .Lstored
        movzbl  (%rsi,%rcx), %eax
        movb    %al, (%rdi,%rcx)
.Lstored:
        movl    $1, %eax
        ret
        .cfi_endproc
        .size   uroce_store_ascending, . - uroce_store_ascending
uroce_store_ascending_end:

        .globl  uroce_short_copy_lost
        .hidden uroce_short_copy_lost
        .type   uroce_short_copy_lost, @function
uroce_short_copy_lost:
        .cfi_startproc
        xorl    %eax, %eax
        ret
        .cfi_endproc
        .size   uroce_short_copy_lost, . - uroce_short_copy_lost

        .section .note.GNU-stack, "", @progbits
