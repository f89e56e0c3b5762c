// Rewrites a trace: leaves events out, changes payloads, and adds events. The usual way, with a class for the callback.
#define INITGUID
#include <windows.h>
#include <relogger.h>
#include <evntcons.h>
#include <string>
#include "expect.h"

DEFINE_GUID(provider, 0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x55);

class Rewriter : public ITraceEventCallback {
public:
  int headers = 0, ends = 0, events = 0;

  STDMETHODIMP QueryInterface(const IID &iid, void **object) override {
    if (iid == IID_IUnknown || iid == __uuidof(ITraceEventCallback)) {
      *object = static_cast<ITraceEventCallback *>(this);
      AddRef();
      return S_OK;
    }
    *object = nullptr;
    return E_NOINTERFACE;
  }
  STDMETHODIMP_(ULONG) AddRef() override { return ++references_; }
  STDMETHODIMP_(ULONG) Release() override { return --references_; }

  STDMETHODIMP OnBeginProcessTrace(ITraceEvent *header, ITraceRelogger *relogger) override {
    EVENT_RECORD *record = nullptr;
    EXPECT(header->GetEventRecord(&record), S_OK);
    EXPECT(record->EventHeader.ProviderId == EventTraceGuid, true);
    EXPECT(relogger->Inject(header), S_OK);
    headers++;
    return S_OK;
  }
  STDMETHODIMP OnFinalizeProcessTrace(ITraceRelogger *) override {
    ends++;
    return S_OK;
  }
  STDMETHODIMP OnEvent(ITraceEvent *event, ITraceRelogger *relogger) override {
    EVENT_RECORD *record = nullptr;
    EXPECT(event->GetEventRecord(&record), S_OK);
    if (record->EventHeader.ProviderId != provider) {
      return relogger->Inject(event);
    }
    events++;
    void *context = nullptr;
    EXPECT(event->GetUserContext(&context), S_OK);
    EXPECT(context == this, true);
    EXPECT(record->UserDataLength, 4);
    UINT32 number = 0;
    memcpy(&number, record->UserData, sizeof number);
    if (number % 2 != 0) {
      return S_OK;
    }
    if (number == 2) {
      BYTE payload[] = {'t', 'w', 'o', '!', '?', 0};
      EXPECT(event->SetPayload(payload, sizeof payload), S_OK);
      ITraceEvent *copy = nullptr;
      EXPECT(event->Clone(&copy), S_OK);
      EVENT_DESCRIPTOR descriptor = record->EventHeader.EventDescriptor;
      descriptor.Id = 20;
      GUID activity = provider;
      LARGE_INTEGER time = record->EventHeader.TimeStamp;
      time.QuadPart += 1;
      EXPECT(copy->SetEventDescriptor(&descriptor), S_OK);
      EXPECT(copy->SetActivityId(&activity), S_OK);
      EXPECT(copy->SetProcessId(7), S_OK);
      EXPECT(copy->SetThreadId(8), S_OK);
      EXPECT(copy->SetProcessorIndex(0), S_OK);
      EXPECT(copy->SetTimeStamp(&time), S_OK);
      // The later one first: the file is in the order of time.
      EXPECT(relogger->Inject(copy), S_OK);
      copy->Release();
    }
    if (number == 6) {
      ITraceEvent *made = nullptr;
      BYTE payload[] = {9};
      EVENT_DESCRIPTOR descriptor = {30, 1, 0, 4, 0, 0, 0};
      EXPECT(relogger->CreateEventInstance(handle, 0, &made), S_OK);
      EXPECT(made->SetProviderId(&provider), S_OK);
      EXPECT(made->SetEventDescriptor(&descriptor), S_OK);
      EXPECT(made->SetPayload(payload, sizeof payload), S_OK);
      EXPECT(relogger->Inject(made), S_OK);
      EXPECT(made->Release(), 0);
    }
    return relogger->Inject(event);
  }

  TRACEHANDLE handle = 0;

private:
  ULONG references_ = 1;
};

static VOID WINAPI print(PEVENT_RECORD event) {
  if (event->EventHeader.ProviderId == provider) {
    printf("id=%u process=%u size=%u:", event->EventHeader.EventDescriptor.Id,
           event->EventHeader.ProcessId == GetCurrentProcessId() ? 1 : event->EventHeader.ProcessId,
           event->UserDataLength);
    for (int at = 0; at < event->UserDataLength; at++) {
      printf(" %d", static_cast<BYTE *>(event->UserData)[at]);
    }
    printf("\n");
  }
}

/* Records a few events. */
static void record(const char *path) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
    char file[512];
  } session = {};
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.ClientContext = 1;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
  session.properties.LoggerNameOffset = offsetof(decltype(session), name);
  session.properties.LogFileNameOffset = offsetof(decltype(session), file);
  snprintf(session.file, sizeof session.file, "%s", path);
  TRACEHANDLE handle = 0;
  REGHANDLE registration = 0;
  EXPECT(StartTraceA(&handle, "OpenEtwRelog", &session.properties), ERROR_SUCCESS);
  EXPECT(EventRegister(&provider, nullptr, nullptr, &registration), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 0, nullptr), ERROR_SUCCESS);
  for (UINT32 number = 1; number <= 6; number++) {
    EVENT_DESCRIPTOR descriptor = {static_cast<USHORT>(number), 0, 0, 4, 0, 0, 0};
    EVENT_DATA_DESCRIPTOR data;
    EventDataDescCreate(&data, &number, sizeof number);
    EXPECT(EventWrite(registration, &descriptor, 1, &data), ERROR_SUCCESS);
  }
  EXPECT(EventUnregister(registration), ERROR_SUCCESS);
  EXPECT(ControlTraceA(handle, nullptr, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}

static BSTR text(const char *narrow) {
  std::basic_string<WCHAR> wide(narrow, narrow + strlen(narrow));
  return SysAllocString(wide.c_str());
}

int main(int argc, char **argv) {
  if (argc != 3) {
    return 2;
  }
  record(argv[1]);
  BSTR input = text(argv[1]), output = text(argv[2]);
  EXPECT(SysStringLen(input), strlen(argv[1]));
  EXPECT(CoInitializeEx(nullptr, COINIT_MULTITHREADED), S_OK);
  ITraceRelogger *relogger = nullptr;
  EXPECT(CoCreateInstance(IID_IUnknown, nullptr, CLSCTX_INPROC_SERVER, IID_ITraceRelogger,
                          reinterpret_cast<void **>(&relogger)),
         REGDB_E_CLASSNOTREG);
  EXPECT(CoCreateInstance(CLSID_TraceRelogger, nullptr, CLSCTX_INPROC_SERVER, __uuidof(ITraceRelogger),
                          reinterpret_cast<LPVOID *>(&relogger)),
         S_OK);
  Rewriter rewriter;
  EXPECT(relogger->ProcessTrace(), HRESULT_FROM_WIN32(ERROR_INVALID_PARAMETER));
  BSTR missing = text("/missing/trace.etl");
  EXPECT(relogger->AddLogfileTraceStream(missing, nullptr, nullptr), HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND));
  SysFreeString(missing);
  EXPECT(relogger->AddLogfileTraceStream(input, &rewriter, &rewriter.handle), S_OK);
  EXPECT(relogger->SetOutputFilename(input), S_OK);
  EXPECT(relogger->RegisterCallback(&rewriter), S_OK);
  EXPECT(relogger->ProcessTrace(), HRESULT_FROM_WIN32(ERROR_SHARING_VIOLATION));
  EXPECT(relogger->SetOutputFilename(output), S_OK);
  EXPECT(relogger->SetCompressionMode(FALSE), S_OK);
  EXPECT(relogger->ProcessTrace(), S_OK);
  EXPECT(relogger->Cancel(), S_OK);
  EXPECT(rewriter.headers, 1);
  EXPECT(rewriter.ends, 1);
  EXPECT(rewriter.events, 6);
  IUnknown *unknown = nullptr;
  EXPECT(relogger->QueryInterface(IID_IUnknown, reinterpret_cast<void **>(&unknown)), S_OK);
  unknown->Release();
  EXPECT(relogger->Release(), 0);
  EXPECT(rewriter.Release(), 0);
  CoUninitialize();
  SysFreeString(input);
  SysFreeString(output);

  EVENT_TRACE_LOGFILEA logfile = {};
  logfile.LogFileName = argv[2];
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  logfile.EventRecordCallback = print;
  TRACEHANDLE trace = OpenTraceA(&logfile);
  EXPECT(trace != INVALID_PROCESSTRACE_HANDLE, true);
  EXPECT(ProcessTrace(&trace, 1, nullptr, nullptr), ERROR_SUCCESS);
  EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  return failures != 0;
}
