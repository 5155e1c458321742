// What a user who presses Ctrl-C should know.
#pragma once

#include <string>

namespace longhaul::cli {

// While it lives, a SIGINT writes the note to standard error, and then ends this process as it
// would without it. A SIGINT that is ignored stays so. One at a time, since signals are the
// process's.
class InterruptNote {
 public:
  explicit InterruptNote(std::string note);
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

 private:
  const std::string note_;
};

}  // namespace longhaul::cli
