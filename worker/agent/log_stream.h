// The output of a program's log: standard error, each line with one write, and the ring.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

#include "worker/agent/log_ring.h"

namespace longhaul {

// Externally synchronised: a Logger writes one line at a time.
class LogStream : private std::streambuf, public std::ostream {
 public:
  // The ring must outlive this object.
  explicit LogStream(LogRing* ring) : std::ostream(this), ring_(ring) {}

 private:
  int overflow(int c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  void Take(absl::string_view text);

  LogRing* const ring_;
  std::string line_;
};

// Writes to standard error, with one call if the system takes all of it.
void WriteToStandardError(absl::string_view text);

}  // namespace longhaul
