/* A program chooses groups of the kernel's events by ntdll, as krabsetw does. */
#define WINVER 0x0A00
#define _WIN32_WINNT 0x0A00
#include <windows.h>
#include <evntrace.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <winternl.h>

NTSTATUS NTAPI NtSetSystemInformation(SYSTEM_INFORMATION_CLASS informationClass, PVOID information, ULONG size);

#define PERFORMANCE_TRACE ((SYSTEM_INFORMATION_CLASS)31)

typedef struct {
  ULONG informationClass;
  TRACEHANDLE session;
  ULONG masks[8];
} Groups;

static int failures;

static void expect(int line, ULONG is, ULONG expected) {
  if (is != expected) {
    printf("line %d: %#lx instead of %#lx\n", line, is, expected);
    failures++;
  }
}
#define EXPECT(call, expected) expect(__LINE__, (ULONG)(call), (expected))

int main(void) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    WCHAR name[64];
  } start = {0};
  start.properties.Wnode.BufferSize = sizeof start;
  start.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  start.properties.Wnode.ClientContext = 1;
  start.properties.LogFileMode = EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_SYSTEM_LOGGER_MODE;
  start.properties.EnableFlags = EVENT_TRACE_FLAG_PROCESS;
  start.properties.LoggerNameOffset = offsetof(__typeof__(start), name);
  Groups groups = {.informationClass = 1};
  EXPECT(StartTraceW(&groups.session, L"OpenETW groups", &start.properties), ERROR_SUCCESS);

  ULONG length = 0;
  EXPECT(NtQuerySystemInformation(PERFORMANCE_TRACE, &groups, sizeof groups, &length), 0);
  EXPECT(length, sizeof groups);
  EXPECT(groups.masks[0], EVENT_TRACE_FLAG_PROCESS);
  groups.masks[0] |= EVENT_TRACE_FLAG_THREAD;
  EXPECT(NtSetSystemInformation(PERFORMANCE_TRACE, &groups, sizeof groups), 0);
  memset(groups.masks, 0xFF, sizeof groups.masks);
  EXPECT(NtQuerySystemInformation(PERFORMANCE_TRACE, &groups, sizeof groups, NULL), 0);
  EXPECT(groups.masks[0], EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD);
  EXPECT(groups.masks[7], 0);
  /* Handles of the object manager, which Linux has not. */
  groups.masks[4] = 0x40;
  EXPECT(NtSetSystemInformation(PERFORMANCE_TRACE, &groups, sizeof groups), 0xC00000BB);
  EXPECT(NtQuerySystemInformation(PERFORMANCE_TRACE, &groups, 8, NULL), 0xC0000004);
  EXPECT(NtQuerySystemInformation(PERFORMANCE_TRACE, (PVOID)(ULONG_PTR)8, sizeof groups, NULL), 0xC0000005);
  groups.informationClass = 99;
  EXPECT(NtQuerySystemInformation(PERFORMANCE_TRACE, &groups, sizeof groups, NULL), 0xC0000003);
  groups.informationClass = 1;
  groups.session = 0x7777;
  EXPECT(NtQuerySystemInformation(PERFORMANCE_TRACE, &groups, sizeof groups, NULL), 0xC0000297);
  /* Other classes are Wine's. */
  SYSTEM_BASIC_INFORMATION basic;
  EXPECT(NtQuerySystemInformation(SystemBasicInformation, &basic, sizeof basic, NULL), 0);
  EXPECT(basic.NumberOfProcessors > 0, 1);

  EXPECT(ControlTraceW(0, L"OpenETW groups", &start.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  printf("groups: %d failures\n", failures);
  return failures != 0;
}
