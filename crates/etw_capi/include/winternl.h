/*
 * What the kernel of Windows tells programs: here only which groups of events a system logger records
 * (SystemPerformanceTraceInformation). All other classes return STATUS_INVALID_INFO_CLASS.
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

typedef enum _EVENT_TRACE_INFORMATION_CLASS {
  EventTraceKernelVersionInformation = 0,
  EventTraceGroupMaskInformation = 1
} EVENT_TRACE_INFORMATION_CLASS;

/* Groups of events: the first mask is that of EnableFlags; Linux has no events of the others. */
typedef struct _PERFINFO_GROUPMASK {
  ULONG Masks[8];
} PERFINFO_GROUPMASK, *PPERFINFO_GROUPMASK;

typedef struct _EVENT_TRACE_GROUPMASK_INFORMATION {
  EVENT_TRACE_INFORMATION_CLASS EventTraceInformationClass;
  ULONG64 TraceHandle;
  PERFINFO_GROUPMASK EventTraceGroupMasks;
} EVENT_TRACE_GROUPMASK_INFORMATION, *PEVENT_TRACE_GROUPMASK_INFORMATION;

EXTERN_C NTSTATUS NTAPI NtQuerySystemInformation(SYSTEM_INFORMATION_CLASS informationClass, PVOID information,
                                                 ULONG size, PULONG length);
EXTERN_C NTSTATUS NTAPI NtSetSystemInformation(SYSTEM_INFORMATION_CLASS informationClass, PVOID information,
                                               ULONG size);

#endif
