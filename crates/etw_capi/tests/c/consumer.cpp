// A consumer in the style of Microsoft's documentation: prints the events of a file with the schema of a manifest.
#include <windows.h>
#include <evntcons.h>
#include <tdh.h>
#include <in6addr.h>
#include <wchar.h>
#include <stdio.h>
#include <memory>
#include <new>
#include <string>
#include <vector>

#pragma comment(lib, "tdh.lib")

class Decoder {
public:
  void print(_In_ PEVENT_RECORD event) {
    ULONG size = 0;
    TDHSTATUS status = TdhGetEventInformation(event, 0, nullptr, nullptr, &size);
    if (status == ERROR_NOT_FOUND) {
      return;
    }
    if (status != ERROR_INSUFFICIENT_BUFFER) {
      throw status;
    }
    buffer_.resize(size);
    info_ = reinterpret_cast<PTRACE_EVENT_INFO>(buffer_.data());
    check(TdhGetEventInformation(event, 0, nullptr, info_, &size));
    if (info_->DecodingSource != DecodingSourceXMLFile) {
      return;
    }
    event_ = event;
    wprintf(L"%s/%u level=%s", offset(info_->ProviderNameOffset), event->EventHeader.EventDescriptor.Id,
            offset(info_->LevelNameOffset));
    if (LPCWSTR task = offset(info_->TaskNameOffset)) {
      wprintf(L" task=%s", task);
    }
    data_ = static_cast<BYTE *>(event->UserData);
    end_ = data_ + event->UserDataLength;
    integers_.assign(info_->PropertyCount, 0);
    properties(0, info_->TopLevelPropertyCount);
    wprintf(L"\n");
  }

private:
  LPCWSTR offset(ULONG at) const {
    return at == 0 ? nullptr : reinterpret_cast<LPCWSTR>(reinterpret_cast<BYTE *>(info_) + at);
  }

  static void check(TDHSTATUS status) {
    if (status != ERROR_SUCCESS) {
      throw status;
    }
  }

  void properties(unsigned begin, unsigned end) {
    for (unsigned index = begin; index != end; index++) {
      const EVENT_PROPERTY_INFO &property = info_->EventPropertyInfoArray[index];
      if ((property.Flags & (PropertyStruct | PropertyParamCount)) == 0 && property.count == 1) {
        switch (property.nonStructType.InType) {
        case TDH_INTYPE_INT8:
        case TDH_INTYPE_UINT8:
          integers_[index] = *data_;
          break;
        case TDH_INTYPE_INT16:
        case TDH_INTYPE_UINT16:
          memcpy(&integers_[index], data_, sizeof(USHORT));
          break;
        default:
          break;
        }
      }
      USHORT length =
          property.Flags & PropertyParamLength ? integers_[property.lengthPropertyIndex] : property.length;
      USHORT count = property.Flags & PropertyParamCount ? integers_[property.countPropertyIndex] : property.count;
      if (property.nonStructType.OutType == TDH_OUTTYPE_IPV6 && length == 0) {
        length = sizeof(IN6_ADDR);
      }
      wprintf(L" %s=", offset(property.NameOffset));
      bool isArray = (property.Flags & (PropertyParamCount | PropertyParamFixedCount)) != 0;
      for (unsigned element = 0; element != count; element++) {
        wprintf(L"%s", isArray ? L"|" : L"");
        if (property.Flags & PropertyStruct) {
          unsigned first = property.structType.StructStartIndex;
          properties(first, first + property.structType.NumOfStructMembers);
        } else if (length != 0 || (property.Flags & PropertyParamLength) == 0) {
          // TdhFormatProperty takes 0 for a text that ends with a zero, so empty ones are left out here.
          value(property, length);
        }
      }
    }
  }

  void value(const EVENT_PROPERTY_INFO &property, USHORT length) {
    PEVENT_MAP_INFO map = nullptr;
    if (property.nonStructType.MapNameOffset != 0) {
      ULONG size = 0;
      PWSTR name = const_cast<PWSTR>(offset(property.nonStructType.MapNameOffset));
      if (TdhGetEventMapInformation(event_, name, nullptr, &size) == ERROR_INSUFFICIENT_BUFFER) {
        map_.resize(size);
        map = reinterpret_cast<PEVENT_MAP_INFO>(map_.data());
        check(TdhGetEventMapInformation(event_, name, map, &size));
      }
    }
    ULONG pointer = event_->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8;
    for (;;) {
      ULONG size = static_cast<ULONG>(text_.size() * sizeof(text_[0]));
      USHORT used = 0;
      TDHSTATUS status = TdhFormatProperty(info_, map, pointer, property.nonStructType.InType,
                                           property.nonStructType.OutType, length,
                                           static_cast<USHORT>(end_ - data_), data_, &size, text_.data(), &used);
      if (status == ERROR_INSUFFICIENT_BUFFER) {
        text_.resize(size / sizeof(text_[0]));
        continue;
      }
      if (status == ERROR_EVT_INVALID_EVENT_DATA && map != nullptr) {
        map = nullptr;
        continue;
      }
      check(status);
      wprintf(L"%s", text_.data());
      data_ += used;
      return;
    }
  }

  PEVENT_RECORD event_ = nullptr;
  PTRACE_EVENT_INFO info_ = nullptr;
  BYTE *data_ = nullptr;
  BYTE *end_ = nullptr;
  std::vector<BYTE> buffer_;
  std::vector<BYTE> map_;
  std::vector<WCHAR> text_;
  std::vector<USHORT> integers_;
};

static void WINAPI onEvent(_In_ EVENT_RECORD *event) {
  try {
    static_cast<Decoder *>(event->UserContext)->print(event);
  } catch (TDHSTATUS status) {
    wprintf(L"\nerror %u\n", status);
  }
}

static ULONG WINAPI onBuffer(PEVENT_TRACE_LOGFILEW logfile) {
  return logfile->BuffersRead != 0;
}

int __cdecl wmain(int argc, _In_count_(argc) PWSTR argv[]) {
  if (argc != 3) {
    wprintf(L"usage: %s trace manifest\n", argv[0]);
    return 1;
  }
  ULONG status = TdhLoadManifest(argv[2]);
  if (status != ERROR_SUCCESS) {
    wprintf(L"TdhLoadManifest: %u\n", status);
    return 1;
  }
  Decoder decoder;
  EVENT_TRACE_LOGFILEW logfile = {};
  logfile.LogFileName = argv[1];
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  logfile.EventRecordCallback = onEvent;
  logfile.BufferCallback = onBuffer;
  logfile.Context = &decoder;
  TRACEHANDLE handle = OpenTraceW(&logfile);
  if (handle == INVALID_PROCESSTRACE_HANDLE) {
    wprintf(L"OpenTraceW: %u\n", GetLastError());
    return 1;
  }
  status = ProcessTrace(&handle, 1, nullptr, nullptr);
  CloseTrace(handle);
  TdhUnloadManifest(argv[2]);
  return static_cast<int>(status);
}
