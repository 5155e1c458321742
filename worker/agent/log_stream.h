// Where a program writes its log: standard error, a line with one write, and the ring beside it.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

#include "worker/agent/log_ring.h"

namespace longhaul {

// Externally synchronised: a Logger calls it a line at a time.
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

// To standard error, in one write where the system takes it whole.
void WriteToStandardError(absl::string_view text);

}  // namespace longhaul
