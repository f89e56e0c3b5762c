/* The functions for text of bounded length that providers and consumers use most. Lengths are in characters. */
#ifndef OPENETW_STRSAFE_H
#define OPENETW_STRSAFE_H

#pragma GCC system_header

#include <stdarg.h>
#include <stdio.h>
#include <windows.h>

#define STRSAFE_MAX_CCH 2147483647
#define STRSAFE_E_INVALID_PARAMETER ((HRESULT)0x80070057)
#define STRSAFE_E_INSUFFICIENT_BUFFER ((HRESULT)0x8007007A)

#define OPENETW_STRSAFE_(suffix, character, text)                                                                      \
  /* Fails if the text has no zero within the length. */                                                               \
  FORCEINLINE HRESULT StringCchLength##suffix(text source, size_t limit, size_t *length) {                             \
    size_t found = 0;                                                                                                  \
    while (source && found < limit && source[found]) {                                                                 \
      found++;                                                                                                         \
    }                                                                                                                  \
    if (!source || found == limit || limit > STRSAFE_MAX_CCH) {                                                        \
      return STRSAFE_E_INVALID_PARAMETER;                                                                              \
    }                                                                                                                  \
    if (length) {                                                                                                      \
      *length = found;                                                                                                 \
    }                                                                                                                  \
    return S_OK;                                                                                                       \
  }                                                                                                                    \
  /* Copies what fits, always with a zero. */                                                                          \
  FORCEINLINE HRESULT StringCchCopy##suffix(character *to, size_t size, text source) {                                 \
    if (size == 0 || size > STRSAFE_MAX_CCH) {                                                                         \
      return STRSAFE_E_INVALID_PARAMETER;                                                                              \
    }                                                                                                                  \
    size_t at = 0;                                                                                                     \
    for (; at + 1 < size && source[at]; at++) {                                                                        \
      to[at] = source[at];                                                                                             \
    }                                                                                                                  \
    to[at] = 0;                                                                                                        \
    return source[at] ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;                                                          \
  }                                                                                                                    \
  FORCEINLINE HRESULT StringCchCat##suffix(character *to, size_t size, text source) {                                  \
    size_t length;                                                                                                     \
    HRESULT result = StringCchLength##suffix(to, size, &length);                                                       \
    return FAILED(result) ? result : StringCchCopy##suffix(to + length, size - length, source);                        \
  }
OPENETW_STRSAFE_(A, CHAR, LPCSTR)
OPENETW_STRSAFE_(W, WCHAR, LPCWSTR)
#undef OPENETW_STRSAFE_

/* The same with sizes in bytes. */
#define OPENETW_STRSAFE_(suffix, character, text)                                                                      \
  FORCEINLINE HRESULT StringCbLength##suffix(text source, size_t bytes, size_t *length) {                              \
    HRESULT result = StringCchLength##suffix(source, bytes / sizeof(character), length);                               \
    if (SUCCEEDED(result) && length) {                                                                                 \
      *length *= sizeof(character);                                                                                    \
    }                                                                                                                  \
    return result;                                                                                                     \
  }                                                                                                                    \
  FORCEINLINE HRESULT StringCbCopy##suffix(character *to, size_t bytes, text source) {                                 \
    return StringCchCopy##suffix(to, bytes / sizeof(character), source);                                               \
  }                                                                                                                    \
  FORCEINLINE HRESULT StringCbCat##suffix(character *to, size_t bytes, text source) {                                  \
    return StringCchCat##suffix(to, bytes / sizeof(character), source);                                                \
  }                                                                                                                    \
  /* Copies at most `count` characters. */                                                                             \
  FORCEINLINE HRESULT StringCchCopyN##suffix(character *to, size_t size, text source, size_t count) {                  \
    if (size == 0 || size > STRSAFE_MAX_CCH) {                                                                         \
      return STRSAFE_E_INVALID_PARAMETER;                                                                              \
    }                                                                                                                  \
    size_t at = 0;                                                                                                     \
    for (; at + 1 < size && at < count && source[at]; at++) {                                                          \
      to[at] = source[at];                                                                                             \
    }                                                                                                                  \
    to[at] = 0;                                                                                                        \
    return at < count && source[at] ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;                                            \
  }
OPENETW_STRSAFE_(A, CHAR, LPCSTR)
OPENETW_STRSAFE_(W, WCHAR, LPCWSTR)
#undef OPENETW_STRSAFE_

static inline __attribute__((unused)) HRESULT StringCchVPrintfA(LPSTR to, size_t size, LPCSTR format, va_list list) {
  if (size == 0 || size > STRSAFE_MAX_CCH) {
    return STRSAFE_E_INVALID_PARAMETER;
  }
  int length = vsnprintf(to, size, format, list);
  return length < 0 || (size_t)length >= size ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;
}
static inline __attribute__((unused)) HRESULT StringCchVPrintfW(LPWSTR to, size_t size, LPCWSTR format, va_list list) {
  if (size == 0 || size > STRSAFE_MAX_CCH) {
    return STRSAFE_E_INVALID_PARAMETER;
  }
  return openetw_vswprintf(to, size, format, list) < 0 ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;
}
#define OPENETW_STRSAFE_(name, form, to_type, text, size)                                                              \
  static inline __attribute__((unused)) HRESULT name(to_type to, size_t bytesOrCharacters, text format, ...) {         \
    va_list list;                                                                                                      \
    va_start(list, format);                                                                                            \
    HRESULT result = form(to, bytesOrCharacters / (size), format, list);                                               \
    va_end(list);                                                                                                      \
    return result;                                                                                                     \
  }
OPENETW_STRSAFE_(StringCchPrintfA, StringCchVPrintfA, LPSTR, LPCSTR, 1)
OPENETW_STRSAFE_(StringCchPrintfW, StringCchVPrintfW, LPWSTR, LPCWSTR, 1)
OPENETW_STRSAFE_(StringCbPrintfA, StringCchVPrintfA, LPSTR, LPCSTR, 1)
OPENETW_STRSAFE_(StringCbPrintfW, StringCchVPrintfW, LPWSTR, LPCWSTR, sizeof(WCHAR))
#undef OPENETW_STRSAFE_

/* The forms that return where the text ends. Flags are ignored. */
#define OPENETW_STRSAFE_(name, form, character, to_type, text, size)                                                   \
  static inline __attribute__((unused)) HRESULT name(to_type to, size_t room, to_type *end, size_t *left, DWORD flags, \
                                                     text format, ...) {                                               \
    size_t units = room / (size), length = 0;                                                                          \
    va_list list;                                                                                                      \
    (void)flags;                                                                                                       \
    va_start(list, format);                                                                                            \
    HRESULT result = form(to, units, format, list);                                                                    \
    va_end(list);                                                                                                      \
    if (result == STRSAFE_E_INVALID_PARAMETER) {                                                                       \
      return result;                                                                                                   \
    }                                                                                                                  \
    while (length < units && to[length]) {                                                                             \
      length++;                                                                                                        \
    }                                                                                                                  \
    if (end) {                                                                                                         \
      *end = to + length;                                                                                              \
    }                                                                                                                  \
    if (left) {                                                                                                        \
      *left = (units - length) * (size);                                                                               \
    }                                                                                                                  \
    return result;                                                                                                     \
  }
OPENETW_STRSAFE_(StringCchPrintfExA, StringCchVPrintfA, CHAR, LPSTR, LPCSTR, 1)
OPENETW_STRSAFE_(StringCchPrintfExW, StringCchVPrintfW, WCHAR, LPWSTR, LPCWSTR, 1)
OPENETW_STRSAFE_(StringCbPrintfExA, StringCchVPrintfA, CHAR, LPSTR, LPCSTR, 1)
OPENETW_STRSAFE_(StringCbPrintfExW, StringCchVPrintfW, WCHAR, LPWSTR, LPCWSTR, sizeof(WCHAR))
#undef OPENETW_STRSAFE_

#ifdef UNICODE
#define OPENETW_STRSAFE_(name) name##W
#else
#define OPENETW_STRSAFE_(name) name##A
#endif
#define StringCchLength OPENETW_STRSAFE_(StringCchLength)
#define StringCchCopy OPENETW_STRSAFE_(StringCchCopy)
#define StringCchCopyN OPENETW_STRSAFE_(StringCchCopyN)
#define StringCchCat OPENETW_STRSAFE_(StringCchCat)
#define StringCchPrintf OPENETW_STRSAFE_(StringCchPrintf)
#define StringCchVPrintf OPENETW_STRSAFE_(StringCchVPrintf)
#define StringCbLength OPENETW_STRSAFE_(StringCbLength)
#define StringCbCopy OPENETW_STRSAFE_(StringCbCopy)
#define StringCbCat OPENETW_STRSAFE_(StringCbCat)
#define StringCbPrintf OPENETW_STRSAFE_(StringCbPrintf)
#define StringCchPrintfEx OPENETW_STRSAFE_(StringCchPrintfEx)
#define StringCbPrintfEx OPENETW_STRSAFE_(StringCbPrintfEx)

#endif
