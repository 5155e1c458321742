// Reads a golden file: lines of `name value value ...`, '#' begins a comment line.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace longhaul {

class GoldenFile {
 public:
  // `name`: a file of this folder; tests run in the root of the source tree.
  explicit GoldenFile(const std::string& name) {
    std::ifstream file("tests/golden/engine/" + name);
    LH_CHECK(file.good(), name.c_str());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string key;
      words >> key;
      if (key == "#") continue;
      for (double value; words >> value;) entries_[key].push_back(value);
    }
  }

  template <typename T = float>
  std::vector<T> Get(const std::string& key) const {
    const auto found = entries_.find(key);
    LH_CHECK(found != entries_.end(), key.c_str());
    return {found->second.begin(), found->second.end()};
  }

 private:
  std::map<std::string, std::vector<double>> entries_;
};

}  // namespace longhaul
