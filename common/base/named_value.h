// A number with a name, for example "loss" or "perplexity".
#pragma once

#include <string>

namespace longhaul {

struct NamedValue {
  std::string name;
  double value = 0;
  friend bool operator==(const NamedValue&, const NamedValue&) = default;
};

}  // namespace longhaul
