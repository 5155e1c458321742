// What the CLI touches of the world around it, so that a test can run it within its own process.
#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "common/base/clock.h"

namespace longhaul::cli {

struct Environment {
  std::istream& in;
  std::ostream& out;  // Data.
  std::ostream& err;  // For people.
  bool err_is_terminal = false;
  Clock& clock;
  std::function<std::optional<std::string>(const char* name)> variable;
};

}  // namespace longhaul::cli
