// Shows the progress of a transfer of files and the state of its connection: on a terminal one line
// that is drawn again and again, else a line now and then.
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

  // "12 %: 3.4 MiB of 28.1 MiB", behind `what` ("" or words with a space at their end). Bytes came,
  // so the connection is there.
  void Show(absl::string_view what, int64_t done, int64_t all);
  // Says once that the connection is lost and is tried again.
  void Lost(const absl::Status& why, const std::string& address);
  // Says that the connection is there again, if it was lost.
  void Connected();
  // Writes a line.
  void Say(const std::string& line);
  // Removes the line.
  void End();

 private:
  const Environment& environment_;
  bool lost_ = false, drawn_ = false;
  absl::Time shown_at_ = absl::InfinitePast();
};

}  // namespace longhaul::cli
