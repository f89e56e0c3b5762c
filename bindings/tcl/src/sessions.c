/* Sessions: starting, stopping, changing and listing them, and what they record. */
#include "twapi_etw.h"

enum { MAX_TEXT = 4096 };

/* EVENT_TRACE_PROPERTIES with room for its texts. */
typedef struct {
  EVENT_TRACE_PROPERTIES p;
  char file[MAX_TEXT];
  char name[MAX_TEXT];
} Settings;

static void init_settings(Settings *settings) {
  memset(settings, 0, sizeof *settings);
  settings->p.Wnode.BufferSize = sizeof *settings;
  settings->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  settings->p.LogFileNameOffset = offsetof(Settings, file);
  settings->p.LoggerNameOffset = offsetof(Settings, name);
}

static int copy_text(Tcl_Interp *interp, Tcl_Obj *obj, char out[MAX_TEXT]) {
  Tcl_DString text;
  if (!text_of(interp, obj, &text)) return TCL_ERROR;
  bool fits = Tcl_DStringLength(&text) < MAX_TEXT;
  if (fits) memcpy(out, Tcl_DStringValue(&text), (size_t)Tcl_DStringLength(&text) + 1);
  Tcl_DStringFree(&text);
  return fits ? TCL_OK : fail_own(interp, "a name is longer than 4095 bytes");
}

/* Reads FILE GUID NUMBERS; empty texts stay 0, and so do numbers at the end that are absent. */
static int read_settings(Tcl_Interp *interp, Tcl_Obj *const objv[3], Settings *settings) {
  init_settings(settings);
  if (copy_text(interp, objv[0], settings->file) != TCL_OK) return TCL_ERROR;
  if (*Tcl_GetString(objv[1]) && guid_of(interp, objv[1], &settings->p.Wnode.Guid) != TCL_OK) return TCL_ERROR;
  ULONG *const places[] = {&settings->p.BufferSize,         &settings->p.MinimumBuffers, &settings->p.MaximumBuffers,
                           &settings->p.MaximumFileSize,    &settings->p.LogFileMode,    &settings->p.FlushTimer,
                           &settings->p.EnableFlags,        &settings->p.Wnode.ClientContext};
  Tcl_Obj **numbers;
  Tcl_Size count;
  if (Tcl_ListObjGetElements(interp, objv[2], &count, &numbers) != TCL_OK) return TCL_ERROR;
  if (count > (Tcl_Size)(sizeof places / sizeof *places)) return fail_own(interp, "too many numbers");
  for (Tcl_Size at = 0; at < count; at++) {
    Tcl_WideInt number;
    if (number_of(interp, numbers[at], 0, UINT32_MAX, &number) != TCL_OK) return TCL_ERROR;
    *places[at] = (ULONG)number;
  }
  return TCL_OK;
}

/* Returns a session's settings and status, with TWAPI's keys in TWAPI's order. */
static Tcl_Obj *obj_of_settings(const Settings *settings) {
  const EVENT_TRACE_PROPERTIES *p = &settings->p;
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  put(list, "logfile", obj_of_text(settings->file));
  put(list, "trace_name", obj_of_text(settings->name));
  put(list, "trace_guid", obj_of_guid(&p->Wnode.Guid));
  put(list, "buffer_size", wide(p->BufferSize));
  put(list, "min_buffers", wide(p->MinimumBuffers));
  put(list, "max_buffers", wide(p->MaximumBuffers));
  put(list, "max_file_size", wide(p->MaximumFileSize));
  put(list, "logfile_mode", wide(p->LogFileMode));
  put(list, "flush_timer", wide(p->FlushTimer));
  put(list, "enable_flags", wide(p->EnableFlags));
  put(list, "clock_resolution", wide(p->Wnode.ClientContext));
  put(list, "age_limit", Tcl_NewWideIntObj(p->AgeLimit));
  put(list, "buffer_count", wide(p->NumberOfBuffers));
  put(list, "free_buffers", wide(p->FreeBuffers));
  put(list, "events_lost", wide(p->EventsLost));
  put(list, "buffers_written", wide(p->BuffersWritten));
  put(list, "log_buffers_lost", wide(p->LogBuffersLost));
  put(list, "real_time_buffers_lost", wide(p->RealTimeBuffersLost));
  put(list, "logger_tid", wide((uintptr_t)p->LoggerThreadId));
  return list;
}

/* start_trace NAME FILE GUID NUMBERS: the handle. */
COMMAND(start_trace) {
  (void)data;
  if (objc != 5) return Tcl_WrongNumArgs(interp, 1, objv, "name file guid numbers"), TCL_ERROR;
  Settings settings;
  char name[MAX_TEXT];
  if (read_settings(interp, objv + 2, &settings) != TCL_OK || copy_text(interp, objv[1], name) != TCL_OK)
    return TCL_ERROR;
  TRACEHANDLE handle;
  ULONG code = StartTraceA(&handle, name, &settings.p);
  if (code != SUCCESS) return fail(interp, "starting a trace", code);
  Tcl_SetObjResult(interp, wide(handle));
  return TCL_OK;
}

/* control_trace CODE HANDLE NAME FILE GUID NUMBERS: the session's properties; without a name, of the handle. */
COMMAND(control_trace) {
  (void)data;
  if (objc != 7) return Tcl_WrongNumArgs(interp, 1, objv, "code handle name file guid numbers"), TCL_ERROR;
  Settings settings;
  char name[MAX_TEXT];
  Tcl_WideInt control, handle;
  if (number_of(interp, objv[1], 0, 3, &control) != TCL_OK ||
      Tcl_GetWideIntFromObj(interp, objv[2], &handle) != TCL_OK || copy_text(interp, objv[3], name) != TCL_OK ||
      read_settings(interp, objv + 4, &settings) != TCL_OK)
    return TCL_ERROR;
  static const char *const what[] = {"querying a trace", "stopping a trace", "updating a trace", "flushing a trace"};
  ULONG code = ControlTraceA((TRACEHANDLE)handle, *name ? name : NULL, &settings.p, (ULONG)control);
  if (code != SUCCESS && code != MORE_DATA) return fail(interp, what[control], code);
  Tcl_SetObjResult(interp, obj_of_settings(&settings));
  return TCL_OK;
}

/* query_all_traces: a list of properties. */
COMMAND(query_all_traces) {
  (void)data;
  if (objc != 1) return Tcl_WrongNumArgs(interp, 1, objv, NULL), TCL_ERROR;
  Settings *all = malloc(MAX_SESSIONS * sizeof *all);
  if (!all) return fail(interp, "listing traces", 8);
  EVENT_TRACE_PROPERTIES *places[MAX_SESSIONS];
  for (int at = 0; at < MAX_SESSIONS; at++) {
    init_settings(&all[at]);
    places[at] = &all[at].p;
  }
  ULONG count = 0;
  ULONG code = QueryAllTracesA(places, MAX_SESSIONS, &count);
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  for (ULONG at = 0; at < count && at < MAX_SESSIONS; at++)
    Tcl_ListObjAppendElement(NULL, list, obj_of_settings(&all[at]));
  free(all);
  Tcl_SetObjResult(interp, list);
  return code == SUCCESS || code == MORE_DATA ? TCL_OK : fail(interp, "listing traces", code);
}

/* enable_trace HANDLE PROVIDERGUID ENABLE LEVEL FLAGS */
COMMAND(enable_trace) {
  (void)data;
  if (objc != 6) return Tcl_WrongNumArgs(interp, 1, objv, "handle provider enable level flags"), TCL_ERROR;
  GUID guid;
  Tcl_WideInt handle, level, flags;
  int enable;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK || guid_of(interp, objv[2], &guid) != TCL_OK ||
      Tcl_GetBooleanFromObj(interp, objv[3], &enable) != TCL_OK ||
      number_of(interp, objv[4], 0, 255, &level) != TCL_OK || Tcl_GetWideIntFromObj(interp, objv[5], &flags) != TCL_OK)
    return TCL_ERROR;
  ULONG control = enable ? EVENT_CONTROL_CODE_ENABLE_PROVIDER : EVENT_CONTROL_CODE_DISABLE_PROVIDER;
  providers_were_told(&guid, true);
  ULONG code = EnableTraceEx2((TRACEHANDLE)handle, &guid, control, (UCHAR)level, (ULONGLONG)flags, 0, 0, NULL);
  if (code == SUCCESS) {
    /* Another thread tells this process's own providers, which on Windows know when the function returns. */
    for (int wait = 0; wait < 500 && !providers_were_told(&guid, false); wait++) Tcl_Sleep(1);
    return TCL_OK;
  }
  return fail(interp, enable ? "enabling a provider" : "disabling a provider", code);
}

/* providers: a list of {GUID IS_MOF NAME}, sorted by name. */
COMMAND(providers) {
  (void)data;
  if (objc != 1) return Tcl_WrongNumArgs(interp, 1, objv, NULL), TCL_ERROR;
  PROVIDER_ENUMERATION_INFO *info = NULL;
  ULONG size = 0, code;
  /* A provider may be added between two calls. */
  while ((code = TdhEnumerateProviders(info, &size)) == INSUFFICIENT_BUFFER) {
    PROVIDER_ENUMERATION_INFO *larger = realloc(info, size);
    if (!larger) {
      free(info);
      return fail(interp, "listing providers", 8);
    }
    info = larger;
  }
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  for (ULONG at = 0; code == SUCCESS && info && at < info->NumberOfProviders; at++) {
    TRACE_PROVIDER_INFO *provider = &info->TraceProviderInfoArray[at];
    Tcl_Obj *entry[] = {obj_of_guid(&provider->ProviderGuid), wide(provider->SchemaSource),
                        obj_of_wide(PEI_PROVIDER_NAME(info, provider))};
    Tcl_ListObjAppendElement(NULL, list, Tcl_NewListObj(3, entry));
  }
  free(info);
  Tcl_SetObjResult(interp, list);
  return code == SUCCESS ? TCL_OK : fail(interp, "listing providers", code);
}
