/* The package, and the store of schemas. */
#include "twapi_etw.h"

static int change_store(Tcl_Interp *interp, int objc, Tcl_Obj *const objv[], int (*change)(const char *)) {
  Tcl_DString text;
  if (objc != 2) return Tcl_WrongNumArgs(interp, 1, objv, "file"), TCL_ERROR;
  if (!text_of(interp, objv[1], &text)) return TCL_ERROR;
  int result = change(Tcl_DStringValue(&text));
  Tcl_DStringFree(&text);
  if (result == 0) return TCL_OK;
  Tcl_SetObjResult(interp, obj_of_text(openetw_error()));
  return TCL_ERROR;
}

/* store_add FILE */
COMMAND(store_add) {
  (void)data;
  return change_store(interp, objc, objv, openetw_store_add);
}

/* store_remove GUID */
COMMAND(store_remove) {
  (void)data;
  return change_store(interp, objc, objv, openetw_store_remove);
}

__attribute__((visibility("default"))) int Twapi_etw_Init(Tcl_Interp *interp) {
  if (!Tcl_InitStubs(interp, TCL_VERSION, 0)) return TCL_ERROR;
  if (!utf8) utf8 = Tcl_GetEncoding(NULL, "utf-8");
  static const struct {
    const char *name;
    Tcl_ObjCmdProc *command;
  } commands[] = {
      {"close_trace", close_trace_command},
      {"control_trace", control_trace_command},
      {"enable_trace", enable_trace_command},
      {"open_trace", open_trace_command},
      {"process_trace", process_trace_command},
      {"provider_state", provider_state_command},
      {"providers", providers_command},
      {"query_all_traces", query_all_traces_command},
      {"register", register_command},
      {"start_trace", start_trace_command},
      {"store_add", store_add_command},
      {"store_remove", store_remove_command},
      {"trace_event", trace_event_command},
      {"unregister", unregister_command},
  };
  for (size_t at = 0; at < sizeof commands / sizeof *commands; at++) {
    char name[64];
    snprintf(name, sizeof name, "::twapi::native::%s", commands[at].name);
    /* The namespace has been created by the script that loads this library. */
    if (!Tcl_CreateObjCommand(interp, name, commands[at].command, NULL, NULL)) return TCL_ERROR;
  }
  return TCL_OK;
}
