/* COM as far as the relogger needs it: IUnknown, making objects, and BSTR. */
#ifndef OPENETW_UNKNWN_H
#define OPENETW_UNKNWN_H

#pragma GCC system_header

#include <windows.h>

#define interface struct
#define STDMETHODIMP HRESULT STDMETHODCALLTYPE
#define STDMETHODIMP_(type) type STDMETHODCALLTYPE
#define STDAPI EXTERN_C HRESULT STDMETHODCALLTYPE
#define BEGIN_INTERFACE
#define END_INTERFACE
#define CONST_VTBL const
#ifdef __cplusplus
#define STDMETHOD(method) virtual HRESULT STDMETHODCALLTYPE method
#define STDMETHOD_(type, method) virtual type STDMETHODCALLTYPE method
#define PURE = 0
#define THIS_
#define THIS void
#define DECLARE_INTERFACE_(name, base) struct name : public base
#define DECLARE_INTERFACE(name) struct name
#endif
#define MIDL_INTERFACE(id) struct

/* Whatever it was, COM is ready: no calls cross threads or processes. */
typedef enum tagCOINIT {
  COINIT_MULTITHREADED = 0,
  COINIT_APARTMENTTHREADED = 2,
  COINIT_DISABLE_OLE1DDE = 4,
  COINIT_SPEED_OVER_MEMORY = 8
} COINIT;
FORCEINLINE HRESULT CoInitializeEx(LPVOID reserved, DWORD flags) {
  (void)reserved, (void)flags;
  return S_OK;
}
FORCEINLINE HRESULT CoInitialize(LPVOID reserved) { return CoInitializeEx(reserved, 0); }
FORCEINLINE void CoUninitialize(void) {}

typedef enum tagCLSCTX {
  CLSCTX_INPROC_SERVER = 1,
  CLSCTX_INPROC_HANDLER = 2,
  CLSCTX_LOCAL_SERVER = 4,
  CLSCTX_REMOTE_SERVER = 16
} CLSCTX;
#define CLSCTX_INPROC (CLSCTX_INPROC_SERVER | CLSCTX_INPROC_HANDLER)
#define CLSCTX_SERVER (CLSCTX_INPROC_SERVER | CLSCTX_LOCAL_SERVER | CLSCTX_REMOTE_SERVER)
#define CLSCTX_ALL (CLSCTX_INPROC_HANDLER | CLSCTX_SERVER)
#define REGDB_E_CLASSNOTREG ((HRESULT)0x80040154)
#define CLASS_E_NOAGGREGATION ((HRESULT)0x80040110)

DEFINE_GUID(IID_IUnknown, 0x00000000, 0x0000, 0x0000, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x46);

#ifdef __cplusplus
extern "C++" {
struct IUnknown {
  virtual HRESULT STDMETHODCALLTYPE QueryInterface(REFIID riid, void **ppvObject) = 0;
  virtual ULONG STDMETHODCALLTYPE AddRef() = 0;
  virtual ULONG STDMETHODCALLTYPE Release() = 0;
  template <class Q> HRESULT STDMETHODCALLTYPE QueryInterface(Q **object);
};
typedef IUnknown *LPUNKNOWN;

/* The id of an interface or class, for __uuidof. */
template <class T> struct OpenEtwUuid;
template <class T> struct OpenEtwUuid<T *> : OpenEtwUuid<T> {};
template <class T> struct OpenEtwUuid<T const> : OpenEtwUuid<T> {};
template <> struct OpenEtwUuid<IUnknown> {
  static const GUID &id() { return IID_IUnknown; }
};
#ifndef __uuidof
#define __uuidof(type) (::OpenEtwUuid<type>::id())
#endif
template <class Q> inline HRESULT STDMETHODCALLTYPE IUnknown::QueryInterface(Q **object) {
  return QueryInterface(__uuidof(Q), (void **)object);
}
#define IID_PPV_ARGS(pointer)                                                                                          \
  ::OpenEtwUuid<typename ::OpenEtwPointee<decltype(pointer)>::type>::id(), (void **)(pointer)
template <class T> struct OpenEtwPointee;
template <class T> struct OpenEtwPointee<T **> {
  typedef T type;
};
}
#else
typedef struct IUnknown IUnknown, *LPUNKNOWN;
typedef struct IUnknownVtbl {
  HRESULT(STDMETHODCALLTYPE *QueryInterface)(IUnknown *This, REFIID riid, void **ppvObject);
  ULONG(STDMETHODCALLTYPE *AddRef)(IUnknown *This);
  ULONG(STDMETHODCALLTYPE *Release)(IUnknown *This);
} IUnknownVtbl;
struct IUnknown {
  const struct IUnknownVtbl *lpVtbl;
};
#endif

/* Makes an object of a class of this library: CLSID_TraceRelogger. */
#if OPENETW_WIDE_BITS == 32
EXTERN_C HRESULT WINAPI CoCreateInstance(REFCLSID rclsid, LPUNKNOWN pUnkOuter, DWORD dwClsContext, REFIID riid,
                                         LPVOID *ppv) OPENETW_WIDE(CoCreateInstance);
#else
EXTERN_C HRESULT WINAPI CoCreateInstance(REFCLSID rclsid, LPUNKNOWN pUnkOuter, DWORD dwClsContext, REFIID riid,
                                         LPVOID *ppv);
#endif

/* Text with its length in bytes before it. */
typedef WCHAR OLECHAR, *LPOLESTR, *BSTR;
typedef const WCHAR *LPCOLESTR;
#define OLESTR(text) OPENETW_L_(text)
FORCEINLINE BSTR SysAllocStringLen(const OLECHAR *text, UINT length) {
  size_t bytes = (size_t)length * sizeof(OLECHAR);
  char *block = (char *)malloc(sizeof(UINT64) + bytes + sizeof(OLECHAR));
  if (block == NULL) {
    return NULL;
  }
  BSTR result = (BSTR)(void *)(block + sizeof(UINT64));
  *(UINT32 *)(void *)(block + sizeof(UINT32)) = (UINT32)bytes;
  if (text) {
    memcpy(result, text, bytes);
  } else {
    memset(result, 0, bytes);
  }
  result[length] = 0;
  return result;
}
FORCEINLINE BSTR SysAllocString(const OLECHAR *text) {
  return text ? SysAllocStringLen(text, (UINT)openetw_wcsnlen(text, (size_t)-1)) : NULL;
}
FORCEINLINE void SysFreeString(BSTR text) {
  if (text) {
    free((char *)text - sizeof(UINT64));
  }
}
FORCEINLINE UINT SysStringByteLen(BSTR text) { return text ? ((const UINT32 *)(const void *)text)[-1] : 0; }
FORCEINLINE UINT SysStringLen(BSTR text) { return SysStringByteLen(text) / sizeof(OLECHAR); }

#endif
