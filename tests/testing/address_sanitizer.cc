// Linked into every program of a build with AddressSanitizer (common/cmake/targets.cmake).

// Leaks that are not ours. Each with its reason.
extern "C" const char* __lsan_default_suppressions() {
  return
      // A lookup of a name that gRPC gives up leaves its text, of some ten bytes.
      "leak:libcares.so\n"
      // What gloo has looked up of an address at which it then cannot listen.
      "leak:gloo::transport::tcp::CreateDevice\n";
}

// Memory that cannot be had is an error that tests look for.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
