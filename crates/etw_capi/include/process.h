/* Threads as Visual C++'s library starts them. */
#ifndef OPENETW_PROCESS_H
#define OPENETW_PROCESS_H

#pragma GCC system_header

#include <windows.h>

typedef unsigned(__stdcall *_beginthreadex_proc_type)(void *);

FORCEINLINE uintptr_t _beginthreadex(void *security, unsigned stackSize, _beginthreadex_proc_type start, void *argument,
                                     unsigned flags, unsigned *id) {
  return (uintptr_t)CreateThread((LPSECURITY_ATTRIBUTES)security, stackSize, (LPTHREAD_START_ROUTINE)start, argument,
                                 flags, (LPDWORD)id);
}

#endif
