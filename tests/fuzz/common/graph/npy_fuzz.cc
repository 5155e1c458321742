// Headers of .npy files.
//   input: u8 1: a whole file; 0: one without its first ten bytes, which are made
#include "absl/strings/str_cat.h"
#include "common/graph/npy.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::npy_fuzz {
namespace {

// The header ends with the last brace.
std::string FileOf(FuzzInput& input) {
  const bool given = input.Flag();
  const std::string rest(input.Rest());
  if (given) return rest;
  const size_t end = std::min(rest.rfind('}') + 1, rest.size());
  const auto size = static_cast<uint16_t>(end);
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\0", 8),
                      absl::string_view(reinterpret_cast<const char*>(&size), 2), rest);
}

}  // namespace

std::vector<Seed> Seeds() {
  return {{"floats", FuzzWriter().Byte(1).Bytes(WriteNpyHeader(NpyType::kFloat32, {3, 4})).Take()},
          {"bools", FuzzWriter().Byte(1).Bytes(WriteNpyHeader(NpyType::kBool, {7})).Take()},
          {"big_endian", FuzzWriter()
                             .Byte(0)
                             .Bytes("{'descr': '>i8', 'fortran_order': False, 'shape': (2,), }")
                             .Take()},
          {"fortran", FuzzWriter()
                          .Byte(0)
                          .Bytes("{'descr': '<i8', 'fortran_order': True, 'shape': (2L, 3L), }")
                          .Take()},
          {"structures",
           FuzzWriter()
               .Byte(0)
               .Bytes("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,), }")
               .Take()},
          {"large", FuzzWriter()
                        .Byte(0)
                        .Bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, "
                               "4294967296), }")
                        .Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const std::string bytes = FileOf(input);
  const auto header = ParseNpyHeader("a.npy", bytes);
  CheckDocumented(header.status(), {absl::StatusCode::kInvalidArgument});
  if (!header.ok()) return 0;
  LH_CHECK(header->data <= static_cast<int64_t>(bytes.size()), "the header is in the file");
  LH_CHECK(header->elements >= 0 && header->bytes() >= 0, "sizes do not overflow");
  if (header->shape.size() <= 2) {
    const auto again = ParseNpyHeader("a.npy", WriteNpyHeader(header->type, header->shape));
    LH_CHECK(again.ok() && again->shape == header->shape && again->type == header->type &&
                 again->elements == header->elements,
             "what was read can be written");
  }
  CheckDocumented(CheckNpySize("a.npy", *header, static_cast<int64_t>(bytes.size())),
                  {absl::StatusCode::kInvalidArgument});
  return 0;
}

}  // namespace longhaul::fuzz::npy_fuzz
