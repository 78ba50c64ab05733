"""Threads that use clients, and callbacks in the threads of the native code."""
