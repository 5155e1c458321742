// Bounds how many lines of one kind a log gets.
#pragma once

#include <algorithm>
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

// A line that says the same again and again: the first one passes, then the next after `first`, and
// each further one after twice as long, at most `longest`. Once it has not come for as long as the
// current wait, it begins anew. Externally synchronised.
class RepeatLimit {
 public:
  RepeatLimit(absl::Duration first, absl::Duration longest) : first_(first), longest_(longest) {}

  // As LineLimit::Take.
  std::optional<int64_t> Take(absl::Time now) {
    if (now - std::exchange(last_, now) >= wait_) {
      wait_ = first_;
    } else if (now - told_ < wait_) {
      ++left_out_;
      return std::nullopt;
    } else {
      wait_ = std::min(2 * wait_, longest_);
    }
    told_ = now;
    return std::exchange(left_out_, 0);
  }

 private:
  absl::Duration first_, longest_;
  // The time until the next line may pass.
  absl::Duration wait_;
  absl::Time last_ = absl::InfinitePast(), told_ = absl::InfinitePast();
  int64_t left_out_ = 0;
};

}  // namespace longhaul
