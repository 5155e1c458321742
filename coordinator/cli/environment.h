// What the CLI uses of its environment, so that a test can run it within its own process.
#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace longhaul::cli {

// The terminal that output goes to. Not thread-safe.
class Terminal {
 public:
  virtual ~Terminal() = default;
  // At least 1; as it is now, since people resize windows.
  virtual int columns() const = 0;
  virtual int rows() const = 0;
  // Waits at most so long for a key. True: q or Ctrl-C was pressed. From the first call to the end
  // of the object, keys are read one by one and not shown.
  virtual bool QuitWithin(absl::Duration wait) = 0;
};

struct Environment {
  std::istream& in;
  // Data.
  std::ostream& out;
  // For people.
  std::ostream& err;
  bool err_is_terminal = false;
  bool out_is_terminal = false;
  Clock& clock;
  std::function<std::optional<std::string>(const char* name)> variable;
  // Null: there is none, or it cannot move its cursor.
  Terminal* terminal = nullptr;
  // Called before a client is made. Many commands make none. Not empty. An error ends the command.
  std::function<absl::Status()> before_client = [] { return absl::OkStatus(); };

  // The width of the terminal, or 80.
  int columns() const { return terminal == nullptr ? 80 : terminal->columns(); }
  // For tables. 0: any width, since they do not go to a terminal.
  int table_columns() const {
    return out_is_terminal && terminal != nullptr ? terminal->columns() : 0;
  }
  // Bars and live tables, which move the cursor.
  bool draws() const { return err_is_terminal && terminal != nullptr; }
  // NO_COLOR, if it is not empty, asks for none (no-color.org).
  bool coloured() const { return err_is_terminal && variable("NO_COLOR").value_or("").empty(); }
};

}  // namespace longhaul::cli
