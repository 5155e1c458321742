// A new folder for one test, removed with its content at the end. For tests that need real files.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "common/base/check.h"

namespace longhaul {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "longhaul-test-XXXXXX").string();
    LH_CHECK(mkdtemp(name.data()) != nullptr, "no temporary folder");
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string Join(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Path of a file in a folder of the process. The first call of a name writes it; later ones leave
// it as it is, since another test may read it. Thread-safe.
inline std::string WrittenOnce(const std::string& name,
                               const std::function<void(std::ostream&)>& write) {
  static const TempDir folder;
  static std::mutex mutex;
  static std::map<std::string, std::string> paths;
  const std::lock_guard lock(mutex);
  const auto [entry, added] = paths.try_emplace(name, folder.Join(name));
  if (added) {
    std::ofstream file(entry->second, std::ios::binary);
    write(file);
  }
  return entry->second;
}

}  // namespace longhaul
