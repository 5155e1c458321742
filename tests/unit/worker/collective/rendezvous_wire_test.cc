#include "worker/collective/rendezvous_wire.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(RendezvousWireTest, RequestSurvivesTheWire) {
  const std::string bytes =
      EncodeRequest("secret", {.generation = 7, .rank = 3, .blob = "address"});
  const auto request = DecodeRequest(bytes, "secret");
  ASSERT_TRUE(request.ok() && request->has_value());
  EXPECT_EQ((*request)->generation, 7);
  EXPECT_EQ((*request)->rank, 3);
  EXPECT_EQ((*request)->blob, "address");
}

TEST(RendezvousWireTest, EveryPrefixOfARequestAsksForMore) {
  const std::string bytes = EncodeRequest("secret", {.blob = "address"});
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto request = DecodeRequest(bytes.substr(0, length), "secret");
    ASSERT_TRUE(request.ok()) << length;
    EXPECT_FALSE(request->has_value()) << length;
  }
}

TEST(RendezvousWireTest, RefusesAWrongTokenBeforeTheRestArrives) {
  const std::string bytes = EncodeRequest("secret", {.blob = "address"}).substr(0, 72);
  EXPECT_TRUE(absl::IsUnauthenticated(DecodeRequest(bytes, "other").status()));
  EXPECT_TRUE(absl::IsUnauthenticated(DecodeRequest(std::string(72, 'G'), "secret").status()));
}

TEST(RendezvousWireTest, RefusesABlobAboveTheBoundFromItsHeaderAlone) {
  std::string bytes = EncodeRequest("secret", {.blob = ""});
  bytes[bytes.size() - 1] = 0x7f;  // the highest byte of its size
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeRequest(bytes, "secret").status()));
}

TEST(RendezvousWireTest, RefusesBytesAfterTheRequest) {
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeRequest(EncodeRequest("s", {}) + "x", "s").status()));
}

TEST(RendezvousWireTest, ReplySurvivesTheWireByteByByte) {
  const std::vector<std::string> blobs = {"a", "", "ccc"};
  const std::string bytes = EncodeReply(blobs);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeReply(bytes.substr(0, length), 3).has_value()) << length;
  }
  const auto reply = DecodeReply(bytes, 3);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(**reply, blobs);
}

TEST(RendezvousWireTest, ErrorReplyKeepsCodeAndMessage) {
  const auto reply = DecodeReply(EncodeReply(absl::AlreadyExistsError("twice")), 3);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status(), absl::AlreadyExistsError("twice"));
}

TEST(RendezvousWireTest, RefusesAReplyOfAnotherSizeOrAboveTheBounds) {
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeReply(EncodeReply(std::vector<std::string>{"a"}), 2)->status()));
  std::string huge = EncodeReply(std::vector<std::string>{""});
  huge[huge.size() - 1] = 0x7f;
  EXPECT_TRUE(absl::IsDataLoss(DecodeReply(huge, 1)->status()));
}

}  // namespace
}  // namespace longhaul
