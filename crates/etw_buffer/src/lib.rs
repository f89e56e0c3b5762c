//! Lock-free buffers in shared memory, one current buffer a processor.
