// The interface of everything that runs work on other threads: a pool of threads in the product,
// virtual time in the simulation.
#pragma once

#include "absl/functional/any_invocable.h"

namespace longhaul {

// Thread-safe.
class TaskRunner {
 public:
  using Task = absl::AnyInvocable<void()>;
  virtual ~TaskRunner() = default;
  // Runs the task later, never within the call. Returns false if too many tasks wait; then this one
  // was destroyed without being run. Never blocks.
  [[nodiscard]] virtual bool Submit(Task task) = 0;
};

}  // namespace longhaul
