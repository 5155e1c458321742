// Runs a fuzz target on the files, and on all files of the folders, that the command line names,
// and on the target's seeds as they are made now.
//   TARGET FILE|FOLDER ...
//   TARGET --write-seeds FOLDER     writes the seeds as files, in place of those that were there
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

namespace fs = std::filesystem;
using longhaul::fuzz::Seed;

constexpr char kSeedPrefix[] = "seed-";

// An input that makes a decoder ask for gigabytes fails here as it does under libFuzzer's limit.
// Not with sanitizers whose shadow is memory of the process too.
void LimitMemory() {
#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
  const rlimit limit = {size_t{2} << 30, size_t{2} << 30};
  setrlimit(RLIMIT_DATA, &limit);
#endif
}

void Run(const std::string& name, const std::string& bytes) {
  std::fprintf(stderr, "%s (%zu bytes)\n", name.c_str(), bytes.size());
  // A copy of its own, so that sanitizers see a read past its end.
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), bytes.size());
}

bool RunFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    return false;
  }
  Run(path, bytes);
  return true;
}

bool RunPath(const fs::path& path) {
  if (!fs::is_directory(path)) return RunFile(path);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return std::all_of(files.begin(), files.end(), RunFile);
}

int WriteSeeds(const fs::path& folder) {
  fs::create_directories(folder);
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kSeedPrefix)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path);
  for (const Seed& seed : longhaul::fuzz::Seeds()) {
    std::ofstream file(folder / (kSeedPrefix + seed.name), std::ios::binary);
    file << seed.bytes;
    if (!file.flush()) {
      std::fprintf(stderr, "%s: cannot be written\n", seed.name.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--write-seeds") == 0) return WriteSeeds(argv[2]);
  LimitMemory();
  for (const Seed& seed : longhaul::fuzz::Seeds()) Run("seed " + seed.name, seed.bytes);
  for (int i = 1; i < argc; ++i) {
    if (!RunPath(argv[i])) return 1;
  }
  return 0;
}
