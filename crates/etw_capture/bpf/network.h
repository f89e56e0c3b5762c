/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TCP and UDP: connections, sends and receives.
 *
 * Packets are processed in whatever thread they interrupt, so the owner of a connection is remembered: the
 * process that connected or accepted it, or last used it. */
#pragma once

#include "file.h"

enum network_act {
	CONNECT,
	ACCEPT,
	SEND,
	RECEIVE,
	DISCONNECT,
	RETRANSMIT,
	RECONNECT,
	FAIL,
};

#define AF_INET 2
#define AF_INET6 10
#define TCP 6
#define UDP 17

/* States of TCP, part of the kernel's interface. */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10

/* Flags of receiving: data stays in the queue; errors instead of data. */
#define MSG_PEEK 2
#define MSG_ERRQUEUE 0x2000
#define SHUTDOWN_BOTH 3
#define EAGAIN 11
#define ERESTARTSYS 512

struct network {
	struct header header; /* Its number: the act. */
	u64 socket;
	u32 owner_pid;
	u32 owner_tid;
	u32 bytes; /* For a failure the error number. */
	u16 protocol;
	u16 own_family;
	u16 peer_family;
	u16 own_port; /* Ports in network order. */
	u16 peer_port;
	u16 mss;
	u8 own[16];
	u8 peer[16];
	/* Of new connections: the receive window, the scales of both windows, and the options. */
	u32 window;
	u8 receive_scale;
	u8 send_scale;
	u8 options;
	u8 reserved;
};

#define HAS_SACK 1
#define HAS_TIMESTAMPS 2
#define HAS_WINDOW_SCALE 4

/* The other end, if a system call names it; laid out as a sockaddr_in6. */
struct peer {
	u16 family;
	u16 port;
	u32 of_ipv4; /* The address in a sockaddr_in. */
	u64 address[2];
};

struct owner {
	u64 ids; /* Process and thread; 0 for a connection that was not accepted yet. */
	u64 connects;
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 65536);
	TYPE(key, u64);
	TYPE(value, struct owner);
} owners MAP;

/* A field of a socket, read directly if the verifier trusts the pointer, as for a tracepoint's argument. */
#define OF_SOCKET(field) (vouched ? socket->field : LOAD(socket, field))

INLINE bool is_internet(struct sock *socket, bool vouched)
{
	u16 family = OF_SOCKET(__sk_common.skc_family);
	return family == AF_INET || family == AF_INET6;
}

INLINE void fill_ends(struct network *record, struct sock *socket, bool vouched, struct peer *peer)
{
	u16 family = OF_SOCKET(__sk_common.skc_family);
	u64 *own = (void *)record->own;
	u64 *to = (void *)record->peer;
	own[0] = own[1] = to[0] = to[1] = 0;
	record->own_family = family;
	/* The port number is removed before a connection is closed; this field stays. */
	record->own_port = LOAD((struct inet_sock *)socket, inet_sport);
	if (family == AF_INET)
		*(u32 *)own = OF_SOCKET(__sk_common.skc_rcv_saddr);
	else
		read_kernel(own, 16, &socket->__sk_common.skc_v6_rcv_saddr);
	if (peer && peer->family) {
		record->peer_family = peer->family;
		record->peer_port = peer->port;
		to[0] = peer->address[0];
		to[1] = peer->address[1];
		return;
	}
	record->peer_family = family;
	record->peer_port = OF_SOCKET(__sk_common.skc_dport);
	if (family == AF_INET)
		*(u32 *)to = OF_SOCKET(__sk_common.skc_daddr);
	else
		read_kernel(to, 16, &socket->__sk_common.skc_v6_daddr);
}

INLINE void fill_options(struct network *record, struct tcp_sock *tcp)
{
	record->mss = LOAD(tcp, advmss);
	record->window = LOAD(tcp, rcv_wnd);
	record->receive_scale = BIT_FIELD(tcp, rx_opt.rcv_wscale);
	record->send_scale = BIT_FIELD(tcp, rx_opt.snd_wscale);
	record->options = (BIT_FIELD(tcp, rx_opt.sack_ok) ? HAS_SACK : 0) |
			  (BIT_FIELD(tcp, rx_opt.tstamp_ok) ? HAS_TIMESTAMPS : 0) |
			  (BIT_FIELD(tcp, rx_opt.wscale_ok) ? HAS_WINDOW_SCALE : 0);
}

/* What is recorded in addition to the socket. */
struct act {
	u64 ids;
	struct peer *peer; /* 0 for the socket's own. */
	u32 what;
	u32 bytes; /* For a failure the error number. */
	u32 protocol;
};

SHARED void tell_network(struct sock *socket, bool vouched, struct act *act)
{
	struct network *record = reserve(sizeof(*record), NETWORK, act->what);
	if (!record)
		return;
	record->socket = (u64)socket;
	record->owner_pid = act->ids >> 32;
	record->owner_tid = (u32)act->ids;
	record->bytes = act->bytes;
	record->protocol = act->protocol;
	fill_ends(record, socket, vouched, act->peer);
	record->mss = 0;
	record->window = 0;
	record->receive_scale = record->send_scale = record->options = record->reserved = 0;
	if (act->what == CONNECT || act->what == ACCEPT)
		fill_options(record, (void *)socket);
	submit(record);
}

INLINE void tell_connection(struct sock *socket, bool vouched, u32 what, u64 ids, u32 bytes)
{
	struct act act = { ids, 0, what, bytes, TCP };
	tell_network(socket, vouched, &act);
}

INLINE void tell_datagram(struct sock *socket, bool vouched, u32 what, u32 bytes, struct peer *peer)
{
	struct act act = { current_pid_tid(), peer, what, bytes, UDP };
	tell_network(socket, vouched, &act);
}

INLINE u64 owner_of(struct sock *socket)
{
	u64 key = (u64)socket;
	struct owner *owner = map_lookup(&owners, &key);
	return owner ? owner->ids : 0;
}

/* Notes that the calling process uses a TCP connection. If it was not accepted yet, the process has accepted it. */
INLINE void use_connection(struct sock *socket, bool vouched)
{
	u64 key = (u64)socket;
	u64 ids = current_pid_tid();
	struct owner *owner = map_lookup(&owners, &key);
	if (owner && owner->ids >> 32 == ids >> 32)
		return;
	bool is_new = owner && !owner->ids;
	struct owner now = { ids, 0 };
	map_update(&owners, &key, &now, UPDATE_ANY);
	if (is_new)
		tell_connection(socket, vouched, ACCEPT, ids, 0);
}

/* Records that the calling process has accepted a connection, unless that was recorded before. */
INLINE void accepted(struct sock *socket)
{
	u64 key = (u64)socket;
	struct owner *owner = map_lookup(&owners, &key);
	if (owner && owner->ids)
		return;
	struct owner now = { current_pid_tid(), 0 };
	map_update(&owners, &key, &now, UPDATE_ANY);
	tell_connection(socket, false, ACCEPT, now.ids, 0);
}

INLINE void established(struct sock *socket, u32 before)
{
	u64 key = (u64)socket;
	struct owner *owner = map_lookup(&owners, &key);
	if (before == TCP_SYN_SENT || (owner && owner->connects)) {
		tell_connection(socket, true, CONNECT, owner ? owner->ids : 0, 0);
		if (owner)
			owner->connects = 0;
		return;
	}
	struct owner nobody = { 0, 0 };
	map_update(&owners, &key, &nobody, UPDATE_ANY);
}

/* Records the end of a connection, once: when the process closes or shuts it down, or when it breaks. */
INLINE void disconnected(struct sock *socket, u32 after)
{
	u64 key = (u64)socket;
	struct owner *owner = map_lookup(&owners, &key);
	/* Only its process closes or shuts it down; the network breaks it in any thread. */
	bool is_own_doing = after != TCP_CLOSE || socket->sk_shutdown == SHUTDOWN_BOTH;
	if (owner && !owner->ids) {
		/* It was never accepted: it breaks, or its listener is closed. */
		if (after == TCP_CLOSE)
			return;
		use_connection(socket, true);
	}
	u64 ids = is_own_doing ? current_pid_tid() : owner ? owner->ids : 0;
	tell_connection(socket, true, DISCONNECT, ids, 0);
}

SECTION("tp_btf/inet_sock_set_state") int network_state(u64 *context)
{
	struct sock *socket = (void *)context[0];
	u32 before = context[1];
	u32 after = context[2];
	u64 key = (u64)socket;
	if (socket->sk_protocol != TCP || !is_internet(socket, true))
		return 0;
	if (after == TCP_SYN_SENT) {
		struct owner owner = { current_pid_tid(), 1 };
		map_update(&owners, &key, &owner, UPDATE_ANY);
	} else if (after == TCP_ESTABLISHED) {
		established(socket, before);
	} else if (before == TCP_SYN_SENT && after == TCP_CLOSE) {
		tell_connection(socket, true, FAIL, owner_of(socket), socket->sk_err);
	} else if ((before == TCP_ESTABLISHED || before == TCP_CLOSE_WAIT) &&
		   (after == TCP_FIN_WAIT1 || after == TCP_LAST_ACK || after == TCP_CLOSE)) {
		disconnected(socket, after);
	}
	/* The second case is a new socket, which may have the address of an old one. */
	if (after == TCP_CLOSE || before == TCP_LISTEN)
		map_delete(&owners, &key);
	return 0;
}

SECTION("tp_btf/tcp_retransmit_skb") int network_retransmit(u64 *context)
{
	struct sock *socket = (void *)context[0];
	struct sk_buff *packet = (void *)context[1];
	if (!is_internet(socket, true))
		return 0;
	u32 act = socket->__sk_common.skc_state == TCP_SYN_SENT ? RECONNECT : RETRANSMIT;
	u32 bytes = act == RECONNECT ? 0 : packet->len;
	tell_connection(socket, true, act, owner_of(socket), bytes);
	return 0;
}

/* System calls that send or receive datagrams and may name the other end. They are recorded when they end. */
enum call {
	NO_CALL,
	ACCEPT_CALL,
	SENDTO,
	SENDMSG,
	SENDMMSG,
	RECVFROM,
	RECVMSG,
	RECVMMSG,
};

INLINE enum call call_of(u32 number)
{
	if (IS_X86)
		switch (number) {
		case 43:
		case 288:
			return ACCEPT_CALL;
		case 44:
			return SENDTO;
		case 45:
			return RECVFROM;
		case 46:
			return SENDMSG;
		case 47:
			return RECVMSG;
		case 299:
			return RECVMMSG;
		case 307:
			return SENDMMSG;
		default:
			return NO_CALL;
		}
	switch (number) {
	case 202:
	case 242:
		return ACCEPT_CALL;
	case 206:
		return SENDTO;
	case 207:
		return RECVFROM;
	case 211:
		return SENDMSG;
	case 212:
		return RECVMSG;
	case 243:
		return RECVMMSG;
	case 269:
		return SENDMMSG;
	default:
		return NO_CALL;
	}
}

/* Whether threads with this id (modulo the size) have transferred datagrams in a system call that is recorded at
 * its end. Only for those the socket has to be found then. */
#define CALLERS 65536

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, CALLERS);
	TYPE(key, u32);
	TYPE(value, u8);
} datagram_callers MAP;

INLINE u8 *is_datagram_caller(void)
{
	u32 index = (u32)current_pid_tid() % CALLERS;
	return map_lookup(&datagram_callers, &index);
}

/* Returns whether this system call is recorded at its end if it transfers datagrams, and notes it. */
INLINE bool is_told_at_exit(void)
{
	void *registers = task_registers(current_task_typed());
	if (call_of(LOAD_CALL_NUMBER(registers)) <= ACCEPT_CALL || is_of_32_bit(current_task()))
		return false;
	u8 *noted = is_datagram_caller();
	if (noted)
		*noted = 1;
	return true;
}

SECTION("tp_btf/sock_send_length") int network_send(u64 *context)
{
	struct sock *socket = (void *)context[0];
	s32 sent = context[1];
	if (!is_internet(socket, true))
		return 0;
	u32 protocol = socket->sk_protocol;
	if (protocol == TCP && sent > 0) {
		use_connection(socket, true);
		tell_connection(socket, true, SEND, current_pid_tid(), sent);
	} else if (protocol == UDP && !is_told_at_exit() && sent >= 0) {
		tell_datagram(socket, true, SEND, sent, 0);
	}
	return 0;
}

SECTION("tp_btf/sock_recv_length") int network_receive(u64 *context)
{
	struct sock *socket = (void *)context[0];
	s32 received = context[1];
	u32 flags = context[2];
	if (!is_internet(socket, true))
		return 0;
	u32 protocol = socket->sk_protocol;
	bool is_taken = !(flags & (MSG_PEEK | MSG_ERRQUEUE));
	if (protocol == TCP && is_taken && received > 0) {
		use_connection(socket, true);
		tell_connection(socket, true, RECEIVE, current_pid_tid(), received);
	} else if (protocol == UDP && !is_told_at_exit() && is_taken && received >= 0) {
		tell_datagram(socket, true, RECEIVE, received, 0);
	}
	return 0;
}

/* Returns the socket of a descriptor of the calling thread; 0 if there is none any more. */
INLINE struct sock *socket_of(u32 descriptor)
{
	struct file *file = file_at(current_task_typed(), descriptor);
	if (!file || (LOAD(LOAD(file, f_inode), i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	return LOAD((struct socket *)LOAD(file, private_data), sk);
}

INLINE void read_peer(struct peer *peer, u64 address)
{
	peer->family = 0;
	if (!address || read_user(peer, 8, (void *)address))
		return;
	if (peer->family == AF_INET) {
		peer->address[0] = peer->of_ipv4;
		peer->address[1] = 0;
	} else if (peer->family != AF_INET6 || read_user(peer->address, 16, (void *)address + 8)) {
		peer->family = 0;
	}
}

INLINE void tell_call(struct sock *socket, u32 act, u64 address, u32 bytes)
{
	struct peer peer;
	read_peer(&peer, address);
	tell_datagram(socket, false, act, bytes, &peer);
}

INLINE u64 name_of(u64 message)
{
	u64 address = 0;
	read_user(&address, 8, (void *)message);
	return address;
}

struct messages {
	struct sock *socket;
	struct mmsghdr *first;
	u32 act;
};

static long tell_message(u32 at, struct messages *messages)
{
	struct mmsghdr *message = messages->first + at;
	u32 bytes = 0;
	read_user(&bytes, sizeof(bytes), &message->msg_len);
	tell_call(messages->socket, messages->act, name_of((u64)message), bytes);
	return 0;
}

SECTION("tp_btf/sys_exit") int network_call(u64 *context)
{
	void *registers = (void *)context[0];
	s64 result = context[1];
	enum call call = call_of(CALL_NUMBER(registers));
	if (call == NO_CALL)
		return 0;
	u8 *noted = is_datagram_caller();
	if (call != ACCEPT_CALL && (!noted || !*noted))
		return 0;
	if (is_of_32_bit(current_task()))
		return 0;
	if (call == ACCEPT_CALL) {
		struct sock *new = result >= 0 ? socket_of(result) : 0;
		if (new && LOAD(new, sk_protocol) == TCP && is_internet(new, false))
			accepted(new);
		return 0;
	}
	u32 act = call < RECVFROM ? SEND : RECEIVE;
	u32 flags = call == RECVMSG ? call_argument(registers, 2) : call_argument(registers, 3);
	if (act == RECEIVE && (result < 0 || flags & (MSG_PEEK | MSG_ERRQUEUE)))
		return 0;
	struct sock *socket = socket_of(call_argument(registers, 0));
	if (!socket || LOAD(socket, sk_protocol) != UDP || !is_internet(socket, false))
		return 0;
	u64 second = call_argument(registers, 1);
	if (result < 0) {
		if (result != -EAGAIN && result > -ERESTARTSYS)
			tell_datagram(socket, false, FAIL, -result, 0);
	} else if (call == SENDTO || call == RECVFROM) {
		tell_call(socket, act, call_argument(registers, 4), result);
	} else if (call == SENDMSG || call == RECVMSG) {
		tell_call(socket, act, name_of(second), result);
	} else {
		struct messages messages = { socket, (void *)second, act };
		repeat(result, tell_message, &messages, 0);
	}
	return 0;
}
