#include "coordinator/store/wire.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(WireTest, FieldsAreLittleEndianAndSurviveARoundTrip) {
  WireWriter out;
  out.U32(0x01020304);
  out.U64(5);
  out.Digest({1, 2});
  out.String("abc");
  out.Bytes("xy");
  EXPECT_EQ(out.bytes().substr(0, 4), "\x04\x03\x02\x01");
  WireReader in(out.bytes());
  EXPECT_EQ(in.U32(), 0x01020304u);
  EXPECT_EQ(in.U64(), 5u);
  EXPECT_EQ(in.Digest(), (Digest128{1, 2}));
  EXPECT_EQ(in.String(), "abc");
  EXPECT_EQ(in.rest(), "xy");
  EXPECT_TRUE(in.ok());
}

TEST(WireTest, ReadingPastTheEndGivesZerosAndSaysSo) {
  WireReader in("abc");
  EXPECT_EQ(in.U32(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.U64(), 0u);
  EXPECT_EQ(in.String(), "");
  EXPECT_FALSE(in.ok());
}

TEST(WireTest, AStringLongerThanTheRestIsNotRead) {
  WireReader in(
      absl::string_view("\xff\xff\xff\xff"
                        "abc",
                        7));
  EXPECT_EQ(in.String(), "");
  EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace longhaul
