/*
 * Headers of packets, as they are on the wire, for programs that read captures.
 */
#ifndef OPENETW_NETIODEF_H
#define OPENETW_NETIODEF_H

#pragma GCC system_header

#include <winsock2.h>

#ifndef NET_IFINDEX_UNSPECIFIED
#define NET_IFINDEX_UNSPECIFIED 0u
#endif

#define ETHERNET_TYPE_MINIMUM 0x0600
#define ETHERNET_TYPE_IPV4 0x0800
#define ETHERNET_TYPE_ARP 0x0806
#define ETHERNET_TYPE_802_1Q 0x8100
#define ETHERNET_TYPE_IPV6 0x86DD
#define IPV4_VERSION 4
#define IPV6_VERSION 0x60

#pragma pack(push, 1)

typedef union _DL_EUI48 {
  UCHAR Byte[6];
  struct {
    UCHAR Oui[3];
    UCHAR Ei48[3];
  };
} DL_EUI48, *PDL_EUI48;

typedef struct _ETHERNET_HEADER {
  DL_EUI48 Destination;
  DL_EUI48 Source;
  union {
    UINT16 Type;
    UINT16 Length;
  };
} ETHERNET_HEADER, *PETHERNET_HEADER;

typedef struct _IPV4_HEADER {
  union {
    UINT8 VersionAndHeaderLength;
    struct {
      UINT8 HeaderLength : 4;
      UINT8 Version : 4;
    };
  };
  union {
    UINT8 TypeOfServiceAndEcnField;
    struct {
      UINT8 EcnField : 2;
      UINT8 TypeOfService : 6;
    };
  };
  UINT16 TotalLength;
  UINT16 Identification;
  union {
    UINT16 FlagsAndOffset;
    struct {
      UINT16 DontUse1 : 5;
      UINT16 MoreFragments : 1;
      UINT16 DontFragment : 1;
      UINT16 Reserved : 1;
      UINT16 DontUse2 : 8;
    };
  };
  UINT8 TimeToLive;
  UINT8 Protocol;
  UINT16 HeaderChecksum;
  IN_ADDR SourceAddress;
  IN_ADDR DestinationAddress;
} IPV4_HEADER, *PIPV4_HEADER;

typedef struct _IPV6_HEADER {
  union {
    UINT32 VersionClassFlow;
    struct {
      UINT8 VersionAndClass;
      UINT8 ClassAndFlow;
      UINT16 Flow;
    };
  };
  UINT16 PayloadLength;
  UINT8 NextHeader;
  UINT8 HopLimit;
  IN6_ADDR SourceAddress;
  IN6_ADDR DestinationAddress;
} IPV6_HEADER, *PIPV6_HEADER;

typedef struct _TCP_HDR {
  UINT16 th_sport;
  UINT16 th_dport;
  UINT32 th_seq;
  UINT32 th_ack;
  UINT8 th_x2 : 4;
  UINT8 th_len : 4;
  UINT8 th_flags;
  UINT16 th_win;
  UINT16 th_sum;
  UINT16 th_urp;
} TCP_HDR;

#pragma pack(pop)

#endif
