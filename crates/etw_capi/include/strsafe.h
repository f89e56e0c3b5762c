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

static inline __attribute__((unused, format(printf, 3, 4))) HRESULT StringCchPrintfA(LPSTR to, size_t size,
                                                                                     LPCSTR format, ...) {
  if (size == 0 || size > STRSAFE_MAX_CCH) {
    return STRSAFE_E_INVALID_PARAMETER;
  }
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(to, size, format, arguments);
  va_end(arguments);
  return length < 0 || (size_t)length >= size ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;
}

/* The wide functions of libc are for characters of 32 bits. */
#if OPENETW_WIDE_BITS == 32
static inline __attribute__((unused)) HRESULT StringCchPrintfW(LPWSTR to, size_t size, LPCWSTR format, ...) {
  if (size == 0 || size > STRSAFE_MAX_CCH) {
    return STRSAFE_E_INVALID_PARAMETER;
  }
  va_list arguments;
  va_start(arguments, format);
  int length = vswprintf(to, size, format, arguments);
  va_end(arguments);
  to[size - 1] = 0;
  return length < 0 || (size_t)length >= size ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;
}
#endif

#ifdef UNICODE
#define StringCchLength StringCchLengthW
#define StringCchCopy StringCchCopyW
#define StringCchCat StringCchCatW
#define StringCchPrintf StringCchPrintfW
#else
#define StringCchLength StringCchLengthA
#define StringCchCopy StringCchCopyA
#define StringCchCat StringCchCatA
#define StringCchPrintf StringCchPrintfA
#endif

#endif
