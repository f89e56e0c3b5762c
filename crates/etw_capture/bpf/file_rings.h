/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* File operations by io_uring: recorded when the kernel accepts a request, with the result when it completes. */
#pragma once

#include "file_operations.h"

enum ring_opcode {
	RING_READV = 1,
	RING_WRITEV = 2,
	RING_FSYNC = 3,
	RING_READ_FIXED = 4,
	RING_WRITE_FIXED = 5,
	RING_SYNC_RANGE = 8,
	RING_FALLOCATE = 17,
	RING_OPENAT = 18,
	RING_CLOSE = 19,
	RING_STATX = 21,
	RING_READ = 22,
	RING_WRITE = 23,
	RING_OPENAT2 = 28,
	RING_RENAMEAT = 35,
	RING_UNLINKAT = 36,
	RING_MKDIRAT = 37,
	RING_SYMLINKAT = 38,
	RING_LINKAT = 39,
	RING_FTRUNCATE = 55,
	RING_READV_FIXED = 60,
	RING_WRITEV_FIXED = 61,
};

INLINE u32 operation_of_ring(u8 opcode)
{
	switch (opcode) {
	case RING_READV:
	case RING_READ_FIXED:
	case RING_READ:
	case RING_READV_FIXED:
		return READ;
	case RING_WRITEV:
	case RING_WRITE_FIXED:
	case RING_WRITE:
	case RING_WRITEV_FIXED:
		return WRITE;
	case RING_FSYNC:
	case RING_SYNC_RANGE:
		return FLUSH;
	case RING_FALLOCATE:
		return SET_ALLOCATION;
	case RING_FTRUNCATE:
		return SET_SIZE;
	case RING_OPENAT:
	case RING_OPENAT2:
		return OPEN;
	case RING_CLOSE:
		return CLOSE;
	case RING_STATX:
		return QUERY;
	case RING_RENAMEAT:
		return RENAME;
	case RING_UNLINKAT:
		return DELETE;
	case RING_MKDIRAT:
		return MAKE_DIRECTORY;
	case RING_SYMLINKAT:
		return MAKE_NODE;
	case RING_LINKAT:
		return ADD_LINK;
	default:
		return NO_OPERATION;
	}
}

INLINE bool has_vectors(u8 opcode)
{
	return opcode == RING_READV || opcode == RING_WRITEV || opcode == RING_READV_FIXED || opcode == RING_WRITEV_FIXED;
}

/* A request that was recorded. */
struct ring_request {
	u64 irp;
	u64 object;
	u64 key;
	u64 operation;
	u64 is_opened_as_descriptor;
};

/* By its address. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 8192);
	TYPE(key, u64);
	TYPE(value, struct ring_request);
} ring_requests MAP;

#define FIXED_FILE 1
#define FILE_BITS 7UL

/* Returns the file of a request: that of a descriptor, or one registered with the ring. */
INLINE struct file *file_of_ring(struct task_struct *task, struct io_kiocb *request)
{
	u32 descriptor = request->cqe.fd;
	if (!(request->flags & FIXED_FILE))
		return file_at(task, descriptor);
	struct io_ring_ctx *ring = request->ctx;
	if (!FIELD_EXISTS(ring->file_table.data) || descriptor >= ring->file_table.data.nr)
		return 0;
	struct io_rsrc_node *node = 0;
	read_kernel(&node, sizeof(node), ring->file_table.data.nodes + descriptor);
	return node ? (struct file *)(LOAD(node, file_ptr) & ~FILE_BITS) : 0;
}

/* Finds the paths of a request, which the kernel has copied. */
INLINE void paths_of_ring(void *request, u8 opcode, struct paths *to)
{
	struct filename *first, *second = 0;
	if (opcode == RING_OPENAT || opcode == RING_OPENAT2) {
		to->directory = LOAD((struct io_open *)request, dfd);
		to->parameter = LOAD((struct io_open *)request, how.flags);
		first = LOAD((struct io_open *)request, filename);
	} else if (opcode == RING_STATX) {
		to->directory = LOAD((struct io_statx *)request, dfd);
		first = LOAD((struct io_statx *)request, filename);
	} else if (opcode == RING_UNLINKAT) {
		to->directory = LOAD((struct io_unlink *)request, dfd);
		first = LOAD((struct io_unlink *)request, filename);
	} else if (opcode == RING_MKDIRAT) {
		to->directory = LOAD((struct io_mkdir *)request, dfd);
		first = LOAD((struct io_mkdir *)request, filename);
	} else if (opcode == RING_RENAMEAT) {
		to->directory = LOAD((struct io_rename *)request, old_dfd);
		to->second_directory = LOAD((struct io_rename *)request, new_dfd);
		first = LOAD((struct io_rename *)request, oldpath);
		second = LOAD((struct io_rename *)request, newpath);
	} else {
		to->directory = LOAD((struct io_link *)request, old_dfd);
		to->second_directory = LOAD((struct io_link *)request, new_dfd);
		first = LOAD((struct io_link *)request, oldpath);
		second = LOAD((struct io_link *)request, newpath);
	}
	if (opcode == RING_SYMLINKAT) {
		/* The target of a symbolic link is arbitrary text. */
		first = second;
		second = 0;
		to->directory = to->second_directory;
	}
	to->path = (u64)LOAD(first, name);
	to->second_path = second ? (u64)LOAD(second, name) : 0;
}

/* Records the start of a request on an open file; returns whether it is one. */
INLINE bool begin_ring_on_file(struct task_struct *task, struct io_kiocb *kiocb, struct ring_request *now)
{
	void *request = kiocb;
	u8 opcode = kiocb->opcode;
	struct file *file = opcode == RING_CLOSE ? file_at(task, LOAD((struct io_close *)request, fd))
						 : file_of_ring(task, kiocb);
	if (opcode == RING_CLOSE && LOAD((struct io_close *)request, file_slot))
		return false;
	struct seen seen;
	struct opened keys;
	if (!find_opened(file, &seen, &keys))
		return false;
	u64 offset = 0, size = 0;
	if (now->operation == CLOSE) {
		now->operation = closing_of(file, &keys, 1);
		if (!now->operation)
			return false;
		let_opened_go(file, now->operation, &keys);
	} else if (now->operation == READ || now->operation == WRITE) {
		offset = LOAD((struct io_rw *)request, kiocb.ki_pos);
		size = LOAD((struct io_rw *)request, len);
		if (has_vectors(opcode))
			size = bytes_of((void *)LOAD((struct io_rw *)request, addr), size);
		if (offset == NOT_KNOWN)
			offset = place_of(&seen, now->operation);
	} else if (now->operation == SET_SIZE) {
		size = LOAD((struct io_ftrunc *)request, len);
	} else if (now->operation == SET_ALLOCATION) {
		size = LOAD((struct io_sync *)request, off) + LOAD((struct io_sync *)request, len);
	}
	now->object = keys.object;
	now->key = keys.key;
	tell_begin(ids_of(task), now->operation, now->irp, &keys, offset, size);
	return true;
}

SECTION("tp_btf/io_uring_submit_req") int ring_begin(u64 *context)
{
	struct io_kiocb *request = (void *)context[0];
	u32 operation = operation_of_ring(request->opcode);
	struct task_struct *task = current_task_typed();
	if (!operation || !is_told(task))
		return 0;
	struct under_way *own = begin_operation(task, NO_OPERATION);
	if (!own)
		return 0;
	struct ring_request now = { .irp = own->irp, .operation = operation };
	u8 opcode = request->opcode;
	if (operation == OPEN || operation == QUERY || operation == DELETE || operation == RENAME ||
	    operation == ADD_LINK || operation == MAKE_DIRECTORY || operation == MAKE_NODE) {
		struct paths paths = { .ids = ids_of(task), .irp = own->irp, .operation = operation, .of_kernel = 1 };
		paths_of_ring(request, opcode, &paths);
		now.is_opened_as_descriptor = operation == OPEN && !LOAD((struct io_open *)request, file_slot);
		tell_paths(&paths);
	} else if (!begin_ring_on_file(task, request, &now)) {
		return 0;
	}
	u64 key = (u64)request;
	if (map_update(&ring_requests, &key, &now, UPDATE_ANY))
		count_lost();
	return 0;
}

SECTION("tp_btf/io_uring_complete") int ring_end(u64 *context)
{
	u64 key = context[1];
	struct io_uring_cqe *entry = (void *)context[2];
	struct ring_request *told = map_lookup(&ring_requests, &key);
	if (!told)
		return 0;
	struct ring_request now = *told;
	map_delete(&ring_requests, &key);
	struct task_struct *task = current_task_typed();
	s64 result = entry->res;
	if (now.operation == OPEN && result >= 0) {
		bool is_made = false;
		if (now.is_opened_as_descriptor) {
			struct opened opened;
			is_made = note_opened(task, result, now.irp, &opened);
			now.object = opened.object;
			now.key = opened.key;
		}
		result = is_made ? WAS_MADE : WAS_THERE;
	}
	tell_end(ids_of(task), now.operation, now.irp, now.object, now.key, result);
	return 0;
}
