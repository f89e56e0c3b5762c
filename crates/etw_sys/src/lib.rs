//! System calls, one module per operating system.
