/* The relogger: rewriting traces by callbacks for each event. Interfaces of COM, for C and C++. */
#ifndef OPENETW_RELOGGER_H
#define OPENETW_RELOGGER_H

#pragma GCC system_header

#include <unknwn.h>
#include <evntrace.h>
#include <evntcons.h>

DEFINE_GUID(CLSID_TraceRelogger, 0x7b40792d, 0x05ff, 0x44c4, 0x90, 0x58, 0xf4, 0x40, 0xc7, 0x1f, 0x17, 0xd4);
#define CLSID_CTraceRelogger CLSID_TraceRelogger
DEFINE_GUID(IID_ITraceEvent, 0x8cc97f40, 0x9028, 0x4ff3, 0x9b, 0x62, 0x7d, 0x1f, 0x79, 0xca, 0x7b, 0xcb);
DEFINE_GUID(IID_ITraceEventCallback, 0x3ed25501, 0x593f, 0x43e9, 0x8f, 0x38, 0x3a, 0xb4, 0x6f, 0x5a, 0x4a, 0x52);
DEFINE_GUID(IID_ITraceRelogger, 0xf754ad43, 0x3bcc, 0x4286, 0x80, 0x09, 0x9c, 0x5d, 0xa2, 0x14, 0xe8, 0x4e);

/*
 * An event. What is set holds for the copy that Inject writes. SetDescriptor and the like fail with E_NOTIMPL where the
 * event's header has no such part.
 */
#define OPENETW_TRACE_EVENT_(M, NONE)                                                                                  \
  M(Clone, (ITraceEvent * *NewEvent))                                                                                  \
  M(GetUserContext, (void **UserContext))                                                                              \
  M(GetEventRecord, (PEVENT_RECORD * EventRecord))                                                                     \
  M(SetPayload, (BYTE * Payload, ULONG PayloadSize))                                                                   \
  M(SetEventDescriptor, (PCEVENT_DESCRIPTOR EventDescriptor))                                                          \
  M(SetProcessId, (ULONG ProcessId))                                                                                   \
  M(SetProcessorIndex, (ULONG ProcessorIndex))                                                                         \
  M(SetThreadId, (ULONG ThreadId))                                                                                     \
  M(SetThreadTimes, (ULONG KernelTime, ULONG UserTime))                                                                \
  M(SetActivityId, (LPCGUID ActivityId))                                                                               \
  M(SetTimeStamp, (LARGE_INTEGER * TimeStamp))                                                                         \
  M(SetProviderId, (LPCGUID ProviderId))
#define OPENETW_TRACE_EVENT_CALLBACK_(M, NONE)                                                                         \
  M(OnBeginProcessTrace, (ITraceEvent * HeaderEvent, ITraceRelogger * Relogger))                                       \
  M(OnFinalizeProcessTrace, (ITraceRelogger * Relogger))                                                               \
  M(OnEvent, (ITraceEvent * Event, ITraceRelogger * Relogger))
#define OPENETW_TRACE_RELOGGER_(M, NONE)                                                                               \
  M(AddLogfileTraceStream, (BSTR LogfileName, void *UserContext, TRACEHANDLE *TraceHandle))                            \
  M(AddRealtimeTraceStream, (BSTR LoggerName, void *UserContext, TRACEHANDLE *TraceHandle))                            \
  M(RegisterCallback, (ITraceEventCallback * Callback))                                                                \
  M(Inject, (ITraceEvent * Event))                                                                                     \
  M(CreateEventInstance, (TRACEHANDLE TraceHandle, ULONG Flags, ITraceEvent * *Event))                                 \
  NONE(ProcessTrace)                                                                                                   \
  M(SetOutputFilename, (BSTR LogfileName))                                                                             \
  M(SetCompressionMode, (BOOLEAN CompressionMode))                                                                     \
  NONE(Cancel)

#ifdef __cplusplus
extern "C++" {
struct ITraceEvent;
struct ITraceRelogger;
class CTraceRelogger;
#define OPENETW_METHOD_(name, parameters) virtual HRESULT STDMETHODCALLTYPE name parameters = 0;
#define OPENETW_PLAIN_(name) virtual HRESULT STDMETHODCALLTYPE name() = 0;
#define OPENETW_INTERFACE_(name, methods)                                                                              \
  struct name : public IUnknown {                                                                                      \
    methods(OPENETW_METHOD_, OPENETW_PLAIN_)                                                                           \
  };                                                                                                                   \
  template <> struct OpenEtwUuid<name> {                                                                               \
    static const GUID &id() { return IID_##name; }                                                                     \
  };
OPENETW_INTERFACE_(ITraceEvent, OPENETW_TRACE_EVENT_)
OPENETW_INTERFACE_(ITraceEventCallback, OPENETW_TRACE_EVENT_CALLBACK_)
OPENETW_INTERFACE_(ITraceRelogger, OPENETW_TRACE_RELOGGER_)
template <> struct OpenEtwUuid<CTraceRelogger> {
  static const GUID &id() { return CLSID_TraceRelogger; }
};
}
#else
typedef struct ITraceEvent ITraceEvent;
typedef struct ITraceEventCallback ITraceEventCallback;
typedef struct ITraceRelogger ITraceRelogger;
#define OPENETW_PARAMETERS_(...) __VA_ARGS__
#define OPENETW_VTBL_(name, methods)                                                                                   \
  typedef struct name##Vtbl {                                                                                          \
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(name * This, REFIID riid, void **ppvObject);                            \
    ULONG(STDMETHODCALLTYPE *AddRef)(name * This);                                                                     \
    ULONG(STDMETHODCALLTYPE *Release)(name * This);                                                                    \
    methods                                                                                                            \
  } name##Vtbl;                                                                                                        \
  struct name {                                                                                                        \
    const struct name##Vtbl *lpVtbl;                                                                                   \
  };
#define OPENETW_METHOD_(name, parameters)                                                                              \
  HRESULT(STDMETHODCALLTYPE *name)(OPENETW_SELF_ * This, OPENETW_PARAMETERS_ parameters);
#define OPENETW_PLAIN_(name) HRESULT(STDMETHODCALLTYPE *name)(OPENETW_SELF_ * This);
#define OPENETW_SELF_ ITraceEvent
OPENETW_VTBL_(ITraceEvent, OPENETW_TRACE_EVENT_(OPENETW_METHOD_, OPENETW_PLAIN_))
#undef OPENETW_SELF_
#define OPENETW_SELF_ ITraceEventCallback
OPENETW_VTBL_(ITraceEventCallback, OPENETW_TRACE_EVENT_CALLBACK_(OPENETW_METHOD_, OPENETW_PLAIN_))
#undef OPENETW_SELF_
#define OPENETW_SELF_ ITraceRelogger
OPENETW_VTBL_(ITraceRelogger, OPENETW_TRACE_RELOGGER_(OPENETW_METHOD_, OPENETW_PLAIN_))
#undef OPENETW_SELF_
#ifdef COBJMACROS
#define ITraceEvent_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface((This), (riid), (ppvObject)))
#define ITraceEvent_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define ITraceEvent_Release(This) ((This)->lpVtbl->Release(This))
#define ITraceEvent_Clone(This, NewEvent) ((This)->lpVtbl->Clone((This), (NewEvent)))
#define ITraceEvent_GetUserContext(This, UserContext) ((This)->lpVtbl->GetUserContext((This), (UserContext)))
#define ITraceEvent_GetEventRecord(This, EventRecord) ((This)->lpVtbl->GetEventRecord((This), (EventRecord)))
#define ITraceEvent_SetPayload(This, Payload, PayloadSize) ((This)->lpVtbl->SetPayload((This), (Payload), (PayloadSize)))
#define ITraceEvent_SetEventDescriptor(This, EventDescriptor)                                                          \
  ((This)->lpVtbl->SetEventDescriptor((This), (EventDescriptor)))
#define ITraceEvent_SetProcessId(This, ProcessId) ((This)->lpVtbl->SetProcessId((This), (ProcessId)))
#define ITraceEvent_SetProcessorIndex(This, ProcessorIndex)                                                            \
  ((This)->lpVtbl->SetProcessorIndex((This), (ProcessorIndex)))
#define ITraceEvent_SetThreadId(This, ThreadId) ((This)->lpVtbl->SetThreadId((This), (ThreadId)))
#define ITraceEvent_SetThreadTimes(This, KernelTime, UserTime)                                                         \
  ((This)->lpVtbl->SetThreadTimes((This), (KernelTime), (UserTime)))
#define ITraceEvent_SetActivityId(This, ActivityId) ((This)->lpVtbl->SetActivityId((This), (ActivityId)))
#define ITraceEvent_SetTimeStamp(This, TimeStamp) ((This)->lpVtbl->SetTimeStamp((This), (TimeStamp)))
#define ITraceEvent_SetProviderId(This, ProviderId) ((This)->lpVtbl->SetProviderId((This), (ProviderId)))
#define ITraceRelogger_QueryInterface(This, riid, ppvObject)                                                           \
  ((This)->lpVtbl->QueryInterface((This), (riid), (ppvObject)))
#define ITraceRelogger_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define ITraceRelogger_Release(This) ((This)->lpVtbl->Release(This))
#define ITraceRelogger_AddLogfileTraceStream(This, LogfileName, UserContext, TraceHandle)                              \
  ((This)->lpVtbl->AddLogfileTraceStream((This), (LogfileName), (UserContext), (TraceHandle)))
#define ITraceRelogger_AddRealtimeTraceStream(This, LoggerName, UserContext, TraceHandle)                              \
  ((This)->lpVtbl->AddRealtimeTraceStream((This), (LoggerName), (UserContext), (TraceHandle)))
#define ITraceRelogger_RegisterCallback(This, Callback) ((This)->lpVtbl->RegisterCallback((This), (Callback)))
#define ITraceRelogger_Inject(This, Event) ((This)->lpVtbl->Inject((This), (Event)))
#define ITraceRelogger_CreateEventInstance(This, TraceHandle, Flags, Event)                                            \
  ((This)->lpVtbl->CreateEventInstance((This), (TraceHandle), (Flags), (Event)))
#define ITraceRelogger_ProcessTrace(This) ((This)->lpVtbl->ProcessTrace(This))
#define ITraceRelogger_SetOutputFilename(This, LogfileName) ((This)->lpVtbl->SetOutputFilename((This), (LogfileName)))
#define ITraceRelogger_SetCompressionMode(This, CompressionMode)                                                       \
  ((This)->lpVtbl->SetCompressionMode((This), (CompressionMode)))
#define ITraceRelogger_Cancel(This) ((This)->lpVtbl->Cancel(This))
#endif
#endif

#endif
