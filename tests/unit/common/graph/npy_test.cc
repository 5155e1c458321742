#include "common/graph/npy.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_hint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

std::string NpyFile(const std::string& dict, int version = 1) {
  std::string head = "\x93NUMPY";
  head += static_cast<char>(version);
  head += '\0';
  const auto length = static_cast<uint32_t>(dict.size());
  head.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return head + dict;
}

std::string Dict(const std::string& descr, const std::string& shape,
                 const std::string& order = "False") {
  return absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape,
                      ", }  \n");
}

TEST(NpyTest, ReadsWhatNumPyWrites) {
  const auto header = ParseNpyHeader("a.npy", NpyFile(Dict("'<f4'", "(3, 4)")));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, NpyType::kFloat32);
  EXPECT_EQ(header->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(header->bytes(), 48);
  for (const int version : {2, 3}) {
    const auto later = ParseNpyHeader("a.npy", NpyFile(Dict("'|b1'", "(5,)"), version));
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_EQ(later->type, NpyType::kBool);
  }
  EXPECT_EQ(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "()")))->elements, 1);
  EXPECT_EQ(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(0, 2)")))->elements, 0);
  // A single dimension has no order.
  EXPECT_TRUE(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(4,)", "True"))).ok());
}

TEST(NpyTest, ReadsWhatItWrites) {
  for (const NpyType type : {NpyType::kBool, NpyType::kUint8, NpyType::kInt32, NpyType::kInt64,
                             NpyType::kFloat32, NpyType::kFloat64}) {
    const std::vector<int64_t> shape = {int64_t{1} << 33, 7};
    const std::string head = WriteNpyHeader(type, shape);
    EXPECT_EQ(static_cast<int64_t>(head.size()), kNpyWrittenHeader);
    const auto header = ParseNpyHeader("a.npy", head);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->type, type);
    EXPECT_EQ(header->shape, shape);
    EXPECT_EQ(header->data, kNpyWrittenHeader);
    EXPECT_EQ(NpyTypeOf(NameOf(type)), type);
  }
}

TEST(NpyTest, RefusesOtherTypesByName) {
  const std::pair<std::string, std::string> cases[] = {
      {"'>i8'", "big-endian int64"},
      {"'|O'", "object"},
      {"'<U5'", "text"},
      {"[('a', '<i4'), ('b', '<f4')]", "structures"},
      {"'<c16'", "complex"},
      {"'<M8[ns]'", "time"},
      {"'<f16'", "'<f16'"}};
  for (const auto& [descr, name] : cases) {
    const auto header = ParseNpyHeader("dir/a.npy", NpyFile(Dict(descr, "(2,)")));
    ASSERT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << descr;
    EXPECT_THAT(header.status().message(), HasSubstr("dir/a.npy"));
    EXPECT_THAT(header.status().message(), HasSubstr(name));
    EXPECT_NE(HintIn(header.status()), "");
  }
  const auto fortran = ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(2, 9)", "True")));
  EXPECT_THAT(fortran.status().message(), HasSubstr("Fortran"));
  EXPECT_THAT(HintIn(fortran.status()), HasSubstr("ascontiguousarray"));
}

TEST(NpyTest, RefusesDamagedHeaders) {
  const std::string good = NpyFile(Dict("'<i8'", "(2,)"));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(ParseNpyHeader("a.npy", good.substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const char* const shape :
       {"(9223372036854775807, 2)", "(0, 9223372036854775807, 9223372036854775807)", "(-1,)",
        "(99999999999999999999,)", "(1,1,1,1,1,1,1,1,1)", "(2", "2", "(2.5,)"})
    EXPECT_FALSE(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", shape))).ok()) << shape;
  EXPECT_FALSE(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(1152921504606846976,)"))).ok());
  EXPECT_FALSE(ParseNpyHeader("a.npy", NpyFile("{'descr': '<i8', 'shape': (2,)}")).ok());
  EXPECT_FALSE(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(2,)", "Maybe"))).ok());
  EXPECT_FALSE(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(2,)") + "x")).ok());
  EXPECT_FALSE(ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(2,)"), 4)).ok());
}

TEST(NpyTest, ComparesTheSizeOfTheFile) {
  const auto header = ParseNpyHeader("a.npy", NpyFile(Dict("'<i8'", "(2, 3)"))).value();
  EXPECT_TRUE(CheckNpySize("a.npy", header, header.data + 48).ok());
  const absl::Status cut = CheckNpySize("a.npy", header, header.data + 40);
  EXPECT_THAT(cut.message(), HasSubstr("(2, 3) of int64 has 48 bytes, the file has 40"));
  EXPECT_THAT(HintIn(cut), HasSubstr("cut"));
  EXPECT_FALSE(CheckNpySize("a.npy", header, header.data + 49).ok());
}

}  // namespace
}  // namespace longhaul
