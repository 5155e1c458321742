// How long a wait may take. It is asked when the wait begins: who waits does not know how long its
// work usually takes.
#pragma once

#include <functional>
#include <utility>

#include "absl/time/time.h"

namespace longhaul {

class Patience {
 public:
  // The same at any time.
  Patience(absl::Duration always) : now_([always] { return always; }) {}  // NOLINT: it is a time
  // `now` is called by whoever waits, on any thread.
  explicit Patience(std::function<absl::Duration()> now) : now_(std::move(now)) {}

  absl::Duration now() const { return now_(); }

 private:
  std::function<absl::Duration()> now_;
};

}  // namespace longhaul
