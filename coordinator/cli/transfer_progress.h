// What people see of a transfer of files: a line that is drawn over itself on a terminal, else a line
// now and then; and of its connection.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/cli/environment.h"

namespace longhaul::cli {

// Not thread-safe. `environment` outlives it.
class TransferProgress {
 public:
  explicit TransferProgress(const Environment& environment) : environment_(environment) {}
  ~TransferProgress() { End(); }

  // "12 %: 3.4 MiB of 28.1 MiB", behind `what` ("" or words with a space at their end). Bytes came, so
  // the connection is there.
  void Show(absl::string_view what, int64_t done, int64_t all);
  // The connection is lost, and tried again: said once.
  void Lost(const absl::Status& why, const std::string& address);
  // It is there again: said, if it was lost.
  void Connected();
  // A line of its own.
  void Say(const std::string& line);
  // Takes the line away.
  void End();

 private:
  const Environment& environment_;
  bool lost_ = false, drawn_ = false;
  absl::Time shown_at_ = absl::InfinitePast();
};

}  // namespace longhaul::cli
