// Indexes of Megatron-LM's data.
//   input: the .idx file
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/megatron_index.h"

namespace longhaul::fuzz::megatron_index_fuzz {
namespace {

template <typename Word>
void Append(std::string& bytes, Word word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

std::string Index(std::initializer_list<int32_t> sizes, uint8_t type, int width) {
  std::string bytes(kMegatronMagic, kMegatronMagicBytes);
  Append(bytes, uint64_t{1});
  Append(bytes, type);
  Append(bytes, uint64_t{sizes.size()});
  Append(bytes, uint64_t{sizes.size() + 1});
  for (const int32_t size : sizes) Append(bytes, size);
  int64_t at = 0;
  for (const int32_t size : sizes) {
    Append(bytes, at);
    at += int64_t{size} * width;
  }
  for (uint64_t i = 0; i <= sizes.size(); ++i) Append(bytes, i);
  return bytes;
}

}  // namespace

std::vector<Seed> Seeds() {
  return {{"uint16", Index({5, 0, 7}, 8, 2)},
          {"int32", Index({1 << 30, 1}, 4, 4)},
          {"empty", Index({}, 8, 2)},
          {"cut", Index({5, 7}, 8, 2).substr(0, 60)}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  static const int memory = memfd_create("index", MFD_CLOEXEC);
  LH_CHECK(ftruncate(memory, 0) == 0 && pwrite(memory, data, size, 0) == static_cast<ssize_t>(size),
           "the file takes the bytes");
  const auto file = ReadOnlyFile::Open(absl::StrCat("/proc/self/fd/", memory));
  LH_CHECK(file.ok(), "the file opens");
  const auto index = ReadMegatronIndex(*file);
  CheckDocumented(index.status(), {absl::StatusCode::kInvalidArgument});
  if (!index.ok()) return 0;
  LH_CHECK(index->tokens >= 0 && index->sequences >= 0 && index->documents <= index->sequences,
           "documents are made of sequences");
  LH_CHECK(index->sequences * 12 < static_cast<int64_t>(size), "sequences lie in the file");
  std::vector<int64_t> starts;
  const absl::Status searched =
      AppendMegatronStarts(*file, *index, index->tokens / 3, index->tokens, 5, starts);
  LH_CHECK(searched.ok(), "the file is whole");
  for (size_t i = 0; i < starts.size(); ++i) {
    LH_CHECK(starts[i] - 5 >= index->tokens / 3 && starts[i] - 5 < index->tokens, "in its range");
    LH_CHECK(i == 0 || starts[i] > starts[i - 1], "in order, each once");
  }
  return 0;
}

}  // namespace longhaul::fuzz::megatron_index_fuzz
