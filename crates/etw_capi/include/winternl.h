/*
 * What the kernel of Windows tells programs. Here there is none: these functions check that they can be called, and return
 * STATUS_INVALID_INFO_CLASS.
 */
#ifndef OPENETW_WINTERNL_H
#define OPENETW_WINTERNL_H

#pragma GCC system_header

#include <windows.h>

typedef enum _SYSTEM_INFORMATION_CLASS {
  SystemBasicInformation = 0,
  SystemPerformanceInformation = 2,
  SystemTimeOfDayInformation = 3,
  SystemProcessInformation = 5,
  SystemProcessorPerformanceInformation = 8,
  SystemPerformanceTraceInformation = 31
} SYSTEM_INFORMATION_CLASS;

EXTERN_C NTSTATUS NTAPI NtQuerySystemInformation(SYSTEM_INFORMATION_CLASS informationClass, PVOID information,
                                                 ULONG size, PULONG length);
EXTERN_C NTSTATUS NTAPI NtSetSystemInformation(SYSTEM_INFORMATION_CLASS informationClass, PVOID information,
                                               ULONG size);

#endif
