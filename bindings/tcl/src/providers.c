/* Providers that scripts register, and their events. */
#include "twapi_etw.h"

/* A registered provider. What its callback stores is read by commands. */
typedef struct Provider {
  struct Provider *next;
  TRACEHANDLE handle;
  GUID guid;
  GUID class_guid;
  atomic_uint calls; /* of its callback */
  unsigned calls_before;
  atomic_int is_enabled;
  atomic_int level;
  atomic_uint flags;
} Provider;

static pthread_mutex_t provider_mutex = PTHREAD_MUTEX_INITIALIZER;
static Provider *providers;

static ULONG WINAPI on_control(WMIDPREQUESTCODE code, PVOID context, ULONG *size, PVOID buffer) {
  Provider *provider = context;
  (void)size;
  TRACEHANDLE logger = GetTraceLoggerHandle(buffer);
  atomic_store(&provider->level, GetTraceEnableLevel(logger));
  atomic_store(&provider->flags, GetTraceEnableFlags(logger));
  atomic_store(&provider->is_enabled, code == WMI_ENABLE_EVENTS);
  atomic_fetch_add(&provider->calls, 1);
  return SUCCESS;
}

/* register PROVIDERGUID CLASSGUID */
COMMAND(register) {
  (void)data;
  if (objc != 3) return Tcl_WrongNumArgs(interp, 1, objv, "provider class"), TCL_ERROR;
  Provider *provider = calloc(1, sizeof *provider);
  if (!provider) return fail(interp, "registering a provider", 8);
  if (guid_of(interp, objv[1], &provider->guid) != TCL_OK || guid_of(interp, objv[2], &provider->class_guid) != TCL_OK) {
    free(provider);
    return TCL_ERROR;
  }
  TRACE_GUID_REGISTRATION classes = {&provider->class_guid, NULL};
  ULONG code = RegisterTraceGuidsA(on_control, provider, &provider->guid, 1, &classes, NULL, NULL, &provider->handle);
  if (code != SUCCESS) {
    free(provider);
    return fail(interp, "registering a provider", code);
  }
  pthread_mutex_lock(&provider_mutex);
  provider->next = providers;
  providers = provider;
  pthread_mutex_unlock(&provider_mutex);
  Tcl_SetObjResult(interp, wide(provider->handle));
  return TCL_OK;
}

/* unregister HANDLE */
COMMAND(unregister) {
  (void)data;
  Tcl_WideInt handle;
  if (objc != 2) return Tcl_WrongNumArgs(interp, 1, objv, "handle"), TCL_ERROR;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK) return TCL_ERROR;
  pthread_mutex_lock(&provider_mutex);
  Provider **place = &providers;
  while (*place && (*place)->handle != (TRACEHANDLE)handle) place = &(*place)->next;
  Provider *provider = *place;
  if (provider) *place = provider->next;
  pthread_mutex_unlock(&provider_mutex);
  if (!provider) return fail(interp, "unregistering a provider", 6);
  ULONG code = UnregisterTraceGuids(provider->handle);
  free(provider);
  return code == SUCCESS ? TCL_OK : fail(interp, "unregistering a provider", code);
}

/* provider_state ?HANDLE?: whether it is enabled, the level, the flags; without a handle, of all providers together. */
COMMAND(provider_state) {
  (void)data;
  Tcl_WideInt handle = 0;
  if (objc > 2) return Tcl_WrongNumArgs(interp, 1, objv, "?handle?"), TCL_ERROR;
  if (objc == 2 && Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK) return TCL_ERROR;
  bool is_found = objc == 1, is_enabled = false;
  int level = 0;
  unsigned flags = 0;
  pthread_mutex_lock(&provider_mutex);
  for (Provider *provider = providers; provider; provider = provider->next) {
    if (objc == 2 && provider->handle != (TRACEHANDLE)handle) continue;
    is_found = true;
    if (!atomic_load(&provider->is_enabled)) continue;
    is_enabled = true;
    if (atomic_load(&provider->level) > level) level = atomic_load(&provider->level);
    flags |= atomic_load(&provider->flags);
  }
  pthread_mutex_unlock(&provider_mutex);
  if (!is_found) return fail(interp, "the state of a provider", 6);
  Tcl_Obj *state[] = {Tcl_NewBooleanObj(is_enabled), Tcl_NewIntObj(level), wide(flags)};
  Tcl_SetObjResult(interp, Tcl_NewListObj(3, state));
  return TCL_OK;
}

/* trace_event HANDLE TYPE LEVEL PAYLOAD: the error code, since a lost event is no error of the script that is traced. */
COMMAND(trace_event) {
  (void)data;
  Tcl_WideInt handle, type, level;
  if (objc != 5) return Tcl_WrongNumArgs(interp, 1, objv, "handle type level payload"), TCL_ERROR;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK ||
      number_of(interp, objv[2], 0, 255, &type) != TCL_OK || number_of(interp, objv[3], 0, 255, &level) != TCL_OK)
    return TCL_ERROR;
  Tcl_Size len;
  const unsigned char *payload = Tcl_GetByteArrayFromObj(objv[4], &len);
  if (!payload) return fail_own(interp, "the payload is not binary");
  struct {
    EVENT_TRACE_HEADER header;
    MOF_FIELD field;
  } event;
  memset(&event, 0, sizeof event);
  bool is_found = false;
  pthread_mutex_lock(&provider_mutex);
  for (Provider *provider = providers; provider && !is_found; provider = provider->next) {
    if (provider->handle != (TRACEHANDLE)handle) continue;
    is_found = true;
    event.header.Guid = provider->class_guid;
  }
  pthread_mutex_unlock(&provider_mutex);
  if (!is_found) return fail(interp, "writing an event", 6);
  event.header.Size = sizeof event;
  event.header.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_USE_MOF_PTR;
  event.header.Class.Type = (UCHAR)type;
  event.header.Class.Level = (UCHAR)level;
  event.field.DataPtr = (ULONG64)(uintptr_t)payload;
  event.field.Length = (ULONG)len;
  Tcl_SetObjResult(interp, wide(TraceEvent((TRACEHANDLE)handle, &event.header)));
  return TCL_OK;
}

bool providers_were_told(const GUID *guid, bool is_start) {
  bool told = true;
  pthread_mutex_lock(&provider_mutex);
  for (Provider *provider = providers; provider; provider = provider->next) {
    if (memcmp(&provider->guid, guid, sizeof *guid) != 0) continue;
    unsigned calls = atomic_load(&provider->calls);
    if (is_start) provider->calls_before = calls;
    told &= calls != provider->calls_before;
  }
  pthread_mutex_unlock(&provider_mutex);
  return told;
}
