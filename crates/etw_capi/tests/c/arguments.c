/* Wrong arguments give the codes that Windows documents. Prints what is different. */
#include <evntrace.h>
#include <tdh.h>
#include <stdio.h>

static int failures;

static void expect(int line, const char *call, ULONG found, ULONG expected) {
  if (found != expected) {
    printf("line %d: %s: %u, expected %u\n", line, call, found, expected);
    failures++;
  }
}
#define EXPECT(call, expected) expect(__LINE__, #call, (ULONG)(call), (ULONG)(expected))

int main(void) {
  static const GUID unknown = {1, 2, 3, {4, 5, 6, 7, 8, 9, 10, 11}};
  static const EVENT_DESCRIPTOR descriptor = {0, 0, 0, 0, 0, 0, 0};
  EVENT_DATA_DESCRIPTOR data[2];
  memset(data, 0, sizeof data);
  REGHANDLE provider = 0;
  GUID id = unknown;
  ULONG size = 0;

  EXPECT(EventRegister(NULL, NULL, NULL, &provider), ERROR_INVALID_PARAMETER);
  EXPECT(EventRegister(&unknown, NULL, NULL, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EventRegister(&unknown, NULL, NULL, &provider), ERROR_SUCCESS);
  EXPECT(EventWrite(0, &descriptor, 0, NULL), ERROR_INVALID_HANDLE);
  EXPECT(EventWrite(provider, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EventWrite(provider, &descriptor, 1, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EventWrite(provider, &descriptor, MAX_EVENT_DATA_DESCRIPTORS + 1, data), ERROR_INVALID_PARAMETER);
  EXPECT(EventWriteEx(provider, &descriptor, 1, 0, NULL, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EventWriteString(provider, 0, 0, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EventSetInformation(provider, EventProviderSetTraits, NULL, 0), ERROR_INVALID_PARAMETER);
  EXPECT(EventActivityIdControl(0, &id), ERROR_INVALID_PARAMETER);
  EXPECT(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EventUnregister(provider), ERROR_SUCCESS);
  EXPECT(EventUnregister(provider), ERROR_INVALID_HANDLE);
  EXPECT(EventEnabled(provider, &descriptor), FALSE);

  TRACEHANDLE trace = 77;
  FILETIME time = {0, 0};
  EVENT_TRACE_LOGFILE logfile;
  memset(&logfile, 0, sizeof logfile);
  EXPECT(OpenTrace(NULL) == INVALID_PROCESSTRACE_HANDLE, TRUE);
  EXPECT(GetLastError(), ERROR_INVALID_PARAMETER);
  EXPECT(OpenTrace(&logfile) == INVALID_PROCESSTRACE_HANDLE, TRUE);
  EXPECT(GetLastError(), ERROR_INVALID_PARAMETER);
  WCHAR missing[] = {'/', 'm', 'i', 's', 's', 'i', 'n', 'g', 0};
  logfile.LogFileName = missing;
  EXPECT(OpenTrace(&logfile) == INVALID_PROCESSTRACE_HANDLE, TRUE);
  EXPECT(GetLastError(), ERROR_FILE_NOT_FOUND);
  EXPECT(ProcessTrace(NULL, 1, NULL, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(ProcessTrace(&trace, 0, NULL, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(ProcessTrace(&trace, 65, NULL, NULL), ERROR_BAD_LENGTH);
  EXPECT(ProcessTrace(&trace, 1, &time, &time), ERROR_INVALID_HANDLE);
  EXPECT(CloseTrace(trace), ERROR_INVALID_HANDLE);

  struct {
    EVENT_TRACE_PROPERTIES properties;
    WCHAR name[16];
  } session;
  memset(&session, 0, sizeof session);
  EXPECT(StartTrace(&trace, missing, &session.properties), ERROR_BAD_LENGTH);
  session.properties.Wnode.BufferSize = sizeof session;
  EXPECT(StartTrace(&trace, NULL, &session.properties), ERROR_INVALID_PARAMETER);
  EXPECT(StartTrace(&trace, missing, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(StartTrace(NULL, missing, &session.properties), ERROR_INVALID_PARAMETER);
  session.properties.LoggerNameOffset = 1;
  EXPECT(StartTrace(&trace, missing, &session.properties), ERROR_INVALID_PARAMETER);
  session.properties.LoggerNameOffset = sizeof session - 8 * sizeof(WCHAR);
  EXPECT(StartTrace(&trace, missing, &session.properties), ERROR_BAD_LENGTH);
  session.properties.LoggerNameOffset = sizeof session.properties;
  EXPECT(StartTrace(&trace, missing, &session.properties), ERROR_BAD_PATHNAME);
  session.properties.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
  session.properties.Wnode.Guid = SystemTraceControlGuid;
  EXPECT(StartTrace(&trace, missing, &session.properties), ERROR_INVALID_PARAMETER);

  EVENT_RECORD record;
  memset(&record, 0, sizeof record);
  record.EventHeader.ProviderId = unknown;
  PROPERTY_DATA_DESCRIPTOR path = {0, 0, 0};
  EXPECT(TdhGetEventInformation(NULL, 0, NULL, NULL, &size), ERROR_INVALID_PARAMETER);
  EXPECT(TdhGetEventInformation(&record, 0, NULL, NULL, &size), ERROR_NOT_FOUND);
  EXPECT(TdhGetProperty(&record, 0, NULL, 0, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(TdhGetPropertySize(&record, 0, NULL, 1, &path, &size), ERROR_INVALID_PARAMETER);
  EXPECT(TdhEnumerateManifestProviderEvents(NULL, NULL, &size), ERROR_INVALID_PARAMETER);
  EXPECT(TdhEnumerateManifestProviderEvents(&id, NULL, &size), ERROR_NOT_FOUND);
  EXPECT(TdhLoadManifest(NULL), ERROR_INVALID_PARAMETER);
  EXPECT(TdhLoadManifest(missing), ERROR_FILE_NOT_FOUND);
  EXPECT(TdhLoadManifestFromMemory("<a/>", 4), ERROR_INVALID_PARAMETER);
  EXPECT(TdhUnloadManifest(missing), ERROR_NOT_FOUND);
  record.UserDataLength = 4;
  EXPECT(TdhGetEventInformation(&record, 0, NULL, NULL, &size), ERROR_INVALID_PARAMETER);
  USHORT used = 0;
  EXPECT(TdhFormatProperty(NULL, NULL, 3, TDH_INTYPE_UINT32, TDH_OUTTYPE_UNSIGNEDINT, 4, 0, NULL, &size, NULL, &used),
         ERROR_INVALID_PARAMETER);
  EXPECT(TdhFormatProperty(NULL, NULL, 8, TDH_INTYPE_UINT32, TDH_OUTTYPE_UNSIGNEDINT, 4, 0, NULL, &size, NULL, &used),
         ERROR_EVT_INVALID_EVENT_DATA);
  return failures != 0;
}
