/* Records its own events into a file, and prints them as TDH describes them. C and C++, both kinds of wchar_t. */
#include <TraceLoggingProvider.h>
#include <evntrace.h>
#include <tdh.h>
#include <stdio.h>
#include <stdlib.h>

TRACELOGGING_DECLARE_PROVIDER(g_provider);
TRACELOGGING_DEFINE_PROVIDER(g_provider, "OpenETW.Test.RoundTrip",
                             (0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x33));

static volatile int enables;

static void check(const char *what, ULONG code) {
  if (code != ERROR_SUCCESS) {
    printf("%s: error %u\n", what, code);
    exit(1);
  }
}

static void print_wide(const WCHAR *text) {
  for (; text && *text; text++) {
    printf(*text < 128 ? "%c" : "\\u%04x", (unsigned)*text);
  }
}

static VOID NTAPI on_enable(LPCGUID source, ULONG isEnabled, UCHAR level, ULONGLONG any, ULONGLONG all,
                            PEVENT_FILTER_DESCRIPTOR filter, PVOID context) {
  (void)source, (void)filter, (void)all;
  if (isEnabled == EVENT_CONTROL_CODE_ENABLE_PROVIDER) {
    printf("enabled level=%u any=%llx context=%s\n", level, any, (const char *)context);
  }
  fflush(stdout);
  enables = 1;
}

/* Prints a property of each element, member by member. */
static PBYTE print_property(PEVENT_RECORD event, PTRACE_EVENT_INFO info, USHORT index, PBYTE data, PBYTE end,
                            USHORT *numbers) {
  PEVENT_PROPERTY_INFO property = &info->EventPropertyInfoArray[index];
  ULONG pointerSize = event->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8;
  USHORT count =
      property->Flags & PropertyParamCount ? numbers[property->countPropertyIndex] : (USHORT)property->count;
  int isArray = (property->Flags & (PropertyParamCount | PropertyParamFixedCount)) != 0;
  printf(" ");
  print_wide(TEI_PROPERTY_NAME(info, property));
  if (!(property->Flags & PropertyStruct) && property->nonStructType.InType >= TDH_INTYPE_COUNTEDSTRING) {
    printf(":%u", property->nonStructType.InType);
  }
  printf("=%s", isArray ? "[" : "");
  for (USHORT element = 0; element < count; element++) {
    printf("%s", element ? "," : "");
    if (property->Flags & PropertyStruct) {
      printf("{");
      for (USHORT member = 0; member < property->structType.NumOfStructMembers; member++) {
        data = print_property(event, info, (USHORT)(property->structType.StructStartIndex + member), data, end, numbers);
      }
      printf(" }");
      continue;
    }
    WCHAR text[256];
    ULONG size = sizeof text;
    USHORT used = 0;
    if (property->nonStructType.InType == TDH_INTYPE_UINT16) {
      memcpy(&numbers[index], data, 2);
    }
    check("TdhFormatProperty",
          TdhFormatProperty(info, NULL, pointerSize, property->nonStructType.InType, property->nonStructType.OutType,
                            property->length, (USHORT)(end - data), data, &size, text, &used));
    print_wide(text);
    data += used;
  }
  printf("%s", isArray ? "]" : "");
  return data;
}

static VOID WINAPI on_event(PEVENT_RECORD event) {
  (*(int *)event->UserContext)++;
  if (memcmp(&event->EventHeader.ProviderId, &g_provider->guid, sizeof(GUID)) != 0) {
    return;
  }
  ULONG size = 0;
  ULONG code = TdhGetEventInformation(event, 0, NULL, NULL, &size);
  if (code != ERROR_INSUFFICIENT_BUFFER) {
    printf("TdhGetEventInformation: %u\n", code);
    return;
  }
  PTRACE_EVENT_INFO info = (PTRACE_EVENT_INFO)malloc(size);
  check("TdhGetEventInformation", TdhGetEventInformation(event, 0, NULL, info, &size));
  print_wide(TEI_PROVIDER_NAME(info));
  printf("/");
  print_wide(TEI_TASK_NAME(info));
  printf(" level=%u keyword=%llx opcode=%u source=%d:", event->EventHeader.EventDescriptor.Level,
         event->EventHeader.EventDescriptor.Keyword, event->EventHeader.EventDescriptor.Opcode,
         (int)info->DecodingSource);
  USHORT numbers[64] = {0};
  PBYTE data = (PBYTE)event->UserData, end = data + event->UserDataLength;
  for (USHORT index = 0; index < info->TopLevelPropertyCount; index++) {
    data = print_property(event, info, index, data, end, numbers);
  }
  printf("%s\n", data == end ? "" : " (and more)");
  PROPERTY_DATA_DESCRIPTOR path[2] = {{(ULONGLONG)(ULONG_PTR)TEXT("place"), 0xFFFFFFFF, 0},
                                      {(ULONGLONG)(ULONG_PTR)TEXT("x"), 0xFFFFFFFF, 0}};
  double x = 0;
  if (TdhGetPropertySize(event, 0, NULL, 2, path, &size) == ERROR_SUCCESS) {
    check("TdhGetProperty", TdhGetProperty(event, 0, NULL, 2, path, sizeof x, (PBYTE)&x));
    printf("place.x=%g in %u bytes\n", x, size);
  }
  path[0].PropertyName = (ULONGLONG)(ULONG_PTR)TEXT("wide");
  WCHAR wide[32];
  if (TdhGetProperty(event, 0, NULL, 1, path, sizeof wide, (PBYTE)wide) == ERROR_SUCCESS) {
    printf("wide=");
    print_wide(wide);
    printf("\n");
  }
  free(info);
}

int main(int argc, char **argv) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    WCHAR name[64];
    WCHAR file[512];
  } session;
  memset(&session, 0, sizeof session);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.ClientContext = 1;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  session.properties.LogFileNameOffset = (ULONG)((char *)session.file - (char *)&session);
  if (argc != 2) {
    return 2;
  }
  for (int at = 0; argv[1][at]; at++) {
    session.file[at] = (WCHAR)argv[1][at];
  }
  TRACEHANDLE handle = 0;
  check("StartTrace", StartTrace(&handle, TEXT("OpenEtwRoundTrip"), &session.properties));
  printf("again: %u\n", StartTrace(&handle, TEXT("OpenEtwRoundTrip"), &session.properties));
  print_wide(session.name);
  printf("\n");
  TraceLoggingRegisterEx(g_provider, on_enable, (PVOID) "mine");
  TraceLoggingWrite(g_provider, "TooEarly");
  check("EnableTraceEx2", EnableTraceEx2(handle, &g_provider->guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
                                         TRACE_LEVEL_INFORMATION, 0x10, 0, 0, NULL));
  /* Enabling is asynchronous. */
  for (int waited = 0; !enables && waited < 10000; waited++) {
    Sleep(1);
  }
  printf("enabled: %d %d %d\n", TraceLoggingProviderEnabled(g_provider, 4, 0x10),
         TraceLoggingProviderEnabled(g_provider, 5, 0x10), TraceLoggingProviderEnabled(g_provider, 4, 0x20));

  int number = -5;
  const INT32 three[3] = {1, 2, 3};
  UINT16 shorts[2] = {7, 8};
  GUID guid = g_provider->guid;
  const UINT16 text16[] = {'s', 'i', 'x', 0};
  TraceLoggingWrite(g_provider, "Filtered", TraceLoggingLevel(5), TraceLoggingKeyword(0x10));
  TraceLoggingWrite(g_provider, "Plain", TraceLoggingLevel(4), TraceLoggingKeyword(0x10));
  TraceLoggingWrite(g_provider, "Numbers", TraceLoggingLevel(TRACE_LEVEL_ERROR), TraceLoggingKeyword(0x30),
                    TraceLoggingOpcode(1), TraceLoggingEventTag(0x0ABCDEF), TraceLoggingInt32(number),
                    TraceLoggingUInt8(200, "small"), TraceLoggingHexUInt32(0x1F, "hex", "in hexadecimal"),
                    TraceLoggingInt64(-1, "tagged", "with tags", 0x1234), TraceLoggingFloat64(1.5, "half"),
                    TraceLoggingBool(TRUE, "bool"), TraceLoggingBoolean(FALSE, "boolean"), TraceLoggingPid(77, "pid"),
                    TraceLoggingGuid(guid, "guid"), TraceLoggingPointer(NULL, "null"));
  TraceLoggingWrite(g_provider, "Texts", TraceLoggingLevel(3), TraceLoggingKeyword(0x10),
                    TraceLoggingString("eight", "narrow"), TraceLoggingWideString(L"w\u00e4de", "wide"),
                    TraceLoggingString16(text16, "sixteen"), TraceLoggingString(NULL, "none"),
                    TraceLoggingCountedString("counted", 5, "counted"),
                    TraceLoggingCountedWideString(L"counted", 3, "countedWide"),
                    TraceLoggingUtf8String("\xC3\xA4", "utf8"), TraceLoggingBinary(three, 5, "bytes"));
  TraceLoggingWrite(g_provider, "Arrays", TraceLoggingLevel(3), TraceLoggingKeyword(0x10),
                    TraceLoggingInt32FixedArray(three, 3, "fixed"), TraceLoggingUInt16Array(shorts, 2, "variable"),
                    TraceLoggingStruct(2, "place"), TraceLoggingFloat64(0.25, "x"), TraceLoggingStruct(1, "inner"),
                    TraceLoggingUInt16Array(shorts, 1, "y"), TraceLoggingUInt32(9, "last"));
  struct {
    UINT16 count;
    UINT16 values[4];
  } packed = {2, {1, 2, 3, 4}};
  TraceLoggingWrite(g_provider, "Packed", TraceLoggingLevel(3), TraceLoggingKeyword(0x10),
                    TraceLoggingPackedStructArray(2, "pairs"), TraceLoggingPackedMetadata(TlgInUINT16, "a"),
                    TraceLoggingPackedMetadataEx(TlgInUINT16, TlgOutHEX, "b"),
                    TraceLoggingPackedData(&packed, sizeof packed), TraceLoggingPackedField(&number, 4, TlgInINT32, "n"));
  TraceLoggingUnregister(g_provider);
  TraceLoggingWrite(g_provider, "TooLate", TraceLoggingLevel(3), TraceLoggingKeyword(0x10));

  check("ControlTrace", ControlTrace(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP));
  printf("lost: %u, callbacks: %s\n", session.properties.EventsLost, enables >= 1 ? "yes" : "no");
  printf("stopped: %u\n", ControlTrace(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_QUERY));

  int seen = 0;
  EVENT_TRACE_LOGFILE logfile;
  memset(&logfile, 0, sizeof logfile);
  logfile.LogFileName = session.file;
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  logfile.EventRecordCallback = on_event;
  logfile.Context = &seen;
  TRACEHANDLE trace = OpenTrace(&logfile);
  if (trace == INVALID_PROCESSTRACE_HANDLE) {
    printf("OpenTrace: %u\n", GetLastError());
    return 1;
  }
  printf("pointers: %u, lost: %u\n", logfile.LogfileHeader.PointerSize, logfile.LogfileHeader.EventsLost);
  check("ProcessTrace", ProcessTrace(&trace, 1, NULL, NULL));
  check("CloseTrace", CloseTrace(trace));
  printf("events: %s, closed again: %u\n", seen >= 5 ? "all" : "too few", CloseTrace(trace));
  return 0;
}
