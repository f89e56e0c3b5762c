/* Errors, texts, numbers and GUIDs. Tcl's own form of UTF-8 differs for zeros and surrogates. */
#include "twapi_etw.h"

static const char *text_of_error(ULONG code) {
  switch (code) {
  case 2: return "no such file";
  case 5: return "access denied";
  case 6: return "invalid handle";
  case 8: return "not enough memory";
  case 13: return "not a trace, or damaged";
  case 24: return "too long";
  case 50: return "not supported";
  case 87: return "invalid argument";
  case 161: return "invalid path";
  case 170: return "busy";
  case 183: return "a trace with this name exists already";
  case 234: return "too long";
  case 534: return "too long";
  case 1168: return "not found";
  case 1450: return "not enough resources of the system";
  case 4201: return "no such trace";
  default: return "failed";
  }
}

int fail(Tcl_Interp *interp, const char *what, ULONG code) {
  const char *text = text_of_error(code);
  char number[16];
  snprintf(number, sizeof number, "%u", code);
  Tcl_SetErrorCode(interp, "TWAPI_WIN32", number, text, (char *)NULL);
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s: %s (error %s)", what, text, number));
  return TCL_ERROR;
}

int fail_own(Tcl_Interp *interp, const char *what) {
  Tcl_SetErrorCode(interp, "TWAPI", "OPENETW", what, (char *)NULL);
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s", what));
  return TCL_ERROR;
}

Tcl_Encoding utf8;

Tcl_Obj *obj_of_bytes(const char *bytes, Tcl_Size len) {
  Tcl_DString text;
  Tcl_ExternalToUtfDString(utf8, bytes, len, &text);
  Tcl_Obj *obj = Tcl_NewStringObj(Tcl_DStringValue(&text), Tcl_DStringLength(&text));
  Tcl_DStringFree(&text);
  return obj;
}

Tcl_Obj *obj_of_text(const char *text) { return text ? obj_of_bytes(text, -1) : Tcl_NewObj(); }

void append_character(Tcl_DString *out, uint32_t c) {
  char bytes[4];
  int len = 0;
  if (c < 0x80) {
    bytes[len++] = (char)c;
  } else if (c < 0x800) {
    bytes[len++] = (char)(0xC0 | c >> 6);
    bytes[len++] = (char)(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    bytes[len++] = (char)(0xE0 | c >> 12);
    bytes[len++] = (char)(0x80 | (c >> 6 & 0x3F));
    bytes[len++] = (char)(0x80 | (c & 0x3F));
  } else {
    bytes[len++] = (char)(0xF0 | (c >> 18 & 7));
    bytes[len++] = (char)(0x80 | (c >> 12 & 0x3F));
    bytes[len++] = (char)(0x80 | (c >> 6 & 0x3F));
    bytes[len++] = (char)(0x80 | (c & 0x3F));
  }
  Tcl_DStringAppend(out, bytes, len);
}

Tcl_Obj *obj_of_wide(const WCHAR *text) {
  if (!text) return Tcl_NewObj();
  Tcl_DString bytes;
  Tcl_DStringInit(&bytes);
  for (; *text; text++) append_character(&bytes, (uint32_t)*text);
  Tcl_Obj *obj = obj_of_bytes(Tcl_DStringValue(&bytes), Tcl_DStringLength(&bytes));
  Tcl_DStringFree(&bytes);
  return obj;
}

const char *text_of(Tcl_Interp *interp, Tcl_Obj *obj, Tcl_DString *out) {
  Tcl_Size len;
  const char *text = Tcl_GetStringFromObj(obj, &len);
#if TCL_MAJOR_VERSION >= 9
  Tcl_UtfToExternalDStringEx(NULL, utf8, text, len, TCL_ENCODING_PROFILE_REPLACE, out, NULL);
#else
  Tcl_UtfToExternalDString(utf8, text, len, out);
#endif
  if (strlen(Tcl_DStringValue(out)) != (size_t)Tcl_DStringLength(out)) {
    Tcl_DStringFree(out);
    fail_own(interp, "a name contains a zero character");
    return NULL;
  }
  return Tcl_DStringValue(out);
}

int number_of(Tcl_Interp *interp, Tcl_Obj *obj, Tcl_WideInt low, Tcl_WideInt high, Tcl_WideInt *out) {
  if (Tcl_GetWideIntFromObj(interp, obj, out) != TCL_OK) return TCL_ERROR;
  if (*out >= low && *out <= high) return TCL_OK;
  char range[64];
  snprintf(range, sizeof range, "%lld to %lld", (long long)low, (long long)high);
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s is not a number from %s", Tcl_GetString(obj), range));
  return TCL_ERROR;
}

int guid_of(Tcl_Interp *interp, Tcl_Obj *obj, GUID *out) {
  Tcl_Size len;
  const char *text = Tcl_GetStringFromObj(obj, &len);
  if (len == 38 && text[0] == '{' && text[37] == '}') text++, len -= 2;
  unsigned a, b, c, d[8];
  bool is_guid = len == 36;
  for (int at = 0; is_guid && at < 36; at++) {
    bool is_dash = at == 8 || at == 13 || at == 18 || at == 23;
    is_guid = is_dash ? text[at] == '-' : strchr("0123456789abcdefABCDEF", text[at]) != NULL;
  }
  if (!is_guid || sscanf(text, "%8x-%4x-%4x-%2x%2x-%2x%2x%2x%2x%2x%2x", &a, &b, &c, &d[0], &d[1], &d[2], &d[3], &d[4],
                         &d[5], &d[6], &d[7]) != 11) {
    Tcl_SetObjResult(interp, Tcl_ObjPrintf("\"%.100s\" is not a GUID", Tcl_GetString(obj)));
    return TCL_ERROR;
  }
  out->Data1 = a, out->Data2 = (USHORT)b, out->Data3 = (USHORT)c;
  for (int at = 0; at < 8; at++) out->Data4[at] = (UCHAR)d[at];
  return TCL_OK;
}

Tcl_Obj *obj_of_guid(const GUID *guid) {
  const UCHAR *d = guid->Data4;
  char text[40];
  int len = snprintf(text, sizeof text, "{%08X-%04X-%04X-%02X%02X-%02X%02X%02X%02X%02X%02X}", guid->Data1, guid->Data2,
                     guid->Data3, d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
  return Tcl_NewStringObj(text, len);
}

bool is_zero(const GUID *guid) {
  static const GUID zero;
  return memcmp(guid, &zero, sizeof zero) == 0;
}

Tcl_Obj *wide(uint64_t value) { return Tcl_NewWideIntObj((Tcl_WideInt)value); }

void put(Tcl_Obj *list, const char *key, Tcl_Obj *value) {
  Tcl_ListObjAppendElement(NULL, list, Tcl_NewStringObj(key, -1));
  Tcl_ListObjAppendElement(NULL, list, value);
}
