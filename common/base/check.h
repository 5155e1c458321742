// LH_CHECK(condition, message) stops the process if one of our own invariants is broken. It is
// always on. Never use it on bytes, sizes or states that came from a peer, a file or a flag: errors
// in those are an absl::Status.
#pragma once

#include <cstdio>
#include <cstdlib>

#define LH_CHECK(condition, message)                                                        \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", __FILE__, __LINE__, #condition, \
                   message);                                                                \
      std::abort();                                                                         \
    }                                                                                       \
  } while (false)
