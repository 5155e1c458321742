// Runs a fuzz target on the files, and on all files of the folders, that the command line names,
// and on the target's seeds as they are made now.
//   replay TARGET FILE|FOLDER ...
//   replay TARGET --write-seeds FOLDER     writes the seeds as files, in place of those there
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
using longhaul::fuzz::Target;

constexpr char kSeedPrefix[] = "seed-";

// An input that makes a decoder ask for gigabytes fails here as it does under libFuzzer's limit.
// Not with sanitizers whose shadow is memory of the process too.
void LimitMemory() {
#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
  const rlimit limit = {size_t{2} << 30, size_t{2} << 30};
  setrlimit(RLIMIT_DATA, &limit);
#endif
}

void Run(const Target& target, const std::string& name, const std::string& bytes) {
  std::fprintf(stderr, "%s (%zu bytes)\n", name.c_str(), bytes.size());
  // A copy of its own, so that sanitizers see a read past its end.
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  target.test_one_input(copy.get(), bytes.size());
}

bool RunFile(const Target& target, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    return false;
  }
  Run(target, path, bytes);
  return true;
}

bool RunPath(const Target& target, const fs::path& path) {
  if (!fs::is_directory(path)) return RunFile(target, path);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return std::all_of(files.begin(), files.end(),
                     [&](const fs::path& file) { return RunFile(target, file); });
}

int WriteSeeds(const Target& target, const fs::path& folder) {
  fs::create_directories(folder);
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kSeedPrefix)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path);
  for (const Seed& seed : target.seeds()) {
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
  const std::vector<Target> targets = longhaul::fuzz::Targets();
  const auto named = std::find_if(targets.begin(), targets.end(), [&](const Target& target) {
    return argc > 1 && target.name == argv[1];
  });
  if (named == targets.end()) {
    std::fprintf(stderr, "usage: replay TARGET FILE|FOLDER ...; targets:\n");
    for (const Target& target : targets) std::fprintf(stderr, "  %s\n", target.name.c_str());
    return 2;
  }
  const Target& target = *named;
  if (argc == 4 && std::strcmp(argv[2], "--write-seeds") == 0) return WriteSeeds(target, argv[3]);
  LimitMemory();
  for (const Seed& seed : target.seeds()) Run(target, "seed " + seed.name, seed.bytes);
  for (int i = 2; i < argc; ++i) {
    if (!RunPath(target, argv[i])) return 1;
  }
  return 0;
}
