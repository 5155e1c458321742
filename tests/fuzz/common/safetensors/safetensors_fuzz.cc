// Files of safetensors.
//   input: u8 1: a whole file; 0: one without its first eight bytes, which are made
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors_file.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::safetensors_fuzz {
namespace {

// The header ends with the last brace.
std::string FileOf(FuzzInput& input) {
  const bool given = input.Flag();
  const std::string rest(input.Rest());
  if (given) return rest;
  const size_t end = std::min(rest.rfind('}') + 1, rest.size());
  const uint64_t size = end;
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&size), 8), rest);
}

void CheckFile(const SafetensorsFile& file) {
  int64_t end = 0;
  for (const StoredTensor& tensor : file.header().tensors) {
    LH_CHECK(tensor.offset == end, "tensors follow each other");
    end += tensor.bytes();
    std::vector<uint8_t> bytes(tensor.bytes());
    LH_CHECK(file.ReadBytes(tensor, 0, absl::MakeSpan(bytes)).ok(), "it does not change");
    if (!IsModelType(tensor.type)) continue;
    std::vector<float> values(tensor.elements);
    ToFloat(tensor.type, bytes.data(), absl::MakeSpan(values));
    std::vector<float> read(tensor.elements);
    LH_CHECK(file.Read(tensor, 0, absl::MakeSpan(read)).ok(), "it does not change");
    LH_CHECK(std::memcmp(read.data(), values.data(), 4 * read.size()) == 0,
             "both ways to read agree");
  }
  const std::string json = WriteSafetensorsHeader(file.header());
  LH_CHECK(ParseSafetensorsHeader(json, end).ok(), "what was read can be written");
}

}  // namespace

std::vector<Seed> Seeds() {
  const std::string two =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"BF16","shape":[1,1],"data_offsets":[4,6]}})";
  return {{"two", FuzzWriter().Byte(0).Bytes(two).Bytes("abcdef").Take()},
          {"overlap", FuzzWriter()
                          .Byte(0)
                          .Bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})")
                          .Bytes("abc")
                          .Take()},
          {"bomb", FuzzWriter().Byte(1).Put(uint64_t{1} << 40).Bytes("{}").Take()},
          {"empty", FuzzWriter().Byte(1).Put(uint64_t{2}).Bytes("{}").Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const std::string bytes = FileOf(input);
  const int file = memfd_create("safetensors", MFD_CLOEXEC);
  LH_CHECK(
      file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
      "memory takes a file");
  const absl::Cleanup close_file = [file] { close(file); };
  const auto opened = SafetensorsFile::Open(absl::StrCat("/proc/self/fd/", file));
  CheckDocumented(opened.status(), {absl::StatusCode::kInvalidArgument});
  if (opened.ok()) CheckFile(*opened);
  return 0;
}

}  // namespace longhaul::fuzz::safetensors_fuzz
