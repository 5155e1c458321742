#include "common/rpc/status_conversion.h"

#include <string>

#include "common/rpc/status_details.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(StatusConversionTest, EveryCodeAndMessageSurvivesARoundTrip) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "why");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  }
}

TEST(StatusConversionTest, DetailsSurviveARoundTrip) {
  absl::Status status = BadRequestError({{"x", "y"}});
  status = WithErrorInfo(status, {"REASON", {{"fragment", "3"}}});
  status = WithRetryDelay(status, absl::Seconds(2));
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
}

TEST(StatusConversionTest, ALargeDetailIsLeftOutAndTheStatusRemains) {
  const absl::Status status =
      WithErrorInfo(absl::AbortedError("why"), {"REASON", {{"long", std::string(5000, 'x')}}});
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), absl::AbortedError("why"));
}

TEST(StatusConversionTest, ALongMessageIsCutBetweenCharacters) {
  const absl::Status status = absl::AbortedError(std::string(1023, 'x') + "\xc3\xa9");
  EXPECT_EQ(ToGrpcStatus(status).error_message(), std::string(1023, 'x'));
}

TEST(StatusConversionTest, GrpcsMessagesAboutConnectionsBecomePlainWords) {
  const auto words = [](const char* message) {
    return std::string(
        FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, message)).message());
  };
  EXPECT_EQ(
      words("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed "
            "to connect to remote host: Connection refused"),
      "cannot connect to 127.0.0.1:1: Connection refused");
  EXPECT_EQ(
      words("failed to connect to all addresses; last error: UNAVAILABLE: ipv6:%5B::1%5D:7070: "
            "Socket closed"),
      "cannot connect to [::1]:7070: Socket closed");
  EXPECT_EQ(words("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7071: "
                  "Failed parsing HTTP/2"),
            "cannot connect to 127.0.0.1:7071: the server there does not use gRPC (a status page "
            "or metrics?)");
  EXPECT_EQ(words("failed to connect to all addresses"), "cannot connect");
  EXPECT_EQ(words("DNS resolution failed for hub:7070: C-ares status is not ARES_SUCCESS qtype=A "
                  "name=hub is_balancer=0: Domain name not found"),
            "cannot find the address of hub:7070: Domain name not found");
  EXPECT_EQ(words("DNS resolution failed for "), "cannot find the address of ");
  EXPECT_EQ(words("Socket closed"), "the connection broke");
  EXPECT_EQ(words("recvmsg:Connection reset by peer"), "Connection reset by peer");
  EXPECT_EQ(words("failed to connect to all addresses; last error: UNAVAILABLE: ipv4:10.0.0.7:1: "
                  "recvmsg:Connection reset by peer"),
            "cannot connect to 10.0.0.7:1: Connection reset by peer");
  EXPECT_EQ(words("the coordinator is shutting down"), "the coordinator is shutting down");
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::INTERNAL, "Socket closed")).message(),
            "Socket closed");
  const auto late = [](const char* message) {
    return std::string(
        FromGrpcStatus(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, message)).message());
  };
  EXPECT_EQ(late("Deadline Exceeded"), "no answer in time");
  EXPECT_EQ(late("the stream made no progress"), "the stream made no progress");
}

TEST(StatusConversionTest, TellsASilentConnectionFromOneThatBroke) {
  const auto convert = [](const char* message) {
    return FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, message));
  };
  for (const char* silent : {"keepalive watchdog timeout", "recvmsg:Connection timed out"}) {
    EXPECT_TRUE(WasSilent(convert(silent)));
    EXPECT_EQ(convert(silent).message(), "the connection was silent");
  }
  EXPECT_FALSE(WasSilent(convert("Socket closed")));
  EXPECT_FALSE(WasSilent(absl::OkStatus()));
}

TEST(StatusConversionTest, APageOfAWebServerIsNoAnswerOfTheServer) {
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                                        "Received http2 header with status: 404")),
            absl::UnavailableError(
                "a web server or proxy answered (HTTP status 404), which does not forward gRPC"));
}

TEST(StatusConversionTest, AnUnknownCodeBecomesUnknown) {
  // Within the values that the type has room for.
  const grpc::Status status(static_cast<grpc::StatusCode>(20), "odd");
  EXPECT_EQ(FromGrpcStatus(status), absl::UnknownError("odd"));
}

TEST(StatusConversionTest, DetailsThatDoNotParseAreLeftOut) {
  const grpc::Status status(grpc::StatusCode::ABORTED, "why", "\xff\xff not a message");
  EXPECT_EQ(FromGrpcStatus(status), absl::AbortedError("why"));
}

}  // namespace
}  // namespace longhaul
