// Files of /proc and /sys: they say no size, so they are read to their end.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace longhaul {

// Empty: it cannot be read.
inline std::string ReadSystemFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace longhaul
