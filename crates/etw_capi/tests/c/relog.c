/* The relogger from C: copies a trace and counts its events. */
#define INITGUID
#define COBJMACROS
#include <windows.h>
#include <relogger.h>
#include "expect.h"

static int events;

static HRESULT STDMETHODCALLTYPE query(ITraceEventCallback *this, REFIID id, void **object) {
  *object = IsEqualGUID(id, &IID_IUnknown) || IsEqualGUID(id, &IID_ITraceEventCallback) ? this : NULL;
  return *object ? S_OK : E_NOINTERFACE;
}
static ULONG STDMETHODCALLTYPE keep(ITraceEventCallback *this) {
  (void)this;
  return 1;
}
static HRESULT STDMETHODCALLTYPE begin(ITraceEventCallback *this, ITraceEvent *header, ITraceRelogger *relogger) {
  (void)this, (void)header, (void)relogger;
  return S_OK;
}
static HRESULT STDMETHODCALLTYPE end(ITraceEventCallback *this, ITraceRelogger *relogger) {
  (void)this, (void)relogger;
  return S_OK;
}
static HRESULT STDMETHODCALLTYPE on_event(ITraceEventCallback *this, ITraceEvent *event, ITraceRelogger *relogger) {
  (void)this;
  events++;
  return relogger->lpVtbl->Inject(relogger, event);
}
static const ITraceEventCallbackVtbl methods = {query, keep, keep, begin, end, on_event};

int main(int argc, char **argv) {
  ITraceEventCallback callback = {&methods};
  ITraceRelogger *relogger = NULL;
  WCHAR paths[2][512];
  BSTR texts[2];
  if (argc != 3) {
    return 2;
  }
  for (int index = 0; index < 2; index++) {
    EXPECT(MultiByteToWideChar(CP_UTF8, 0, argv[1 + index], -1, paths[index], 512) > 1, 1);
    texts[index] = SysAllocString(paths[index]);
  }
  EXPECT(CoInitialize(NULL), S_OK);
  EXPECT(CoCreateInstance(&CLSID_TraceRelogger, NULL, CLSCTX_INPROC_SERVER, &IID_ITraceRelogger, (void **)&relogger),
         S_OK);
  EXPECT(relogger->lpVtbl->AddLogfileTraceStream(relogger, texts[0], NULL, NULL), S_OK);
  EXPECT(ITraceRelogger_SetOutputFilename(relogger, texts[1]), S_OK);
  EXPECT(relogger->lpVtbl->RegisterCallback(relogger, &callback), S_OK);
  EXPECT(ITraceRelogger_ProcessTrace(relogger), S_OK);
  EXPECT(relogger->lpVtbl->Release(relogger), 0);
  printf("events: %d\n", events);
  SysFreeString(texts[0]);
  SysFreeString(texts[1]);
  return failures != 0;
}
