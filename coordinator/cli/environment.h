// What the CLI uses of its environment, so that a test can run it within its own process.
#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "common/base/clock.h"

namespace longhaul::cli {

// The terminal that output goes to. Not thread-safe.
class Terminal {
 public:
  virtual ~Terminal() = default;
  virtual int columns() const = 0;  // At least 1; as it is now, since people resize windows.
  virtual int rows() const = 0;
  // From the first call to the object's end keys are read as they are pressed, and not shown. Blocks
  // at most so long. True: q or Ctrl-C was pressed.
  virtual bool QuitWithin(absl::Duration wait) = 0;
};

struct Environment {
  std::istream& in;
  std::ostream& out;  // Data.
  std::ostream& err;  // For people.
  bool err_is_terminal = false;
  bool out_is_terminal = false;
  Clock& clock;
  std::function<std::optional<std::string>(const char* name)> variable;
  Terminal* terminal = nullptr;  // Null: there is none, or it cannot move its cursor.

  // Of the terminal, or as on paper.
  int columns() const { return terminal == nullptr ? 80 : terminal->columns(); }
  // Bars and live tables, which move the cursor.
  bool draws() const { return err_is_terminal && terminal != nullptr; }
  // NO_COLOR, if it is not empty, asks for none (no-color.org).
  bool coloured() const { return err_is_terminal && variable("NO_COLOR").value_or("").empty(); }
};

}  // namespace longhaul::cli
