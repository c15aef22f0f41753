// int uroce_guarded_call(to, from, length, sum, copy, stack): see guarded_copy.cc, whose only business it is.
//
// Calls copy(to, from, length, sum) and returns 0. While it does, *stack says where the registers lie that a C++ function
// expects back; take_fault() lets a thread whose copy faulted go on at uroce_guarded_call_lost with that stack, and 1
// is returned. Nothing but general registers is to be restored: all vector registers are the
// caller's to save, and copies neither change the control words nor the direction flag.

        .text
        .globl  uroce_guarded_call
        .hidden uroce_guarded_call
        .type   uroce_guarded_call, @function
        .globl  uroce_guarded_call_lost
        .hidden uroce_guarded_call_lost
        .p2align 4
uroce_guarded_call:
        .cfi_startproc
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r12, 0
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r13, 0
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r14, 0
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r15, 0
        pushq   %r9
        .cfi_adjust_cfa_offset 8
        movq    %rsp, (%r9)
        call    *%r8
        // The copy kept the registers, as every function does: they need not be loaded.
        popq    %r9
        .cfi_remember_state
        .cfi_adjust_cfa_offset -8
        movq    $0, (%r9)
        addq    $48, %rsp
        .cfi_adjust_cfa_offset -48
        xorl    %eax, %eax
        ret

uroce_guarded_call_lost:
        .cfi_restore_state
        popq    %r9
        .cfi_adjust_cfa_offset -8
        movq    $0, (%r9)
        popq    %r15
        .cfi_adjust_cfa_offset -8
        popq    %r14
        .cfi_adjust_cfa_offset -8
        popq    %r13
        .cfi_adjust_cfa_offset -8
        popq    %r12
        .cfi_adjust_cfa_offset -8
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        movl    $1, %eax
        ret
        .cfi_endproc
        .size   uroce_guarded_call, . - uroce_guarded_call

        .section .note.GNU-stack, "", @progbits
