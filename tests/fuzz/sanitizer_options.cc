// Settings of the sanitizers for the fuzz targets; ASAN_OPTIONS and UBSAN_OPTIONS of the
// environment stand above them.

// Debian's Abseil, protobuf, gRPC and yaml-cpp are not instrumented. A container that is made in
// our code and grows in theirs has no up-to-date annotations, so the check of its unused room would
// report what is right. Everything else works across the border: the allocator is replaced in the
// whole process.
extern "C" const char* __asan_default_options() { return "detect_container_overflow=0"; }

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
