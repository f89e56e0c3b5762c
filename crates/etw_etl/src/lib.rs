//! The bytes of a trace file: buffers, compression, the log file header; reader and writer.
