/* Consumers of files and sessions. */
#include "twapi_etw.h"

/* A call of process_trace. */
typedef struct {
  Tcl_Interp *interp;
  Tcl_Obj *callback; /* NULL if buffers are collected in `buffers` */
  Tcl_Obj *buffers;
  Tcl_Obj *events; /* of all that is read, in the order of time, since the last buffer */
  int result; /* of the callback that ended it */
  bool is_ended;
} Run;

/* An open file or session. */
typedef struct Consumer {
  struct Consumer *next;
  TRACEHANDLE handle;
  bool is_closed; /* while it is processed */
  Tcl_ThreadId thread;
  ULONG resolution; /* units of 100 ns of the processor times */
  Run *run;
  TRACE_EVENT_INFO *info;
  ULONG info_size;
} Consumer;

static pthread_mutex_t consumer_mutex = PTHREAD_MUTEX_INITIALIZER;
static Consumer *consumers;

/* Returns a consumer of this thread. */
static Consumer *find_consumer(TRACEHANDLE handle) {
  pthread_mutex_lock(&consumer_mutex);
  Consumer *found = consumers;
  while (found && (found->handle != handle || found->thread != Tcl_GetCurrentThread())) found = found->next;
  pthread_mutex_unlock(&consumer_mutex);
  return found;
}

static void free_consumer(Consumer *consumer) {
  pthread_mutex_lock(&consumer_mutex);
  Consumer **place = &consumers;
  while (*place && *place != consumer) place = &(*place)->next;
  if (*place) *place = consumer->next;
  pthread_mutex_unlock(&consumer_mutex);
  free(consumer->info);
  free(consumer);
}

/* Returns the schema of the current event, or NULL. */
static TRACE_EVENT_INFO *schema_of(Consumer *consumer, EVENT_RECORD *record) {
  ULONG size = consumer->info_size;
  ULONG code = TdhGetEventInformation(record, 0, NULL, consumer->info, &size);
  if (code == INSUFFICIENT_BUFFER) {
    TRACE_EVENT_INFO *larger = realloc(consumer->info, size);
    if (!larger) return NULL;
    consumer->info = larger;
    consumer->info_size = size;
    code = TdhGetEventInformation(record, 0, NULL, larger, &size);
  }
  return code == SUCCESS ? consumer->info : NULL;
}

/* Returns a name, or else the number. */
static Tcl_Obj *name_or(const WCHAR *name, unsigned number) {
  return name && *name ? obj_of_wide(name) : Tcl_NewIntObj((int)number);
}

/* Returns the keywords' names, which follow each other up to an empty one. */
static Tcl_Obj *keywords_of(TRACE_EVENT_INFO *info) {
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  for (const WCHAR *name = info ? TEI_KEYWORDS_NAME(info) : NULL; name && *name;) {
    Tcl_ListObjAppendElement(NULL, list, obj_of_wide(name));
    while (*name++) {
    }
  }
  return list;
}

static Tcl_Obj *sid_of(const EVENT_RECORD *record) {
  for (int at = 0; at < record->ExtendedDataCount; at++) {
    const EVENT_HEADER_EXTENDED_DATA_ITEM *item = &record->ExtendedData[at];
    const UCHAR *sid = (const UCHAR *)(uintptr_t)item->DataPtr;
    if (item->ExtType != EVENT_HEADER_EXT_TYPE_SID || item->DataSize < 8 || item->DataSize < 8 + 4 * sid[1]) continue;
    uint64_t authority = 0;
    for (int byte = 2; byte < 8; byte++) authority = authority << 8 | sid[byte];
    char number[32];
    snprintf(number, sizeof number, "S-%u-%llu", sid[0], (unsigned long long)authority);
    Tcl_Obj *text = Tcl_NewStringObj(number, -1);
    for (int part = 0; part < sid[1]; part++) {
      uint32_t value;
      memcpy(&value, sid + 8 + 4 * part, sizeof value);
      snprintf(number, sizeof number, "-%u", value);
      Tcl_AppendToObj(text, number, -1);
    }
    return text;
  }
  return Tcl_NewObj();
}

/* Adds an event as the values of TWAPI's record etw_event, in its order. */
static void WINAPI on_event(PEVENT_RECORD record) {
  Consumer *consumer = record->UserContext;
  if (!consumer->run || consumer->run->is_ended) return;
  const EVENT_HEADER *header = &record->EventHeader;
  const EVENT_DESCRIPTOR *descriptor = &header->EventDescriptor;
  TRACE_EVENT_INFO *info = schema_of(consumer, record);
  Tcl_Obj *fields = info ? fields_of(record) : NULL;
  if (!fields) {
    fields = Tcl_NewListObj(0, NULL);
    put(fields, "mofdata", Tcl_NewByteArrayObj(record->UserData, record->UserDataLength));
  }
  bool is_class = header->Flags & EVENT_HEADER_FLAG_CLASSIC_HEADER;
  bool has_times = !(header->Flags & (EVENT_HEADER_FLAG_NO_CPUTIME | EVENT_HEADER_FLAG_PRIVATE_SESSION));
  bool has_guid = info && !is_zero(&info->EventGuid);
  uint64_t user = has_times ? (uint64_t)header->UserTime * consumer->resolution : 0;
  uint64_t kernel = has_times ? (uint64_t)header->KernelTime * consumer->resolution : 0;
  if (header->Flags & EVENT_HEADER_FLAG_PRIVATE_SESSION) user = header->ProcessorTime * consumer->resolution;
  char keywords[24];
  snprintf(keywords, sizeof keywords, "0x%llx", (unsigned long long)descriptor->Keyword);
  const GUID *event_guid = has_guid ? &info->EventGuid : is_class ? &header->ProviderId : NULL;
  Tcl_Obj *values[] = {
      wide(descriptor->Id),
      wide(descriptor->Version),
      wide(descriptor->Channel),
      wide(descriptor->Level),
      wide(descriptor->Opcode),
      wide(descriptor->Task),
      Tcl_NewStringObj(keywords, -1),
      Tcl_NewWideIntObj(header->TimeStamp.QuadPart),
      Tcl_NewWideIntObj(header->ThreadId == UINT32_MAX ? -1 : (Tcl_WideInt)header->ThreadId),
      Tcl_NewWideIntObj(header->ProcessId == UINT32_MAX ? -1 : (Tcl_WideInt)header->ProcessId),
      obj_of_guid(info ? &info->ProviderGuid : &header->ProviderId),
      wide(user),
      wide(kernel),
      obj_of_wide(info ? TEI_PROVIDER_NAME(info) : NULL),
      event_guid ? obj_of_guid(event_guid) : Tcl_NewObj(),
      name_or(info ? TEI_CHANNEL_NAME(info) : NULL, descriptor->Channel),
      name_or(info ? TEI_LEVEL_NAME(info) : NULL, descriptor->Level),
      name_or(info ? TEI_OPCODE_NAME(info) : NULL, descriptor->Opcode),
      name_or(info ? TEI_TASK_NAME(info) : NULL, descriptor->Task),
      keywords_of(info),
      fields,
      obj_of_wide(info ? TEI_EVENT_MESSAGE(info) : NULL),
      sid_of(record),
  };
  Tcl_ListObjAppendElement(NULL, consumer->run->events, Tcl_NewListObj(sizeof values / sizeof *values, values));
}

/* Passes the events since the last call to the script. Returns FALSE to end processing. */
static ULONG WINAPI on_buffer(PEVENT_TRACE_LOGFILEA logfile) {
  Consumer *consumer = logfile->Context;
  Run *run = consumer->run;
  if (!run || run->is_ended) return FALSE;
  Tcl_Size count = 0;
  Tcl_ListObjLength(NULL, run->events, &count);
  if (count == 0) return TRUE;
  Tcl_Obj *buffer = Tcl_NewListObj(0, NULL);
  put(buffer, "logfile", obj_of_text(logfile->LogFileName));
  put(buffer, "logger_name", obj_of_text(logfile->LoggerName));
  put(buffer, "current_time", Tcl_NewWideIntObj(logfile->CurrentTime));
  put(buffer, "buffers_read", wide(logfile->BuffersRead));
  put(buffer, "buffer_size", wide(logfile->BufferSize));
  put(buffer, "filled", wide(logfile->Filled));
  put(buffer, "events_lost", wide(logfile->EventsLost));
  put(buffer, "kernel_trace", wide(logfile->IsKernelTrace));
  Tcl_Obj *events = run->events;
  run->events = Tcl_NewListObj(0, NULL);
  Tcl_IncrRefCount(run->events);
  if (!run->callback) {
    Tcl_ListObjAppendElement(NULL, run->buffers, buffer);
    Tcl_ListObjAppendElement(NULL, run->buffers, events);
    Tcl_DecrRefCount(events);
    return TRUE;
  }
  Tcl_Obj *call = Tcl_DuplicateObj(run->callback);
  Tcl_IncrRefCount(call);
  Tcl_ListObjAppendElement(NULL, call, buffer);
  Tcl_ListObjAppendElement(NULL, call, events);
  Tcl_DecrRefCount(events);
  int result = Tcl_EvalObjEx(run->interp, call, TCL_EVAL_GLOBAL | TCL_EVAL_DIRECT);
  Tcl_DecrRefCount(call);
  if (result == TCL_ERROR)
    Tcl_AppendObjToErrorInfo(run->interp, Tcl_NewStringObj("\n    (callback for events)", -1));
  bool goes_on = result != TCL_ERROR && result != TCL_BREAK;
  if (goes_on) {
    Tcl_ResetResult(run->interp);
  } else {
    run->result = result;
    run->is_ended = true;
  }
  return goes_on && !consumer->is_closed && !Tcl_InterpDeleted(run->interp);
}

/* open_trace NAME IS_LIVE: a handle. */
COMMAND(open_trace) {
  (void)data;
  int is_live;
  Tcl_DString name;
  if (objc != 3) return Tcl_WrongNumArgs(interp, 1, objv, "name live"), TCL_ERROR;
  if (Tcl_GetBooleanFromObj(interp, objv[2], &is_live) != TCL_OK) return TCL_ERROR;
  if (!text_of(interp, objv[1], &name)) return TCL_ERROR;
  Consumer *consumer = calloc(1, sizeof *consumer);
  if (!consumer) {
    Tcl_DStringFree(&name);
    return fail(interp, "opening a trace", 8);
  }
  EVENT_TRACE_LOGFILEA logfile;
  memset(&logfile, 0, sizeof logfile);
  *(is_live ? &logfile.LoggerName : &logfile.LogFileName) = Tcl_DStringValue(&name);
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD | (is_live ? PROCESS_TRACE_MODE_REAL_TIME : 0);
  logfile.EventRecordCallback = on_event;
  logfile.BufferCallback = on_buffer;
  logfile.Context = consumer;
  consumer->handle = OpenTraceA(&logfile);
  consumer->thread = Tcl_GetCurrentThread();
  consumer->resolution = logfile.LogfileHeader.TimerResolution;
  if (consumer->handle == INVALID_PROCESSTRACE_HANDLE) {
    ULONG code = GetLastError();
    free(consumer);
    Tcl_Obj *what = Tcl_ObjPrintf("opening %s", Tcl_GetString(objv[1]));
    Tcl_IncrRefCount(what);
    fail(interp, Tcl_GetString(what), code);
    Tcl_DecrRefCount(what);
    Tcl_DStringFree(&name);
    return TCL_ERROR;
  }
  Tcl_DStringFree(&name);
  pthread_mutex_lock(&consumer_mutex);
  consumer->next = consumers;
  consumers = consumer;
  pthread_mutex_unlock(&consumer_mutex);
  Tcl_SetObjResult(interp, wide(consumer->handle));
  return TCL_OK;
}

/* close_trace HANDLE; while it is processed, that ends soon. */
COMMAND(close_trace) {
  (void)data;
  Tcl_WideInt handle;
  if (objc != 2) return Tcl_WrongNumArgs(interp, 1, objv, "handle"), TCL_ERROR;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK) return TCL_ERROR;
  Consumer *consumer = find_consumer((TRACEHANDLE)handle);
  if (!consumer || consumer->is_closed) return fail(interp, "closing a trace", 6);
  ULONG code = CloseTrace(consumer->handle);
  if (consumer->run) {
    consumer->is_closed = true;
  } else {
    free_consumer(consumer);
  }
  return code == SUCCESS || code == CLOSE_PENDING ? TCL_OK : fail(interp, "closing a trace", code);
}

static int time_of(Tcl_Interp *interp, Tcl_Obj *obj, FILETIME *out) {
  Tcl_WideInt time;
  if (number_of(interp, obj, 0, INT64_MAX, &time) != TCL_OK) return TCL_ERROR;
  out->dwLowDateTime = (DWORD)time;
  out->dwHighDateTime = (DWORD)(time >> 32);
  return TCL_OK;
}

/* process_trace HANDLES CALLBACK START END: without a callback, a list of buffers and their events by turns. */
COMMAND(process_trace) {
  (void)data;
  if (objc != 5) return Tcl_WrongNumArgs(interp, 1, objv, "handles callback start end"), TCL_ERROR;
  Tcl_Obj **elements;
  Tcl_Size count, words;
  if (Tcl_ListObjGetElements(interp, objv[1], &count, &elements) != TCL_OK ||
      Tcl_ListObjLength(interp, objv[2], &words) != TCL_OK)
    return TCL_ERROR;
  if (count < 1 || count > MAX_SESSIONS) return fail_own(interp, "from 1 to 64 handles can be processed together");
  FILETIME start, end;
  bool has_start = *Tcl_GetString(objv[3]), has_end = *Tcl_GetString(objv[4]);
  if ((has_start && time_of(interp, objv[3], &start) != TCL_OK) ||
      (has_end && time_of(interp, objv[4], &end) != TCL_OK))
    return TCL_ERROR;
  TRACEHANDLE handles[MAX_SESSIONS];
  Consumer *open[MAX_SESSIONS];
  for (Tcl_Size at = 0; at < count; at++) {
    Tcl_WideInt handle;
    if (Tcl_GetWideIntFromObj(interp, elements[at], &handle) != TCL_OK) return TCL_ERROR;
    handles[at] = (TRACEHANDLE)handle;
    open[at] = find_consumer(handles[at]);
    if (!open[at] || open[at]->is_closed) return fail(interp, "processing events", 6);
    if (open[at]->run) return fail(interp, "processing events", 170);
    for (Tcl_Size other = 0; other < at; other++)
      if (open[other] == open[at]) return fail_own(interp, "a handle is there twice");
  }
  Run run = {.interp = interp, .callback = words ? objv[2] : NULL, .result = TCL_OK};
  run.buffers = Tcl_NewListObj(0, NULL);
  run.events = Tcl_NewListObj(0, NULL);
  Tcl_IncrRefCount(run.buffers);
  Tcl_IncrRefCount(run.events);
  Tcl_IncrRefCount(objv[2]);
  for (Tcl_Size at = 0; at < count; at++) open[at]->run = &run;
  Tcl_Preserve(interp);
  ULONG code = ProcessTrace(handles, (ULONG)count, has_start ? &start : NULL, has_end ? &end : NULL);
  bool is_closed = false;
  for (Tcl_Size at = 0; at < count; at++) {
    open[at]->run = NULL;
    is_closed |= open[at]->is_closed;
    if (open[at]->is_closed) free_consumer(open[at]);
  }
  int result = run.result == TCL_ERROR ? TCL_ERROR : TCL_OK;
  if (result == TCL_OK) {
    Tcl_SetObjResult(interp, run.buffers);
    bool is_ended = run.is_ended || is_closed || code == CANCELLED;
    if (code != SUCCESS && !is_ended) result = fail(interp, "processing events", code);
  }
  Tcl_DecrRefCount(run.buffers);
  Tcl_DecrRefCount(run.events);
  Tcl_DecrRefCount(objv[2]);
  Tcl_Release(interp);
  return result;
}
