// The command line of a benchmark. CLI11 is compiled here, once for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace longhaul::benchmark {

struct Flag {
  const char* name;
  // Holds the default, and takes what the command line says.
  std::variant<bool*, int*, int64_t*, double*, std::string*> value;
  const char* meaning = "";
  std::vector<std::string> choices = {};  // Of a string; none: any.
  // Of a number. Without `least` it is above zero.
  std::optional<double> least = {}, most = {};
};

// The status with which the program has to end: 0 behind the help page, kExitBadArguments behind
// words about what is wrong. None: all flags are read.
std::optional<int> ReadFlags(const std::string& about, int argc, char** argv,
                             const std::vector<Flag>& flags);

}  // namespace longhaul::benchmark
