/* Events of the kernel about this program have its ids and names of files, in headers and payloads, and the name of a program
   that it starts is that program's. */
#define WINVER 0x0A00
#define _WIN32_WINNT 0x0A00
#include <windows.h>
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <tdh.h>
#include <wchar.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    ULONG code = (call);                                                                                               \
    if (code != ERROR_SUCCESS) {                                                                                       \
      fprintf(stderr, "line %d: %s: error %lu\n", __LINE__, #call, code);                                              \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* Microsoft-Windows-Kernel-Process and Microsoft-Windows-Kernel-File. */
static const GUID ofProcesses = {0x22fb2cd6, 0x0e7b, 0x422b, {0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16}};
static const GUID ofFiles = {0xedd08927, 0x9cc4, 0x4e65, {0xb9, 0x70, 0xc2, 0x56, 0x0f, 0xb5, 0xc2, 0x89}};
static const GUID own = {0x2f1e3a5c, 0x0c0d, 0x4a3e, {0x9b, 0x8a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x71}};

static WCHAR session[] = L"OpenETW system values";
static WCHAR file[MAX_PATH];
static WCHAR program[MAX_PATH];
static volatile LONG ofThread, ofFile, ofProgram;

/* Returns a property of an event; false if it has none or a larger one. */
static BOOL get(EVENT_RECORD *event, const WCHAR *name, void *value, ULONG room) {
  PROPERTY_DATA_DESCRIPTOR property = {(ULONGLONG)(ULONG_PTR)name, ~0u, 0};
  ULONG size = 0;
  return TdhGetPropertySize(event, 0, NULL, 1, &property, &size) == ERROR_SUCCESS && size <= room &&
         TdhGetProperty(event, 0, NULL, 1, &property, size, value) == ERROR_SUCCESS;
}

static VOID WINAPI on_event(EVENT_RECORD *event) {
  USHORT id = event->EventHeader.EventDescriptor.Id;
  WCHAR text[1024];
  ULONG process = 0;
  if (IsEqualGUID(&event->EventHeader.ProviderId, &ofProcesses)) {
    if (id == 3 && get(event, L"ProcessID", &process, sizeof process) && process == GetCurrentProcessId())
      InterlockedIncrement(&ofThread);
    if (id == 1 && get(event, L"ImageName", text, sizeof text) && _wcsicmp(text, program) == 0)
      InterlockedIncrement(&ofProgram);
  } else if (IsEqualGUID(&event->EventHeader.ProviderId, &ofFiles)) {
    if (get(event, L"FileName", text, sizeof text) && _wcsicmp(text, file) == 0 &&
        event->EventHeader.ProcessId == GetCurrentProcessId())
      InterlockedIncrement(&ofFile);
  }
}

static DWORD WINAPI process_events(void *trace) { return ProcessTrace(trace, 1, NULL, NULL); }

static DWORD WINAPI nothing(void *context) { return (void)context, 0; }

int main(int count, char **arguments) {
  (void)arguments;
  /* Its own copy, started below. */
  if (count > 1)
    return 0;
  REGHANDLE registration;
  CHECK(EventRegister(&own, NULL, NULL, &registration));
  GetModuleFileNameW(NULL, program, MAX_PATH);
  GetTempPathW(MAX_PATH, file);
  wcscat(file, L"system values.txt");

  struct {
    EVENT_TRACE_PROPERTIES properties;
    WCHAR name[64];
  } start = {0};
  start.properties.Wnode.BufferSize = sizeof start;
  start.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  start.properties.Wnode.ClientContext = 1;
  start.properties.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
  start.properties.FlushTimer = 1;
  start.properties.LoggerNameOffset = offsetof(__typeof__(start), name);
  TRACEHANDLE controlled;
  CHECK(StartTraceW(&controlled, session, &start.properties));
  CHECK(EnableTraceEx2(controlled, &ofProcesses, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0x30, 0, 0, NULL));
  CHECK(EnableTraceEx2(controlled, &ofFiles, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0x90, 0, 0, NULL));

  EVENT_TRACE_LOGFILEW logfile = {0};
  logfile.LoggerName = session;
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
  logfile.EventRecordCallback = on_event;
  TRACEHANDLE opened = OpenTraceW(&logfile);
  HANDLE reader = CreateThread(NULL, 0, process_events, &opened, 0, NULL);

  /* Do it again until everything has been seen: sessions see what happens once they have enabled the kernel's providers. */
  for (int again = 0; again < 100 && !(ofThread && ofFile && ofProgram); again++) {
    CloseHandle(CreateThread(NULL, 0, nothing, NULL, 0, NULL));
    CloseHandle(CreateFileW(file, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL));
    WCHAR line[MAX_PATH + 16];
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION process;
    swprintf(line, MAX_PATH + 16, L"\"%ls\" again", program);
    if (CreateProcessW(program, line, NULL, NULL, FALSE, 0, NULL, NULL, &startup, &process)) {
      WaitForSingleObject(process.hProcess, 10000);
      CloseHandle(process.hThread);
      CloseHandle(process.hProcess);
    }
    Sleep(100);
  }
  CHECK(ControlTraceW(controlled, NULL, &start.properties, EVENT_TRACE_CONTROL_STOP));
  WaitForSingleObject(reader, 10000);
  DeleteFileW(file);
  EventUnregister(registration);
  printf("thread %d, file %d, program %d\n", ofThread > 0, ofFile > 0, ofProgram > 0);
  return 0;
}
