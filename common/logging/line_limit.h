// Bounds how many lines of one kind a log gets.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace longhaul {

// Externally synchronised.
class LineLimit {
 public:
  // `lines` in each `interval`, which begins with a line.
  LineLimit(int lines, absl::Duration interval) : lines_max_(lines), interval_(interval) {}

  // Whether a line may be written now; if so, how many were left out before it. `now` is
  // SteadyTime: after a wall clock was set back, nothing would be written for as long.
  std::optional<int64_t> Take(absl::Time now) {
    if (now - begun_ >= interval_) {
      begun_ = now;
      lines_ = 0;
    }
    if (lines_ >= lines_max_) {
      ++left_out_;
      return std::nullopt;
    }
    ++lines_;
    return std::exchange(left_out_, 0);
  }

 private:
  int lines_max_;
  absl::Duration interval_;
  absl::Time begun_ = absl::InfinitePast();
  int lines_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace longhaul
