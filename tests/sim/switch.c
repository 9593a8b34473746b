/*
 * tests/sim/switch.c: switching between coroutines: callee-saved registers on the old stack, then the new stack. Where
 * no few lines of assembly are given, ucontext does it, at the price of a system call each time.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sim.h"

enum { STACK = 512 * 1024 };

static uint8_t *stack_of(uint32_t number)
{
    static uint8_t *stacks;

    if (!stacks) {
        stacks = mmap(NULL, (size_t)STACK * SIM_TASKS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stacks == MAP_FAILED)
            abort();
        for (uint32_t i = 0; i < SIM_TASKS; i++) /* the lowest page of each: an overflow is seen */
            mprotect(stacks + (size_t)i * STACK, 4096, PROT_NONE);
    }
    return stacks + (size_t)number * STACK;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl sim_switch\n"
        ".type sim_switch, @function\n"
        "sim_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_switch, .-sim_switch\n");

void *sim_stack(uint32_t number, void (*entry)(void))
{
    uint64_t *sp = (uint64_t *)(stack_of(number) + STACK);

    *--sp = 0;                          /* where entry() would return to */
    *--sp = (uint64_t)(uintptr_t)entry; /* the first switch returns there, with the stack as after a call */
    for (int i = 0; i < 6; i++)
        *--sp = 0;
    return sp;
}
#else
static ucontext_t contexts[SIM_TASKS], main_context;

static ucontext_t *context_of(void *sp)
{
    return sp ? sp : &main_context;
}

void sim_switch(void **save, void *load)
{
    static void *running; /* NULL: the scheduler */
    ucontext_t *from = context_of(running);

    *save = running;
    running = load;
    swapcontext(from, context_of(load));
}

void *sim_stack(uint32_t number, void (*entry)(void))
{
    ucontext_t *c = &contexts[number];

    getcontext(c);
    c->uc_stack.ss_sp = stack_of(number);
    c->uc_stack.ss_size = STACK;
    c->uc_link = NULL;
    makecontext(c, entry, 0);
    return c;
}
#endif
