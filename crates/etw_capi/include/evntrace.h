/* Sessions: controlling them and consuming their events. */
#ifndef OPENETW_EVNTRACE_H
#define OPENETW_EVNTRACE_H

#pragma GCC system_header

#include <windows.h>
#include <wmistr.h>
#include <evntprov.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WMIAPI

DEFINE_GUID(ALPCGuid, 0x45d8cccd, 0x539f, 0x4b72, 0xa8, 0xb7, 0x5c, 0x68, 0x31, 0x42, 0x60, 0x9a);
DEFINE_GUID(DefaultTraceSecurityGuid, 0x0811c1af, 0x7a07, 0x4a06, 0x82, 0xed, 0x86, 0x94, 0x55, 0xcd, 0xf7, 0x13);
DEFINE_GUID(DiskIoGuid, 0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(EventTraceConfigGuid, 0x01853a65, 0x418f, 0x4f36, 0xae, 0xfc, 0xdc, 0x0f, 0x1d, 0x2f, 0xd2, 0x35);
DEFINE_GUID(EventTraceGuid, 0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
DEFINE_GUID(FileIoGuid, 0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
DEFINE_GUID(ImageLoadGuid, 0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18);
DEFINE_GUID(PageFaultGuid, 0x3d6fa8d3, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(PerfInfoGuid, 0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);
DEFINE_GUID(PrivateLoggerNotificationGuid, 0x3595ab5c, 0x042a, 0x4c8e, 0xb9, 0x42, 0x2d, 0x05, 0x9b, 0xfe, 0xb1, 0xb1);
DEFINE_GUID(ProcessGuid, 0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(RegistryGuid, 0xae53722e, 0xc863, 0x11d2, 0x86, 0x59, 0x00, 0xc0, 0x4f, 0xa3, 0x21, 0xa1);
DEFINE_GUID(SplitIoGuid, 0xd837ca92, 0x12b9, 0x44a5, 0xad, 0x6a, 0x3a, 0x65, 0xb3, 0x57, 0x8a, 0xa8);
DEFINE_GUID(SystemAlpcProviderGuid, 0xfcb9baaf, 0xe529, 0x4980, 0x92, 0xe9, 0xce, 0xd1, 0xa6, 0xaa, 0xdf, 0xdf);
DEFINE_GUID(SystemConfigProviderGuid, 0xfef3a8b6, 0x318d, 0x4b67, 0xa9, 0x6a, 0x3b, 0x0f, 0x6b, 0x8f, 0x18, 0xfe);
DEFINE_GUID(SystemCpuProviderGuid, 0xc6c5265f, 0xeae8, 0x4650, 0xaa, 0xe4, 0x9d, 0x48, 0x60, 0x3d, 0x85, 0x10);
DEFINE_GUID(SystemHypervisorProviderGuid, 0xbafa072a, 0x918a, 0x4bed, 0xb6, 0x22, 0xbc, 0x15, 0x20, 0x97, 0x09, 0x8f);
DEFINE_GUID(SystemInterruptProviderGuid, 0xd4bbee17, 0xb545, 0x4888, 0x85, 0x8b, 0x74, 0x41, 0x69, 0x01, 0x5b, 0x25);
DEFINE_GUID(SystemIoFilterProviderGuid, 0xfbd09363, 0x9e22, 0x4661, 0xb8, 0xbf, 0xe7, 0xa3, 0x4b, 0x53, 0x5b, 0x8c);
DEFINE_GUID(SystemIoProviderGuid, 0x3d5c43e3, 0x0f1c, 0x4202, 0xb8, 0x17, 0x17, 0x4c, 0x00, 0x70, 0xdc, 0x79);
DEFINE_GUID(SystemLockProviderGuid, 0x721ddfd3, 0xdacc, 0x4e1e, 0xb2, 0x6a, 0xa2, 0xcb, 0x31, 0xd4, 0x70, 0x5a);
DEFINE_GUID(SystemMemoryProviderGuid, 0x82958ca9, 0xb6cd, 0x47f8, 0xa3, 0xa8, 0x03, 0xae, 0x85, 0xa4, 0xbc, 0x24);
DEFINE_GUID(SystemObjectProviderGuid, 0xfebd7460, 0x3d1d, 0x47eb, 0xaf, 0x49, 0xc9, 0xee, 0xb1, 0xe1, 0x46, 0xf2);
DEFINE_GUID(SystemPowerProviderGuid, 0xc134884a, 0x32d5, 0x4488, 0x80, 0xe5, 0x14, 0xed, 0x7a, 0xbb, 0x82, 0x69);
DEFINE_GUID(SystemProcessProviderGuid, 0x151f55dc, 0x467d, 0x471f, 0x83, 0xb5, 0x5f, 0x88, 0x9d, 0x46, 0xff, 0x66);
DEFINE_GUID(SystemProfileProviderGuid, 0xbfeb0324, 0x1cee, 0x496f, 0xa4, 0x09, 0x2a, 0xc2, 0xb4, 0x8a, 0x63, 0x22);
DEFINE_GUID(SystemRegistryProviderGuid, 0x16156bd9, 0xfab4, 0x4cfa, 0xa2, 0x32, 0x89, 0xd1, 0x09, 0x90, 0x58, 0xe3);
DEFINE_GUID(SystemSchedulerProviderGuid, 0x599a2a76, 0x4d91, 0x4910, 0x9a, 0xc7, 0x7d, 0x33, 0xf2, 0xe9, 0x7a, 0x6c);
DEFINE_GUID(SystemSyscallProviderGuid, 0x434286f7, 0x6f1b, 0x45bb, 0xb3, 0x7e, 0x95, 0xf6, 0x23, 0x04, 0x6c, 0x7c);
DEFINE_GUID(SystemTimerProviderGuid, 0x4f061568, 0xe215, 0x499f, 0xab, 0x2e, 0xed, 0xa0, 0xae, 0x89, 0x0a, 0x5b);
DEFINE_GUID(SystemTraceControlGuid, 0x9e814aad, 0x3204, 0x11d2, 0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39);
DEFINE_GUID(TcpIpGuid, 0x9a280ac0, 0xc8e0, 0x11d1, 0x84, 0xe2, 0x00, 0xc0, 0x4f, 0xb9, 0x98, 0xa2);
DEFINE_GUID(ThreadGuid, 0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(UdpIpGuid, 0xbf3a50c5, 0xa9c9, 0x4988, 0xa0, 0x05, 0x2d, 0xf0, 0xb7, 0xc8, 0x0f, 0x80);

#define KERNEL_LOGGER_NAMEA "NT Kernel Logger"
#define GLOBAL_LOGGER_NAMEA "GlobalLogger"
#define EVENT_LOGGER_NAMEA "EventLog"
#define DIAG_LOGGER_NAMEA "DiagLog"
#define KERNEL_LOGGER_NAMEW OPENETW_L_("NT Kernel Logger")
#define GLOBAL_LOGGER_NAMEW OPENETW_L_("GlobalLogger")
#define EVENT_LOGGER_NAMEW OPENETW_L_("EventLog")
#define DIAG_LOGGER_NAMEW OPENETW_L_("DiagLog")

#define EVENT_TRACE_TYPE_INFO 0x0
#define EVENT_TRACE_TYPE_START 0x1
#define EVENT_TRACE_TYPE_END 0x2
#define EVENT_TRACE_TYPE_STOP 0x2
#define EVENT_TRACE_TYPE_DC_START 0x3
#define EVENT_TRACE_TYPE_DC_END 0x4
#define EVENT_TRACE_TYPE_EXTENSION 0x5
#define EVENT_TRACE_TYPE_REPLY 0x6
#define EVENT_TRACE_TYPE_DEQUEUE 0x7
#define EVENT_TRACE_TYPE_RESUME 0x7
#define EVENT_TRACE_TYPE_CHECKPOINT 0x8
#define EVENT_TRACE_TYPE_SUSPEND 0x8
#define EVENT_TRACE_TYPE_WINEVT_SEND 0x9
#define EVENT_TRACE_TYPE_CONFIG_CPU 0xA
#define EVENT_TRACE_TYPE_GUIDMAP 0xA
#define EVENT_TRACE_TYPE_IO_READ 0xA
#define EVENT_TRACE_TYPE_LOAD 0xA
#define EVENT_TRACE_TYPE_MM_TF 0xA
#define EVENT_TRACE_TYPE_REGCREATE 0xA
#define EVENT_TRACE_TYPE_SEND 0xA
#define EVENT_TRACE_TYPE_CONFIG 0xB
#define EVENT_TRACE_TYPE_CONFIG_PHYSICALDISK 0xB
#define EVENT_TRACE_TYPE_IO_WRITE 0xB
#define EVENT_TRACE_TYPE_MM_DZF 0xB
#define EVENT_TRACE_TYPE_RECEIVE 0xB
#define EVENT_TRACE_TYPE_REGOPEN 0xB
#define EVENT_TRACE_TYPE_TERMINATE 0xB
#define EVENT_TRACE_TYPE_CONFIG_LOGICALDISK 0xC
#define EVENT_TRACE_TYPE_CONNECT 0xC
#define EVENT_TRACE_TYPE_IO_READ_INIT 0xC
#define EVENT_TRACE_TYPE_MM_COW 0xC
#define EVENT_TRACE_TYPE_REGDELETE 0xC
#define EVENT_TRACE_TYPE_SIDINFO 0xC
#define EVENT_TRACE_TYPE_CONFIG_NIC 0xD
#define EVENT_TRACE_TYPE_DISCONNECT 0xD
#define EVENT_TRACE_TYPE_IO_WRITE_INIT 0xD
#define EVENT_TRACE_TYPE_MM_GPF 0xD
#define EVENT_TRACE_TYPE_REGQUERY 0xD
#define EVENT_TRACE_TYPE_SECURITY 0xD
#define EVENT_TRACE_TYPE_CONFIG_VIDEO 0xE
#define EVENT_TRACE_TYPE_IO_FLUSH 0xE
#define EVENT_TRACE_TYPE_MM_HPF 0xE
#define EVENT_TRACE_TYPE_REGSETVALUE 0xE
#define EVENT_TRACE_TYPE_RETRANSMIT 0xE
#define EVENT_TRACE_TYPE_ACCEPT 0xF
#define EVENT_TRACE_TYPE_CONFIG_SERVICES 0xF
#define EVENT_TRACE_TYPE_IO_FLUSH_INIT 0xF
#define EVENT_TRACE_TYPE_MM_AV 0xF
#define EVENT_TRACE_TYPE_REGDELETEVALUE 0xF
#define EVENT_TRACE_TYPE_CONFIG_POWER 0x10
#define EVENT_TRACE_TYPE_IO_REDIRECTED_INIT 0x10
#define EVENT_TRACE_TYPE_RECONNECT 0x10
#define EVENT_TRACE_TYPE_REGQUERYVALUE 0x10
#define EVENT_TRACE_TYPE_CONFIG_NETINFO 0x11
#define EVENT_TRACE_TYPE_CONNFAIL 0x11
#define EVENT_TRACE_TYPE_REGENUMERATEKEY 0x11
#define EVENT_TRACE_TYPE_CONFIG_OPTICALMEDIA 0x12
#define EVENT_TRACE_TYPE_COPY_TCP 0x12
#define EVENT_TRACE_TYPE_REGENUMERATEVALUEKEY 0x12
#define EVENT_TRACE_TYPE_CONFIG_PHYSICALDISK_EX 0x13
#define EVENT_TRACE_TYPE_COPY_ARP 0x13
#define EVENT_TRACE_TYPE_REGQUERYMULTIPLEVALUE 0x13
#define EVENT_TRACE_TYPE_ACKFULL 0x14
#define EVENT_TRACE_TYPE_REGSETINFORMATION 0x14
#define EVENT_TRACE_TYPE_ACKPART 0x15
#define EVENT_TRACE_TYPE_CONFIG_IRQ 0x15
#define EVENT_TRACE_TYPE_REGFLUSH 0x15
#define EVENT_TRACE_TYPE_ACKDUP 0x16
#define EVENT_TRACE_TYPE_CONFIG_PNP 0x16
#define EVENT_TRACE_TYPE_REGKCBCREATE 0x16
#define EVENT_TRACE_TYPE_CONFIG_IDECHANNEL 0x17
#define EVENT_TRACE_TYPE_REGKCBDELETE 0x17
#define EVENT_TRACE_TYPE_CONFIG_NUMANODE 0x18
#define EVENT_TRACE_TYPE_REGKCBRUNDOWNBEGIN 0x18
#define EVENT_TRACE_TYPE_CONFIG_PLATFORM 0x19
#define EVENT_TRACE_TYPE_REGKCBRUNDOWNEND 0x19
#define EVENT_TRACE_TYPE_CONFIG_PROCESSORGROUP 0x1A
#define EVENT_TRACE_TYPE_REGVIRTUALIZE 0x1A
#define EVENT_TRACE_TYPE_CONFIG_PROCESSORNUMBER 0x1B
#define EVENT_TRACE_TYPE_REGCLOSE 0x1B
#define EVENT_TRACE_TYPE_CONFIG_DPI 0x1C
#define EVENT_TRACE_TYPE_REGSETSECURITY 0x1C
#define EVENT_TRACE_TYPE_CONFIG_CI_INFO 0x1D
#define EVENT_TRACE_TYPE_REGQUERYSECURITY 0x1D
#define EVENT_TRACE_TYPE_CONFIG_MACHINEID 0x1E
#define EVENT_TRACE_TYPE_REGCOMMIT 0x1E
#define EVENT_TRACE_TYPE_CONFIG_DEFRAG 0x1F
#define EVENT_TRACE_TYPE_REGPREPARE 0x1F
#define EVENT_TRACE_TYPE_CONFIG_MOBILEPLATFORM 0x20
#define EVENT_TRACE_TYPE_REGROLLBACK 0x20
#define EVENT_TRACE_TYPE_CONFIG_DEVICEFAMILY 0x21
#define EVENT_TRACE_TYPE_REGMOUNTHIVE 0x21
#define EVENT_TRACE_TYPE_CONFIG_FLIGHTID 0x22
#define EVENT_TRACE_TYPE_CONFIG_PROCESSOR 0x23
#define EVENT_TRACE_TYPE_CONFIG_VIRTUALIZATION 0x24
#define EVENT_TRACE_TYPE_CONFIG_BOOT 0x25
#define EVENT_TRACE_TYPE_OPTICAL_IO_READ 0x37
#define EVENT_TRACE_TYPE_OPTICAL_IO_WRITE 0x38
#define EVENT_TRACE_TYPE_OPTICAL_IO_FLUSH 0x39
#define EVENT_TRACE_TYPE_OPTICAL_IO_READ_INIT 0x3A
#define EVENT_TRACE_TYPE_OPTICAL_IO_WRITE_INIT 0x3B
#define EVENT_TRACE_TYPE_OPTICAL_IO_FLUSH_INIT 0x3C
#define EVENT_TRACE_TYPE_DBGID_RSDS 0x40
#define EVENT_TRACE_TYPE_FLT_PREOP_INIT 0x60
#define EVENT_TRACE_TYPE_FLT_POSTOP_INIT 0x61
#define EVENT_TRACE_TYPE_FLT_PREOP_COMPLETION 0x62
#define EVENT_TRACE_TYPE_FLT_POSTOP_COMPLETION 0x63
#define EVENT_TRACE_TYPE_FLT_PREOP_FAILURE 0x64
#define EVENT_TRACE_TYPE_FLT_POSTOP_FAILURE 0x65
#define EVENT_TRACE_TYPE_WINEVT_RECEIVE 0xF0

/* Levels. */
#define TRACE_LEVEL_NONE 0x0
#define TRACE_LEVEL_CRITICAL 0x1
#define TRACE_LEVEL_FATAL 0x1
#define TRACE_LEVEL_ERROR 0x2
#define TRACE_LEVEL_WARNING 0x3
#define TRACE_LEVEL_INFORMATION 0x4
#define TRACE_LEVEL_VERBOSE 0x5
#define TRACE_LEVEL_RESERVED6 0x6
#define TRACE_LEVEL_RESERVED7 0x7
#define TRACE_LEVEL_RESERVED8 0x8
#define TRACE_LEVEL_RESERVED9 0x9

/* EnableFlags of the NT Kernel Logger. */
#define EVENT_TRACE_FLAG_PROCESS 0x1
#define EVENT_TRACE_FLAG_THREAD 0x2
#define EVENT_TRACE_FLAG_IMAGE_LOAD 0x4
#define EVENT_TRACE_FLAG_PROCESS_COUNTERS 0x8
#define EVENT_TRACE_FLAG_CSWITCH 0x10
#define EVENT_TRACE_FLAG_DPC 0x20
#define EVENT_TRACE_FLAG_INTERRUPT 0x40
#define EVENT_TRACE_FLAG_SYSTEMCALL 0x80
#define EVENT_TRACE_FLAG_DISK_IO 0x100
#define EVENT_TRACE_FLAG_DISK_FILE_IO 0x200
#define EVENT_TRACE_FLAG_DISK_IO_INIT 0x400
#define EVENT_TRACE_FLAG_DISPATCHER 0x800
#define EVENT_TRACE_FLAG_MEMORY_PAGE_FAULTS 0x1000
#define EVENT_TRACE_FLAG_MEMORY_HARD_FAULTS 0x2000
#define EVENT_TRACE_FLAG_VIRTUAL_ALLOC 0x4000
#define EVENT_TRACE_FLAG_VAMAP 0x8000
#define EVENT_TRACE_FLAG_NETWORK_TCPIP 0x10000
#define EVENT_TRACE_FLAG_REGISTRY 0x20000
#define EVENT_TRACE_FLAG_DBGPRINT 0x40000
#define EVENT_TRACE_FLAG_JOB 0x80000
#define EVENT_TRACE_FLAG_ALPC 0x100000
#define EVENT_TRACE_FLAG_SPLIT_IO 0x200000
#define EVENT_TRACE_FLAG_DEBUG_EVENTS 0x400000
#define EVENT_TRACE_FLAG_DRIVER 0x800000
#define EVENT_TRACE_FLAG_PROFILE 0x1000000
#define EVENT_TRACE_FLAG_FILE_IO 0x2000000
#define EVENT_TRACE_FLAG_FILE_IO_INIT 0x4000000
#define EVENT_TRACE_FLAG_NO_SYSCONFIG 0x10000000
#define EVENT_TRACE_FLAG_ENABLE_RESERVE 0x20000000
#define EVENT_TRACE_FLAG_FORWARD_WMI 0x40000000
#define EVENT_TRACE_FLAG_EXTENSION 0x80000000

/* Keywords of the system providers. */
#define SYSTEM_ALPC_KW_GENERAL 0x1ULL
#define SYSTEM_CONFIG_KW_SYSTEM 0x1ULL
#define SYSTEM_CPU_KW_CONFIG 0x1ULL
#define SYSTEM_HYPERVISOR_KW_PROFILE 0x1ULL
#define SYSTEM_INTERRUPT_KW_GENERAL 0x1ULL
#define SYSTEM_IOFILTER_KW_GENERAL 0x1ULL
#define SYSTEM_IO_KW_DISK 0x1ULL
#define SYSTEM_LOCK_KW_SPINLOCK 0x1ULL
#define SYSTEM_MEMORY_KW_GENERAL 0x1ULL
#define SYSTEM_OBJECT_KW_GENERAL 0x1ULL
#define SYSTEM_POWER_KW_GENERAL 0x1ULL
#define SYSTEM_PROCESS_KW_GENERAL 0x1ULL
#define SYSTEM_PROFILE_KW_GENERAL 0x1ULL
#define SYSTEM_REGISTRY_KW_GENERAL 0x1ULL
#define SYSTEM_SCHEDULER_KW_XSCHEDULER 0x1ULL
#define SYSTEM_SYSCALL_KW_GENERAL 0x1ULL
#define SYSTEM_TIMER_KW_GENERAL 0x1ULL
#define SYSTEM_CONFIG_KW_GRAPHICS 0x2ULL
#define SYSTEM_CPU_KW_CACHE_FLUSH 0x2ULL
#define SYSTEM_HYPERVISOR_KW_CALLOUTS 0x2ULL
#define SYSTEM_INTERRUPT_KW_CLOCK_INTERRUPT 0x2ULL
#define SYSTEM_IOFILTER_KW_INIT 0x2ULL
#define SYSTEM_IO_KW_DISK_INIT 0x2ULL
#define SYSTEM_LOCK_KW_SPINLOCK_COUNTERS 0x2ULL
#define SYSTEM_MEMORY_KW_HARD_FAULTS 0x2ULL
#define SYSTEM_OBJECT_KW_HANDLE 0x2ULL
#define SYSTEM_POWER_KW_HIBER_RUNDOWN 0x2ULL
#define SYSTEM_PROCESS_KW_INSWAP 0x2ULL
#define SYSTEM_PROFILE_KW_PMC_PROFILE 0x2ULL
#define SYSTEM_REGISTRY_KW_HIVE 0x2ULL
#define SYSTEM_SCHEDULER_KW_DISPATCHER 0x2ULL
#define SYSTEM_TIMER_KW_CLOCK_TIMER 0x2ULL
#define SYSTEM_CONFIG_KW_STORAGE 0x4ULL
#define SYSTEM_CPU_KW_SPEC_CONTROL 0x4ULL
#define SYSTEM_HYPERVISOR_KW_VTL_CHANGE 0x4ULL
#define SYSTEM_INTERRUPT_KW_DPC 0x4ULL
#define SYSTEM_IOFILTER_KW_FASTIO 0x4ULL
#define SYSTEM_IO_KW_FILENAME 0x4ULL
#define SYSTEM_LOCK_KW_SYNC_OBJECTS 0x4ULL
#define SYSTEM_MEMORY_KW_ALL_FAULTS 0x4ULL
#define SYSTEM_POWER_KW_PROCESSOR_IDLE 0x4ULL
#define SYSTEM_PROCESS_KW_FREEZE 0x4ULL
#define SYSTEM_REGISTRY_KW_NOTIFICATION 0x4ULL
#define SYSTEM_SCHEDULER_KW_KERNEL_QUEUE 0x4ULL
#define SYSTEM_CONFIG_KW_NETWORK 0x8ULL
#define SYSTEM_INTERRUPT_KW_DPC_QUEUE 0x8ULL
#define SYSTEM_IOFILTER_KW_FAILURE 0x8ULL
#define SYSTEM_IO_KW_SPLIT 0x8ULL
#define SYSTEM_MEMORY_KW_POOL 0x8ULL
#define SYSTEM_POWER_KW_IDLE_SELECTION 0x8ULL
#define SYSTEM_PROCESS_KW_PERF_COUNTER 0x8ULL
#define SYSTEM_SCHEDULER_KW_SHOULD_YIELD 0x8ULL
#define SYSTEM_CONFIG_KW_SERVICES 0x10ULL
#define SYSTEM_INTERRUPT_KW_WDF_DPC 0x10ULL
#define SYSTEM_IO_KW_FILE 0x10ULL
#define SYSTEM_MEMORY_KW_MEMINFO 0x10ULL
#define SYSTEM_POWER_KW_PPM_EXIT_LATENCY 0x10ULL
#define SYSTEM_PROCESS_KW_WAKE_COUNTER 0x10ULL
#define SYSTEM_SCHEDULER_KW_ANTI_STARVATION 0x10ULL
#define SYSTEM_CONFIG_KW_PNP 0x20ULL
#define SYSTEM_INTERRUPT_KW_WDF_INTERRUPT 0x20ULL
#define SYSTEM_IO_KW_OPTICAL 0x20ULL
#define SYSTEM_MEMORY_KW_PFSECTION 0x20ULL
#define SYSTEM_PROCESS_KW_WAKE_DROP 0x20ULL
#define SYSTEM_SCHEDULER_KW_LOAD_BALANCER 0x20ULL
#define SYSTEM_CONFIG_KW_OPTICAL 0x40ULL
#define SYSTEM_INTERRUPT_KW_IPI 0x40ULL
#define SYSTEM_IO_KW_OPTICAL_INIT 0x40ULL
#define SYSTEM_MEMORY_KW_MEMINFO_WS 0x40ULL
#define SYSTEM_PROCESS_KW_WAKE_EVENT 0x40ULL
#define SYSTEM_SCHEDULER_KW_AFFINITY 0x40ULL
#define SYSTEM_IO_KW_DRIVERS 0x80ULL
#define SYSTEM_MEMORY_KW_HEAP 0x80ULL
#define SYSTEM_PROCESS_KW_DEBUG_EVENTS 0x80ULL
#define SYSTEM_SCHEDULER_KW_PRIORITY 0x80ULL
#define SYSTEM_IO_KW_CC 0x100ULL
#define SYSTEM_MEMORY_KW_WS 0x100ULL
#define SYSTEM_PROCESS_KW_DBGPRINT 0x100ULL
#define SYSTEM_SCHEDULER_KW_IDEAL_PROCESSOR 0x100ULL
#define SYSTEM_IO_KW_NETWORK 0x200ULL
#define SYSTEM_MEMORY_KW_CONTMEM_GEN 0x200ULL
#define SYSTEM_PROCESS_KW_JOB 0x200ULL
#define SYSTEM_SCHEDULER_KW_CONTEXT_SWITCH 0x200ULL
#define SYSTEM_MEMORY_KW_VIRTUAL_ALLOC 0x400ULL
#define SYSTEM_PROCESS_KW_WORKER_THREAD 0x400ULL
#define SYSTEM_SCHEDULER_KW_COMPACT_CSWITCH 0x400ULL
#define SYSTEM_MEMORY_KW_FOOTPRINT 0x800ULL
#define SYSTEM_PROCESS_KW_THREAD 0x800ULL
#define SYSTEM_MEMORY_KW_SESSION 0x1000ULL
#define SYSTEM_PROCESS_KW_LOADER 0x1000ULL
#define SYSTEM_MEMORY_KW_REFSET 0x2000ULL
#define SYSTEM_MEMORY_KW_VAMAP 0x4000ULL
#define SYSTEM_MEMORY_KW_NONTRADEABLE 0x8000ULL

/* LogFileMode. */
#define EVENT_TRACE_FILE_MODE_NONE 0x0
#define EVENT_TRACE_FILE_MODE_SEQUENTIAL 0x1
#define EVENT_TRACE_USE_PROCTIME 0x1
#define EVENT_TRACE_FILE_MODE_CIRCULAR 0x2
#define EVENT_TRACE_USE_NOCPUTIME 0x2
#define EVENT_TRACE_FILE_MODE_APPEND 0x4
#define EVENT_TRACE_FILE_MODE_NEWFILE 0x8
#define EVENT_TRACE_FILE_MODE_PREALLOCATE 0x20
#define EVENT_TRACE_NONSTOPPABLE_MODE 0x40
#define EVENT_TRACE_SECURE_MODE 0x80
#define EVENT_TRACE_REAL_TIME_MODE 0x100
#define EVENT_TRACE_DELAY_OPEN_FILE_MODE 0x200
#define EVENT_TRACE_BUFFERING_MODE 0x400
#define EVENT_TRACE_PRIVATE_LOGGER_MODE 0x800
#define EVENT_TRACE_ADD_HEADER_MODE 0x1000
#define EVENT_TRACE_USE_KBYTES_FOR_SIZE 0x2000
#define EVENT_TRACE_USE_GLOBAL_SEQUENCE 0x4000
#define EVENT_TRACE_USE_LOCAL_SEQUENCE 0x8000
#define EVENT_TRACE_RELOG_MODE 0x10000
#define EVENT_TRACE_PRIVATE_IN_PROC 0x20000
#define EVENT_TRACE_MODE_RESERVED 0x100000
#define EVENT_TRACE_STOP_ON_HYBRID_SHUTDOWN 0x400000
#define EVENT_TRACE_PERSIST_ON_HYBRID_SHUTDOWN 0x800000
#define EVENT_TRACE_USE_PAGED_MEMORY 0x1000000
#define EVENT_TRACE_SYSTEM_LOGGER_MODE 0x2000000
#define EVENT_TRACE_COMPRESSED_MODE 0x4000000
#define EVENT_TRACE_INDEPENDENT_SESSION_MODE 0x8000000
#define EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING 0x10000000
#define EVENT_TRACE_ADDTO_TRIAGE_DUMP 0x80000000

#define EVENT_TRACE_CONTROL_QUERY 0x0
#define EVENT_TRACE_CONTROL_STOP 0x1
#define EVENT_TRACE_CONTROL_UPDATE 0x2
#define EVENT_TRACE_CONTROL_FLUSH 0x3
#define EVENT_TRACE_CONTROL_INCREMENT_FILE 0x4
#define EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME 0x5

#define EVENT_CONTROL_CODE_DISABLE_PROVIDER 0
#define EVENT_CONTROL_CODE_ENABLE_PROVIDER 1
#define EVENT_CONTROL_CODE_CAPTURE_STATE 2

#define TRACE_MESSAGE_SEQUENCE 0x1
#define TRACE_MESSAGE_GUID 0x2
#define TRACE_MESSAGE_COMPONENTID 0x4
#define TRACE_MESSAGE_TIMESTAMP 0x8
#define TRACE_MESSAGE_PERFORMANCE_TIMESTAMP 0x10
#define TRACE_MESSAGE_SYSTEMINFO 0x20
#define TRACE_MESSAGE_POINTER32 0x40
#define TRACE_MESSAGE_POINTER64 0x80
#define TRACE_MESSAGE_FLAG_MASK 0xFFFF
#define TRACE_MESSAGE_MAXIMUM_SIZE (64 * 1024)
#define TRACE_HEADER_FLAG_USE_TIMESTAMP 0x200
#define TRACE_HEADER_FLAG_TRACED_GUID 0x20000
#define TRACE_HEADER_FLAG_LOG_WNODE 0x40000
#define TRACE_HEADER_FLAG_USE_GUID_PTR 0x80000
#define TRACE_HEADER_FLAG_USE_MOF_PTR 0x100000

#define ENABLE_TRACE_PARAMETERS_VERSION 1
#define ENABLE_TRACE_PARAMETERS_VERSION_2 2
#define MAX_MOF_FIELDS 16
#define TRACE_PROVIDER_FLAG_LEGACY 0x00000001
#define TRACE_PROVIDER_FLAG_PRE_ENABLE 0x00000002

/* MOF_FIELD.DataType; kept for readers of the source, since records have no types. */
#define ETW_NULL_TYPE_VALUE 0
#define ETW_OBJECT_TYPE_VALUE 1
#define ETW_STRING_TYPE_VALUE 2
#define ETW_SBYTE_TYPE_VALUE 3
#define ETW_BYTE_TYPE_VALUE 4
#define ETW_INT16_TYPE_VALUE 5
#define ETW_UINT16_TYPE_VALUE 6
#define ETW_INT32_TYPE_VALUE 7
#define ETW_UINT32_TYPE_VALUE 8
#define ETW_INT64_TYPE_VALUE 9
#define ETW_UINT64_TYPE_VALUE 10
#define ETW_CHAR_TYPE_VALUE 11
#define ETW_SINGLE_TYPE_VALUE 12
#define ETW_DOUBLE_TYPE_VALUE 13
#define ETW_BOOLEAN_TYPE_VALUE 14
#define ETW_DECIMAL_TYPE_VALUE 15
#define ETW_GUID_TYPE_VALUE 101
#define ETW_ASCIICHAR_TYPE_VALUE 102
#define ETW_ASCIISTRING_TYPE_VALUE 103
#define ETW_COUNTED_STRING_TYPE_VALUE 104
#define ETW_POINTER_TYPE_VALUE 105
#define ETW_SIZET_TYPE_VALUE 106
#define ETW_HIDDEN_TYPE_VALUE 107
#define ETW_BOOL_TYPE_VALUE 108
#define ETW_COUNTED_ANSISTRING_TYPE_VALUE 109
#define ETW_REVERSED_COUNTED_STRING_TYPE_VALUE 110
#define ETW_REVERSED_COUNTED_ANSISTRING_TYPE_VALUE 111
#define ETW_NON_NULL_TERMINATED_STRING_TYPE_VALUE 112
#define ETW_REDUCED_ANSISTRING_TYPE_VALUE 113
#define ETW_REDUCED_STRING_TYPE_VALUE 114
#define ETW_SID_TYPE_VALUE 115
#define ETW_VARIANT_TYPE_VALUE 116
#define ETW_PTVECTOR_TYPE_VALUE 117
#define ETW_WMITIME_TYPE_VALUE 118
#define ETW_DATETIME_TYPE_VALUE 119
#define ETW_REFRENCE_TYPE_VALUE 120
#define DEFINE_TRACE_MOF_FIELD(field, pointer, length, type)                                                           \
  ((field)->DataPtr = (ULONG64)(ULONG_PTR)(pointer), (field)->Length = (ULONG)(length), (field)->DataType = (ULONG)(type))

/* Rights, which programs may ask for; this library does not check them. */
#define TRACELOG_CREATE_REALTIME 0x20
#define TRACELOG_CREATE_ONDISK 0x40
#define TRACELOG_GUID_ENABLE 0x80
#define TRACELOG_ACCESS_KERNEL_LOGGER 0x100
#define TRACELOG_CREATE_INPROC 0x200
#define TRACELOG_LOG_EVENT 0x200
#define TRACELOG_ACCESS_REALTIME 0x400
#define TRACELOG_REGISTER_GUIDS 0x800
#define TRACELOG_JOIN_GROUP 0x1000

/* Sessions and open traces. */
typedef ULONG64 TRACEHANDLE, *PTRACEHANDLE, CONTROLTRACE_ID, *PCONTROLTRACE_ID, PROCESSTRACE_HANDLE,
    *PPROCESSTRACE_HANDLE, RELOGSTREAM_HANDLE, *PRELOGSTREAM_HANDLE;
#define INVALID_PROCESSTRACE_HANDLE ((TRACEHANDLE)0xFFFFFFFFFFFFFFFFULL)

typedef struct _EVENT_TRACE_HEADER {
  USHORT Size;
  __extension__ union {
    USHORT FieldTypeFlags;
    __extension__ struct {
      UCHAR HeaderType;
      UCHAR MarkerFlags;
    };
  };
  __extension__ union {
    ULONG Version;
    struct {
      UCHAR Type;
      UCHAR Level;
      USHORT Version;
    } Class;
  };
  ULONG ThreadId;
  ULONG ProcessId;
  LARGE_INTEGER TimeStamp;
  __extension__ union {
    GUID Guid;
    ULONGLONG GuidPtr;
  };
  __extension__ union {
    __extension__ struct {
      ULONG KernelTime;
      ULONG UserTime;
    };
    ULONG64 ProcessorTime;
    __extension__ struct {
      ULONG ClientContext;
      ULONG Flags;
    };
  };
} EVENT_TRACE_HEADER, *PEVENT_TRACE_HEADER;

typedef struct _EVENT_INSTANCE_HEADER {
  USHORT Size;
  __extension__ union {
    USHORT FieldTypeFlags;
    __extension__ struct {
      UCHAR HeaderType;
      UCHAR MarkerFlags;
    };
  };
  __extension__ union {
    ULONG Version;
    struct {
      UCHAR Type;
      UCHAR Level;
      USHORT Version;
    } Class;
  };
  ULONG ThreadId;
  ULONG ProcessId;
  LARGE_INTEGER TimeStamp;
  ULONGLONG RegHandle;
  ULONG InstanceId;
  ULONG ParentInstanceId;
  __extension__ union {
    __extension__ struct {
      ULONG KernelTime;
      ULONG UserTime;
    };
    ULONG64 ProcessorTime;
    __extension__ struct {
      ULONG EventId;
      ULONG Flags;
    };
  };
  ULONGLONG ParentRegHandle;
} EVENT_INSTANCE_HEADER, *PEVENT_INSTANCE_HEADER;

typedef struct _MOF_FIELD {
  ULONG64 DataPtr;
  ULONG Length;
  ULONG DataType;
} MOF_FIELD, *PMOF_FIELD;

/* LoggerName and LogFileName are not set in what OpenTrace returns. */
typedef struct _TRACE_LOGFILE_HEADER {
  ULONG BufferSize;
  __extension__ union {
    ULONG Version;
    struct {
      UCHAR MajorVersion;
      UCHAR MinorVersion;
      UCHAR SubVersion;
      UCHAR SubMinorVersion;
    } VersionDetail;
  };
  ULONG ProviderVersion;
  ULONG NumberOfProcessors;
  LARGE_INTEGER EndTime;
  ULONG TimerResolution;
  ULONG MaximumFileSize;
  ULONG LogFileMode;
  ULONG BuffersWritten;
  __extension__ union {
    GUID LogInstanceGuid;
    __extension__ struct {
      ULONG StartBuffers;
      ULONG PointerSize;
      ULONG EventsLost;
      ULONG CpuSpeedInMHz;
    };
  };
  PWSTR LoggerName;
  PWSTR LogFileName;
  TIME_ZONE_INFORMATION TimeZone;
  LARGE_INTEGER BootTime;
  LARGE_INTEGER PerfFreq;
  LARGE_INTEGER StartTime;
  ULONG ReservedFlags;
  ULONG BuffersLost;
} TRACE_LOGFILE_HEADER, *PTRACE_LOGFILE_HEADER;

typedef struct _EVENT_INSTANCE_INFO {
  HANDLE RegHandle;
  ULONG InstanceId;
} EVENT_INSTANCE_INFO, *PEVENT_INSTANCE_INFO;

typedef struct _EVENT_TRACE_PROPERTIES {
  WNODE_HEADER Wnode;
  ULONG BufferSize;
  ULONG MinimumBuffers;
  ULONG MaximumBuffers;
  ULONG MaximumFileSize;
  ULONG LogFileMode;
  ULONG FlushTimer;
  ULONG EnableFlags;
  __extension__ union {
    LONG AgeLimit;
    LONG FlushThreshold;
  };
  ULONG NumberOfBuffers;
  ULONG FreeBuffers;
  ULONG EventsLost;
  ULONG BuffersWritten;
  ULONG LogBuffersLost;
  ULONG RealTimeBuffersLost;
  HANDLE LoggerThreadId;
  ULONG LogFileNameOffset;
  ULONG LoggerNameOffset;
} EVENT_TRACE_PROPERTIES, *PEVENT_TRACE_PROPERTIES;

typedef struct _EVENT_TRACE_PROPERTIES_V2 {
  WNODE_HEADER Wnode;
  ULONG BufferSize;
  ULONG MinimumBuffers;
  ULONG MaximumBuffers;
  ULONG MaximumFileSize;
  ULONG LogFileMode;
  ULONG FlushTimer;
  ULONG EnableFlags;
  __extension__ union {
    LONG AgeLimit;
    LONG FlushThreshold;
  };
  ULONG NumberOfBuffers;
  ULONG FreeBuffers;
  ULONG EventsLost;
  ULONG BuffersWritten;
  ULONG LogBuffersLost;
  ULONG RealTimeBuffersLost;
  HANDLE LoggerThreadId;
  ULONG LogFileNameOffset;
  ULONG LoggerNameOffset;
  __extension__ union {
    __extension__ struct {
      ULONG VersionNumber : 8;
    };
    ULONG V2Control;
  };
  ULONG FilterDescCount;
  PEVENT_FILTER_DESCRIPTOR FilterDesc;
  __extension__ union {
    __extension__ struct {
      ULONG Wow : 1;
      ULONG QpcDeltaTracking : 1;
      ULONG LargeMdlPages : 1;
      ULONG ExcludeKernelStack : 1;
    };
    ULONG64 V2Options;
  };
} EVENT_TRACE_PROPERTIES_V2, *PEVENT_TRACE_PROPERTIES_V2;

typedef struct _TRACE_GUID_REGISTRATION {
  LPCGUID Guid;
  HANDLE RegHandle;
} TRACE_GUID_REGISTRATION, *PTRACE_GUID_REGISTRATION;

typedef struct _TRACE_GUID_PROPERTIES {
  GUID Guid;
  ULONG GuidType;
  ULONG LoggerId;
  ULONG EnableLevel;
  ULONG EnableFlags;
  BOOLEAN IsEnable;
} TRACE_GUID_PROPERTIES, *PTRACE_GUID_PROPERTIES;

typedef struct _ETW_BUFFER_CONTEXT {
  __extension__ union {
    __extension__ struct {
      UCHAR ProcessorNumber;
      UCHAR Alignment;
    };
    USHORT ProcessorIndex;
  };
  USHORT LoggerId;
} ETW_BUFFER_CONTEXT, *PETW_BUFFER_CONTEXT;

typedef struct _TRACE_ENABLE_INFO {
  ULONG IsEnabled;
  UCHAR Level;
  UCHAR Reserved1;
  USHORT LoggerId;
  ULONG EnableProperty;
  ULONG Reserved2;
  ULONGLONG MatchAnyKeyword;
  ULONGLONG MatchAllKeyword;
} TRACE_ENABLE_INFO, *PTRACE_ENABLE_INFO;

typedef struct _TRACE_PROVIDER_INSTANCE_INFO {
  ULONG NextOffset;
  ULONG EnableCount;
  ULONG Pid;
  ULONG Flags;
} TRACE_PROVIDER_INSTANCE_INFO, *PTRACE_PROVIDER_INSTANCE_INFO;

typedef struct _TRACE_GUID_INFO {
  ULONG InstanceCount;
  ULONG Reserved;
} TRACE_GUID_INFO, *PTRACE_GUID_INFO;

typedef struct _TRACE_PROFILE_INTERVAL {
  ULONG Source;
  ULONG Interval;
} TRACE_PROFILE_INTERVAL, *PTRACE_PROFILE_INTERVAL;

typedef struct _TRACE_VERSION_INFO {
  UINT EtwTraceProcessingVersion;
  UINT Reserved;
} TRACE_VERSION_INFO, *PTRACE_VERSION_INFO;

typedef struct _TRACE_STACK_CACHING_INFO {
  BOOLEAN Enabled;
  ULONG CacheSize;
  ULONG BucketCount;
} TRACE_STACK_CACHING_INFO, *PTRACE_STACK_CACHING_INFO;

typedef struct _TRACE_PERIODIC_CAPTURE_STATE_INFO {
  ULONG CaptureStateFrequencyInSeconds;
  USHORT ProviderCount;
  USHORT Reserved;
} TRACE_PERIODIC_CAPTURE_STATE_INFO, *PTRACE_PERIODIC_CAPTURE_STATE_INFO;

/* The description is 16 bits wide, whatever WCHAR is. */
typedef struct _PROFILE_SOURCE_INFO {
  ULONG NextEntryOffset;
  ULONG Source;
  ULONG MinInterval;
  ULONG MaxInterval;
  ULONG64 Reserved;
  UINT16 Description[ANYSIZE_ARRAY];
} PROFILE_SOURCE_INFO, *PPROFILE_SOURCE_INFO;

typedef enum _ETW_PROCESS_HANDLE_INFO_TYPE {
  EtwQueryPartitionInformation = 1,
  EtwQueryPartitionInformationV2 = 2,
  EtwQueryLastDroppedTimes = 3,
  EtwQueryLogFileHeader = 4,
  EtwQueryProcessHandleInfoMax
} ETW_PROCESS_HANDLE_INFO_TYPE;

typedef struct _CLASSIC_EVENT_ID {
  GUID EventGuid;
  UCHAR Type;
  UCHAR Reserved[7];
} CLASSIC_EVENT_ID, *PCLASSIC_EVENT_ID;

typedef enum _TRACE_QUERY_INFO_CLASS {
  TraceGuidQueryList = 0,
  TraceGuidQueryInfo = 1,
  TraceGuidQueryProcess = 2,
  TraceStackTracingInfo = 3,
  TraceSystemTraceEnableFlagsInfo = 4,
  TraceSampledProfileIntervalInfo = 5,
  TraceProfileSourceConfigInfo = 6,
  TraceProfileSourceListInfo = 7,
  TracePmcEventListInfo = 8,
  TracePmcCounterListInfo = 9,
  TraceSetDisallowList = 10,
  TraceVersionInfo = 11,
  TraceGroupQueryList = 12,
  TraceGroupQueryInfo = 13,
  TraceDisallowListQuery = 14,
  TraceInfoReserved15 = 15,
  TracePeriodicCaptureStateListInfo = 16,
  TracePeriodicCaptureStateInfo = 17,
  TraceProviderBinaryTracking = 18,
  TraceMaxLoggersQuery = 19,
  TraceLbrConfigurationInfo = 20,
  TraceLbrEventListInfo = 21,
  TraceMaxPmcCounterQuery = 22,
  TraceStreamCount = 23,
  TraceStackCachingInfo = 24,
  TracePmcCounterOwners = 25,
  TraceUnifiedStackCachingInfo = 26,
  TracePmcSessionInformation = 27,
  MaxTraceSetInfoClass = 28
} TRACE_QUERY_INFO_CLASS, TRACE_INFO_CLASS;

/* A classic event, as callbacks without PROCESS_TRACE_MODE_EVENT_RECORD get it. */
typedef struct _EVENT_TRACE {
  EVENT_TRACE_HEADER Header;
  ULONG InstanceId;
  ULONG ParentInstanceId;
  GUID ParentGuid;
  PVOID MofData;
  ULONG MofLength;
  __extension__ union {
    ULONG ClientContext;
    ETW_BUFFER_CONTEXT BufferContext;
  };
} EVENT_TRACE, *PEVENT_TRACE;

typedef struct _EVENT_RECORD EVENT_RECORD, *PEVENT_RECORD;
typedef const struct _EVENT_RECORD *PCEVENT_RECORD;
typedef struct _EVENT_TRACE_LOGFILEW EVENT_TRACE_LOGFILEW, *PEVENT_TRACE_LOGFILEW;
typedef struct _EVENT_TRACE_LOGFILEA EVENT_TRACE_LOGFILEA, *PEVENT_TRACE_LOGFILEA;

typedef VOID(WINAPI *PEVENT_CALLBACK)(PEVENT_TRACE pEvent);
typedef VOID(WINAPI *PEVENT_RECORD_CALLBACK)(PEVENT_RECORD EventRecord);
/* Returns FALSE to end ProcessTrace. */
typedef ULONG(WINAPI *PEVENT_TRACE_BUFFER_CALLBACKW)(PEVENT_TRACE_LOGFILEW Logfile);
typedef ULONG(WINAPI *PEVENT_TRACE_BUFFER_CALLBACKA)(PEVENT_TRACE_LOGFILEA Logfile);
typedef ULONG(WINAPI *WMIDPREQUEST)(WMIDPREQUESTCODE RequestCode, PVOID RequestContext, ULONG *BufferSize,
                                    PVOID Buffer);

#define OPENETW_LOGFILE_(name, text)                                                                                   \
  struct _EVENT_TRACE_LOGFILE##name {                                                                                  \
    text LogFileName;                                                                                                  \
    text LoggerName;                                                                                                   \
    LONGLONG CurrentTime;                                                                                              \
    ULONG BuffersRead;                                                                                                 \
    __extension__ union {                                                                                              \
      ULONG LogFileMode;                                                                                               \
      ULONG ProcessTraceMode;                                                                                          \
    };                                                                                                                 \
    EVENT_TRACE CurrentEvent;                                                                                          \
    TRACE_LOGFILE_HEADER LogfileHeader;                                                                                \
    PEVENT_TRACE_BUFFER_CALLBACK##name BufferCallback;                                                                 \
    ULONG BufferSize;                                                                                                  \
    ULONG Filled;                                                                                                      \
    ULONG EventsLost;                                                                                                  \
    __extension__ union {                                                                                              \
      PEVENT_CALLBACK EventCallback;                                                                                   \
      PEVENT_RECORD_CALLBACK EventRecordCallback;                                                                      \
    };                                                                                                                 \
    ULONG IsKernelTrace;                                                                                               \
    PVOID Context;                                                                                                     \
  }
OPENETW_LOGFILE_(W, LPWSTR);
OPENETW_LOGFILE_(A, LPSTR);
#undef OPENETW_LOGFILE_

typedef struct _ENABLE_TRACE_PARAMETERS_V1 {
  ULONG Version;
  ULONG EnableProperty;
  ULONG ControlFlags;
  GUID SourceId;
  PEVENT_FILTER_DESCRIPTOR EnableFilterDesc;
} ENABLE_TRACE_PARAMETERS_V1, *PENABLE_TRACE_PARAMETERS_V1;

typedef struct _ENABLE_TRACE_PARAMETERS {
  ULONG Version;
  ULONG EnableProperty;
  ULONG ControlFlags;
  GUID SourceId;
  PEVENT_FILTER_DESCRIPTOR EnableFilterDesc;
  ULONG FilterDescCount;
} ENABLE_TRACE_PARAMETERS, *PENABLE_TRACE_PARAMETERS;

/* Controlling sessions. */
ULONG WMIAPI StartTraceW(PTRACEHANDLE TraceHandle, LPCWSTR InstanceName, PEVENT_TRACE_PROPERTIES Properties)
    OPENETW_WIDE(StartTraceW);
ULONG WMIAPI StartTraceA(PTRACEHANDLE TraceHandle, LPCSTR InstanceName, PEVENT_TRACE_PROPERTIES Properties);
ULONG WMIAPI ControlTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName, PEVENT_TRACE_PROPERTIES Properties,
                           ULONG ControlCode) OPENETW_WIDE(ControlTraceW);
ULONG WMIAPI ControlTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName, PEVENT_TRACE_PROPERTIES Properties,
                           ULONG ControlCode);
#define OPENETW_CONTROL_(name)                                                                                         \
  ULONG WMIAPI name##W(TRACEHANDLE TraceHandle, LPCWSTR InstanceName, PEVENT_TRACE_PROPERTIES Properties)              \
      OPENETW_WIDE(name##W);                                                                                           \
  ULONG WMIAPI name##A(TRACEHANDLE TraceHandle, LPCSTR InstanceName, PEVENT_TRACE_PROPERTIES Properties)
OPENETW_CONTROL_(StopTrace);
OPENETW_CONTROL_(QueryTrace);
OPENETW_CONTROL_(UpdateTrace);
OPENETW_CONTROL_(FlushTrace);
#undef OPENETW_CONTROL_
ULONG WMIAPI QueryAllTracesW(PEVENT_TRACE_PROPERTIES *PropertyArray, ULONG PropertyArrayCount, PULONG LoggerCount)
    OPENETW_WIDE(QueryAllTracesW);
ULONG WMIAPI QueryAllTracesA(PEVENT_TRACE_PROPERTIES *PropertyArray, ULONG PropertyArrayCount, PULONG LoggerCount);
ULONG WMIAPI EnableTrace(ULONG Enable, ULONG EnableFlag, ULONG EnableLevel, LPCGUID ControlGuid,
                         TRACEHANDLE TraceHandle);
ULONG WMIAPI EnableTraceEx(LPCGUID ProviderId, LPCGUID SourceId, TRACEHANDLE TraceHandle, ULONG IsEnabled, UCHAR Level,
                           ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword, ULONG EnableProperty,
                           PEVENT_FILTER_DESCRIPTOR EnableFilterDesc);
ULONG WMIAPI EnableTraceEx2(TRACEHANDLE TraceHandle, LPCGUID ProviderId, ULONG ControlCode, UCHAR Level,
                            ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword, ULONG Timeout,
                            PENABLE_TRACE_PARAMETERS EnableParameters) OPENETW_WIDE(EnableTraceEx2);
/* Replaced by EnumerateTraceGuidsEx. Each structure is of the caller. */
ULONG WMIAPI EnumerateTraceGuids(PTRACE_GUID_PROPERTIES *GuidPropertiesArray, ULONG PropertyArrayCount,
                                 PULONG GuidCount);
/* Information classes: TraceGuidQueryList, TraceGuidQueryInfo. */
ULONG WMIAPI EnumerateTraceGuidsEx(TRACE_QUERY_INFO_CLASS TraceQueryInfoClass, PVOID InBuffer, ULONG InBufferSize,
                                   PVOID OutBuffer, ULONG OutBufferSize, PULONG ReturnLength);
/* Information classes: TraceStackTracingInfo, TraceSystemTraceEnableFlagsInfo, TraceSampledProfileIntervalInfo. */
ULONG WMIAPI TraceSetInformation(TRACEHANDLE SessionHandle, TRACE_QUERY_INFO_CLASS InformationClass,
                                 PVOID TraceInformation, ULONG InformationLength);
/* The same, except TraceStackTracingInfo. */
ULONG WMIAPI TraceQueryInformation(TRACEHANDLE SessionHandle, TRACE_QUERY_INFO_CLASS InformationClass,
                                   PVOID TraceInformation, ULONG InformationLength, PULONG ReturnLength);

/*
 * Classic providers. RequestAddress is called with WMI_ENABLE_EVENTS and WMI_DISABLE_EVENTS; TraceEvent gets the handle
 * that GetTraceLoggerHandle finds in what it gets. Events go to all sessions that enable the provider.
 */
#define OPENETW_REGISTER_(name, text)                                                                                  \
  ULONG WMIAPI name(WMIDPREQUEST RequestAddress, PVOID RequestContext, LPCGUID ControlGuid, ULONG GuidCount,           \
                    PTRACE_GUID_REGISTRATION TraceGuidReg, text MofImagePath, text MofResourceName,                    \
                    PTRACEHANDLE RegistrationHandle)
OPENETW_REGISTER_(RegisterTraceGuidsW, LPCWSTR);
OPENETW_REGISTER_(RegisterTraceGuidsA, LPCSTR);
#undef OPENETW_REGISTER_
ULONG WMIAPI UnregisterTraceGuids(TRACEHANDLE RegistrationHandle);
TRACEHANDLE WMIAPI GetTraceLoggerHandle(PVOID Buffer);
UCHAR WMIAPI GetTraceEnableLevel(TRACEHANDLE TraceHandle);
ULONG WMIAPI GetTraceEnableFlags(TRACEHANDLE TraceHandle);
ULONG WMIAPI TraceEvent(TRACEHANDLE TraceHandle, PEVENT_TRACE_HEADER EventTrace);
/* Events of instances: of a transaction, for example, and of the one that caused it. */
ULONG WMIAPI CreateTraceInstanceId(HANDLE RegHandle, PEVENT_INSTANCE_INFO InstInfo);
ULONG WMIAPI TraceEventInstance(TRACEHANDLE TraceHandle, PEVENT_INSTANCE_HEADER EventTrace,
                                PEVENT_INSTANCE_INFO InstInfo, PEVENT_INSTANCE_INFO ParentInstInfo);

/* Messages of WPP. The arguments are pairs of a pointer and a size, and NULL. */
ULONG openetw_trace_message(TRACEHANDLE handle, ULONG flags, LPCGUID guid, USHORT number, ULONG count,
                            const EVENT_DATA_DESCRIPTOR *data);
static inline __attribute__((unused)) ULONG WMIAPI TraceMessageVa(TRACEHANDLE LoggerHandle, ULONG MessageFlags,
                                                                  LPCGUID MessageGuid, USHORT MessageNumber,
                                                                  va_list MessageArgList) {
  EVENT_DATA_DESCRIPTOR data[MAX_EVENT_DATA_DESCRIPTORS];
  ULONG count = 0;
  for (;;) {
    const void *pointer = va_arg(MessageArgList, const void *);
    if (pointer == NULL) {
      return openetw_trace_message(LoggerHandle, MessageFlags, MessageGuid, MessageNumber, count, data);
    }
    if (count == MAX_EVENT_DATA_DESCRIPTORS) {
      return ERROR_MORE_DATA;
    }
    /* Sizes may be int or size_t. */
    EventDataDescCreate(&data[count++], pointer, (ULONG)va_arg(MessageArgList, size_t));
  }
}
static inline __attribute__((unused)) ULONG WMIAPI TraceMessage(TRACEHANDLE LoggerHandle, ULONG MessageFlags,
                                                                LPCGUID MessageGuid, USHORT MessageNumber, ...) {
  va_list list;
  va_start(list, MessageNumber);
  ULONG result = TraceMessageVa(LoggerHandle, MessageFlags, MessageGuid, MessageNumber, list);
  va_end(list);
  return result;
}

/* Consuming events. */
TRACEHANDLE WMIAPI OpenTraceW(PEVENT_TRACE_LOGFILEW Logfile) OPENETW_WIDE(OpenTraceW);
TRACEHANDLE WMIAPI OpenTraceA(PEVENT_TRACE_LOGFILEA Logfile);
ULONG WMIAPI ProcessTrace(PTRACEHANDLE HandleArray, ULONG HandleCount, LPFILETIME StartTime, LPFILETIME EndTime);
ULONG WMIAPI CloseTrace(TRACEHANDLE TraceHandle);
/* A function for the events of one class, besides the callbacks of traces. */
ULONG WMIAPI SetTraceCallback(LPCGUID pGuid, PEVENT_CALLBACK EventCallback);
ULONG WMIAPI RemoveTraceCallback(LPCGUID pGuid);

/* The newer forms of OpenTrace. */
typedef enum ETW_PROCESS_TRACE_MODES {
  ETW_PROCESS_TRACE_MODE_NONE = 0,
  ETW_PROCESS_TRACE_MODE_RAW_TIMESTAMP = 1
} ETW_PROCESS_TRACE_MODES;

typedef struct _ETW_BUFFER_HEADER {
  ULONG Reserved1[4];
  LARGE_INTEGER TimeStamp;
  ULONG Reserved2[4];
  ETW_BUFFER_CONTEXT ClientContext;
  ULONG Reserved3;
  ULONG FilledBytes;
  ULONG Reserved4[5];
} ETW_BUFFER_HEADER;

typedef struct _ETW_BUFFER_CALLBACK_INFORMATION {
  TRACEHANDLE TraceHandle;
  const TRACE_LOGFILE_HEADER *LogfileHeader;
  ULONG BuffersRead;
} ETW_BUFFER_CALLBACK_INFORMATION;

typedef BOOL(WINAPI *PETW_BUFFER_CALLBACK)(const ETW_BUFFER_HEADER *Buffer, ULONG BufferSize,
                                           const ETW_BUFFER_CALLBACK_INFORMATION *ConsumerInfo, void *CallbackContext);

typedef struct _ETW_OPEN_TRACE_OPTIONS {
  ETW_PROCESS_TRACE_MODES ProcessTraceModes;
  PEVENT_RECORD_CALLBACK EventCallback;
  void *EventCallbackContext;
  PETW_BUFFER_CALLBACK BufferCallback;
  void *BufferCallbackContext;
} ETW_OPEN_TRACE_OPTIONS;

/* Fail with INVALID_PROCESSTRACE_HANDLE and a last error; the header may be NULL. */
TRACEHANDLE WMIAPI OpenTraceFromFile(LPCWSTR LogFileName, const ETW_OPEN_TRACE_OPTIONS *Options,
                                     TRACE_LOGFILE_HEADER *LogFileHeader) OPENETW_WIDE(OpenTraceFromFile);
TRACEHANDLE WMIAPI OpenTraceFromRealTimeLogger(LPCWSTR LoggerName, const ETW_OPEN_TRACE_OPTIONS *Options,
                                               TRACE_LOGFILE_HEADER *LogFileHeader)
    OPENETW_WIDE(OpenTraceFromRealTimeLogger);
/* AllocationSize is not used; MemoryPartitionHandle must be NULL. */
TRACEHANDLE WMIAPI OpenTraceFromRealTimeLoggerWithAllocationOptions(LPCWSTR LoggerName,
                                                                    const ETW_OPEN_TRACE_OPTIONS *Options,
                                                                    ULONG_PTR AllocationSize,
                                                                    HANDLE MemoryPartitionHandle,
                                                                    TRACE_LOGFILE_HEADER *LogFileHeader)
    OPENETW_WIDE(OpenTraceFromRealTimeLoggerWithAllocationOptions);

typedef void(WINAPI *PETW_BUFFER_COMPLETION_CALLBACK)(const ETW_BUFFER_HEADER *Buffer, void *CallbackContext);

/* Buffers that the program brings: first the one with the log file header, then as a BufferCallback gets them. CloseTrace ends
   the trace after all of them. */
TRACEHANDLE WMIAPI OpenTraceFromBufferStream(const ETW_OPEN_TRACE_OPTIONS *Options,
                                             PETW_BUFFER_COMPLETION_CALLBACK BufferCompletionCallback,
                                             void *BufferCompletionContext);
ULONG WMIAPI ProcessTraceAddBufferToBufferStream(TRACEHANDLE TraceHandle, const ETW_BUFFER_HEADER *Buffer,
                                                 ULONG BufferSize);

/* Keep a buffer beyond its BufferCallback; ProcessTrace does not return before it is let go. */
ULONG WMIAPI ProcessTraceBufferIncrementReference(TRACEHANDLE TraceHandle, const ETW_BUFFER_HEADER *Buffer);
ULONG WMIAPI ProcessTraceBufferDecrementReference(const ETW_BUFFER_HEADER *Buffer);

typedef struct _ETW_TRACE_PARTITION_INFORMATION {
  GUID PartitionId;
  GUID ParentId;
  LONG64 QpcOffsetFromRoot;
  ULONG PartitionType;
} ETW_TRACE_PARTITION_INFORMATION, *PETW_TRACE_PARTITION_INFORMATION;

/* EtwQueryLastDroppedTimes: the number of processors as a ULONG, and from byte 8 on a LARGE_INTEGER for each. */
ULONG WMIAPI QueryTraceProcessingHandle(TRACEHANDLE ProcessingHandle, ETW_PROCESS_HANDLE_INFO_TYPE InformationClass,
                                        PVOID InBuffer, ULONG InBufferSize, PVOID OutBuffer, ULONG OutBufferSize,
                                        PULONG ReturnLength);

/* An exploit of a known vulnerability, as an event of Microsoft-Windows-Audit-CVE. */
LONG WMIAPI CveEventWrite(PCWSTR CveId, PCWSTR AdditionalDetails) OPENETW_WIDE(CveEventWrite);

#ifdef UNICODE
#define KERNEL_LOGGER_NAME KERNEL_LOGGER_NAMEW
#define GLOBAL_LOGGER_NAME GLOBAL_LOGGER_NAMEW
#define EVENT_LOGGER_NAME EVENT_LOGGER_NAMEW
#define EVENT_TRACE_LOGFILE EVENT_TRACE_LOGFILEW
#define PEVENT_TRACE_LOGFILE PEVENT_TRACE_LOGFILEW
#define PEVENT_TRACE_BUFFER_CALLBACK PEVENT_TRACE_BUFFER_CALLBACKW
#define StartTrace StartTraceW
#define ControlTrace ControlTraceW
#define StopTrace StopTraceW
#define QueryTrace QueryTraceW
#define UpdateTrace UpdateTraceW
#define FlushTrace FlushTraceW
#define QueryAllTraces QueryAllTracesW
#define OpenTrace OpenTraceW
#define RegisterTraceGuids RegisterTraceGuidsW
#else
#define KERNEL_LOGGER_NAME KERNEL_LOGGER_NAMEA
#define GLOBAL_LOGGER_NAME GLOBAL_LOGGER_NAMEA
#define EVENT_LOGGER_NAME EVENT_LOGGER_NAMEA
#define EVENT_TRACE_LOGFILE EVENT_TRACE_LOGFILEA
#define PEVENT_TRACE_LOGFILE PEVENT_TRACE_LOGFILEA
#define PEVENT_TRACE_BUFFER_CALLBACK PEVENT_TRACE_BUFFER_CALLBACKA
#define StartTrace StartTraceA
#define ControlTrace ControlTraceA
#define StopTrace StopTraceA
#define QueryTrace QueryTraceA
#define UpdateTrace UpdateTraceA
#define FlushTrace FlushTraceA
#define QueryAllTraces QueryAllTracesA
#define OpenTrace OpenTraceA
#define RegisterTraceGuids RegisterTraceGuidsA
#endif

#ifdef __cplusplus
}
#endif

/* Programs that include only this header use PROCESS_TRACE_MODE_EVENT_RECORD and EVENT_RECORD too. */
#include <evntcons.h>

#endif
