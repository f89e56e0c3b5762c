"""Counts the instructions that a program's first thread executes between two calls of sched_yield.

instructions.py PROGRAM [ARGUMENT...]

The thread is run step by step (ptrace), so no counters of the processor are needed, which many virtual machines lack.
Linux on x86-64. Prints one number for each pair of calls.
"""

import ctypes
import os
import signal
import sys

TRACEME, PEEKUSER, CONT, SINGLESTEP, SYSCALL, SETOPTIONS = 0, 3, 7, 9, 24, 0x4200
# Offsets in struct user of the registers (sys/user.h), and the call's number.
RAX, ORIG_RAX, RIP, SCHED_YIELD = 10 * 8, 15 * 8, 16 * 8, 24
TRACESYSGOOD, EXITKILL = 1, 0x100000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def main():
    child = os.fork()
    if child == 0:
        libc.ptrace(TRACEME, 0, None, None)
        os.execvp(sys.argv[1], sys.argv[1:])
    os.waitpid(child, 0)
    libc.ptrace(SETOPTIONS, child, None, TRACESYSGOOD | EXITKILL)
    memory = os.open(f"/proc/{child}/mem", os.O_RDONLY)

    def go(request, deliver=0):
        """Continues; returns the signal that stopped it, or None at its end."""
        libc.ptrace(request, child, None, deliver)
        _, status = os.waitpid(child, 0)
        return os.WSTOPSIG(status) if os.WIFSTOPPED(status) else None

    def is_yield():
        """Whether the next instruction is the call."""
        rip = libc.ptrace(PEEKUSER, child, RIP, None) & (2**64 - 1)
        return os.pread(memory, 2, rip) == b"\x0f\x05" and libc.ptrace(PEEKUSER, child, RAX, None) == SCHED_YIELD

    def until_yield():
        """Runs to the end of the next call."""
        deliver = 0
        while True:
            stopped = go(SYSCALL, deliver)
            if stopped is None:
                return False
            deliver = 0
            if stopped == signal.SIGTRAP | 0x80:
                if libc.ptrace(PEEKUSER, child, ORIG_RAX, None) == SCHED_YIELD:
                    # This was its start; the next stop is its end.
                    return go(SYSCALL) is not None
            else:
                deliver = stopped

    while until_yield():
        count = 0
        while not is_yield():
            stopped = go(SINGLESTEP)
            if stopped is None:
                return
            count += 1
        print(count, flush=True)
        # The call that ends an interval does not start one.
        if not until_yield():
            return


main()
