/* A controller and a consumer in real time, as Microsoft's documentation teaches them. Both forms of TCHAR. */
#include <windows.h>
#include <conio.h>
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include <strsafe.h>
#include <tchar.h>
#include <tdh.h>
#include <wmistr.h>
#include "expect.h"

#define LOGSESSION_NAME TEXT("OpenEtwController")

/* {3970F9CF-2C0C-4F11-B1CC-E3A1E9958875} */
static const GUID ProviderGuid = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x75}};

static volatile LONG g_events, g_buffers;
static TRACEHANDLE g_trace = INVALID_PROCESSTRACE_HANDLE;

static VOID WINAPI EventRecordCallback(PEVENT_RECORD pEvent) {
  if (memcmp(&pEvent->EventHeader.ProviderId, &ProviderGuid, sizeof(GUID)) == 0) {
    InterlockedIncrement(&g_events);
  }
}

static ULONG WINAPI BufferCallback(PEVENT_TRACE_LOGFILE pBuffer) {
  (void)pBuffer;
  InterlockedIncrement(&g_buffers);
  return TRUE;
}

static DWORD WINAPI Consume(LPVOID parameter) {
  (void)parameter;
  return ProcessTrace(&g_trace, 1, 0, 0);
}

static PEVENT_TRACE_PROPERTIES Allocate(void) {
  ULONG size = sizeof(EVENT_TRACE_PROPERTIES) + 2 * 1024 * sizeof(TCHAR);
  PEVENT_TRACE_PROPERTIES properties = (PEVENT_TRACE_PROPERTIES)malloc(size);
  if (properties == NULL) {
    exit(1);
  }
  ZeroMemory(properties, size);
  properties->Wnode.BufferSize = size;
  properties->Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  properties->Wnode.ClientContext = 1; /* QPC */
  properties->LoggerNameOffset = sizeof(EVENT_TRACE_PROPERTIES);
  properties->LogFileNameOffset = sizeof(EVENT_TRACE_PROPERTIES) + 1024 * sizeof(TCHAR);
  return properties;
}

/* How often the provider is in a list of EnumerateTraceGuidsEx. */
static ULONG CountInList(TRACE_QUERY_INFO_CLASS list, PVOID input, ULONG inputSize) {
  ULONG size = 0, found = 0;
  ULONG status = EnumerateTraceGuidsEx(list, input, inputSize, NULL, 0, &size);
  EXPECT(status, size == 0 ? ERROR_SUCCESS : ERROR_INSUFFICIENT_BUFFER);
  ULONG room = size + 64 * (ULONG)sizeof(GUID);
  GUID *guids = (GUID *)malloc(room);
  EXPECT(EnumerateTraceGuidsEx(list, input, inputSize, guids, room, &size), ERROR_SUCCESS);
  for (ULONG index = 0; index < size / sizeof(GUID); index++) {
    found += memcmp(&guids[index], &ProviderGuid, sizeof(GUID)) == 0;
  }
  free(guids);
  return found;
}

int _tmain(int argc, TCHAR *argv[]) {
  TRACEHANDLE session = 0;
  REGHANDLE provider = 0;
  PEVENT_TRACE_PROPERTIES properties = Allocate();
  (void)argc, (void)argv;
  properties->LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
  properties->FlushTimer = 1;
  properties->LogFileNameOffset = 0;
  EXPECT(ControlTrace(0, LOGSESSION_NAME, properties, EVENT_TRACE_CONTROL_QUERY), ERROR_WMI_INSTANCE_NOT_FOUND);
  EXPECT(StartTrace(&session, LOGSESSION_NAME, properties), ERROR_SUCCESS);
  EXPECT(EventRegister(&ProviderGuid, NULL, NULL, &provider), ERROR_SUCCESS);
  ENABLE_TRACE_PARAMETERS parameters;
  ZeroMemory(&parameters, sizeof parameters);
  parameters.Version = ENABLE_TRACE_PARAMETERS_VERSION_2;
  parameters.EnableProperty = EVENT_ENABLE_PROPERTY_PROCESS_START_KEY;
  EXPECT(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, TRACE_LEVEL_INFORMATION, 0x6, 0x2,
                        1000, &parameters),
         ERROR_SUCCESS);

  /* What sessions there are. */
  PEVENT_TRACE_PROPERTIES all[64];
  ULONG count = 0, found = 0;
  for (int index = 0; index < 64; index++) {
    all[index] = Allocate();
  }
  EXPECT(QueryAllTraces(all, 64, &count), ERROR_SUCCESS);
  for (ULONG index = 0; index < count && index < 64; index++) {
    found += _tcscmp((LPCTSTR)((BYTE *)all[index] + all[index]->LoggerNameOffset), LOGSESSION_NAME) == 0;
  }
  EXPECT(found, 1);
  for (int index = 0; index < 64; index++) {
    free(all[index]);
  }

  /* Which providers, and who has enabled them. */
  ULONG size = 0, own = GetCurrentProcessId(), other = 1;
  EXPECT(CountInList(TraceGuidQueryList, NULL, 0), 1);
  EXPECT(CountInList(TraceGuidQueryProcess, NULL, 0), 1);
  EXPECT(CountInList(TraceGuidQueryProcess, &own, sizeof own), 1);
  EXPECT(CountInList(TraceGuidQueryProcess, &other, sizeof other), 0);
  EXPECT(CountInList(TraceGroupQueryList, NULL, 0), 0);
  EXPECT(EnumerateTraceGuidsEx(TraceGuidQueryProcess, &own, 2, NULL, 0, &size), ERROR_INVALID_PARAMETER);

  /* The sampled profile's interval is that of the system; it has limits. */
  TRACE_PROFILE_INTERVAL interval = {0, 5000};
  EXPECT(TraceSetInformation(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_SUCCESS);
  interval.Interval = 0;
  EXPECT(TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval, &size), ERROR_SUCCESS);
  EXPECT(size, sizeof interval);
  EXPECT(interval.Interval, 5000);
  interval.Interval = 1;
  EXPECT(TraceSetInformation(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_SUCCESS);
  EXPECT(TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval, &size), ERROR_SUCCESS);
  EXPECT(interval.Interval, 1000);
  EXPECT(TraceSetInformation(0, TraceSampledProfileIntervalInfo, &interval, 4), ERROR_BAD_LENGTH);

  GUID id = ProviderGuid;
  BYTE info[4096];
  EXPECT(EnumerateTraceGuidsEx(TraceGuidQueryInfo, &id, sizeof id, info, sizeof info, &size), ERROR_SUCCESS);
  PTRACE_GUID_INFO guidInfo = (PTRACE_GUID_INFO)info;
  PTRACE_PROVIDER_INSTANCE_INFO instance = (PTRACE_PROVIDER_INSTANCE_INFO)(guidInfo + 1);
  PTRACE_ENABLE_INFO enable = (PTRACE_ENABLE_INFO)(instance + 1);
  EXPECT(guidInfo->InstanceCount, 1);
  EXPECT(instance->Pid, GetCurrentProcessId());
  EXPECT(instance->EnableCount, 1);
  EXPECT(enable->Level, TRACE_LEVEL_INFORMATION);
  EXPECT(enable->MatchAnyKeyword, 6);
  EXPECT(enable->MatchAllKeyword, 2);

  /* A consumer on a thread of its own. */
  EVENT_TRACE_LOGFILE logfile;
  ZeroMemory(&logfile, sizeof logfile);
  TCHAR name[64];
  EXPECT(StringCchCopy(name, 64, LOGSESSION_NAME), S_OK);
  logfile.LoggerName = name;
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
  logfile.EventRecordCallback = EventRecordCallback;
  logfile.BufferCallback = BufferCallback;
  g_trace = OpenTrace(&logfile);
  EXPECT(g_trace != INVALID_PROCESSTRACE_HANDLE, 1);
  HANDLE thread = CreateThread(NULL, 0, Consume, NULL, 0, NULL);
  EVENT_DESCRIPTOR descriptor;
  for (USHORT number = 0; number < 10; number++) {
    EventDescCreate(&descriptor, number, 0, 0, number < 5 ? TRACE_LEVEL_INFORMATION : TRACE_LEVEL_VERBOSE, 0, 0, 0x2);
    EXPECT(EventWrite(provider, &descriptor, 0, NULL), ERROR_SUCCESS);
  }
  for (int waited = 0; waited < 5000 && g_events < 5; waited++) {
    EXPECT(FlushTrace(session, NULL, properties), ERROR_SUCCESS);
    Sleep(1);
  }
  EXPECT(g_events, 5);
  properties->FlushTimer = 2;
  EXPECT(UpdateTrace(session, NULL, properties), ERROR_SUCCESS);
  EXPECT(QueryTrace(session, NULL, properties), ERROR_SUCCESS);
  EXPECT(properties->FlushTimer, 2);
  ULONG status = CloseTrace(g_trace);
  EXPECT(status == ERROR_SUCCESS || status == ERROR_CTX_CLOSE_PENDING, 1);
  EXPECT(WaitForSingleObject(thread, 20000), WAIT_OBJECT_0);
  DWORD code = 99;
  EXPECT(GetExitCodeThread(thread, &code), TRUE);
  EXPECT(code, ERROR_SUCCESS);
  CloseHandle(thread);
  EXPECT(g_buffers > 0, 1);

  EXPECT(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
  EXPECT(EventProviderEnabled(provider, TRACE_LEVEL_CRITICAL, 0), FALSE);
  EXPECT(EventUnregister(provider), ERROR_SUCCESS);
  EXPECT(StopTrace(session, LOGSESSION_NAME, properties), ERROR_SUCCESS);
  EXPECT(properties->EventsLost, 0);
  EXPECT(ControlTrace(session, NULL, properties, EVENT_TRACE_CONTROL_STOP), ERROR_WMI_INSTANCE_NOT_FOUND);
  free(properties);
  _tprintf(TEXT("%s: %u failures\n"), LOGSESSION_NAME, failures);
  return failures != 0;
}
