// What a coordinator reports about itself, and `longhaul doctor` with a real one.
#include "coordinator/service/server_service.h"

#include <sstream>

#include "absl/strings/match.h"
#include "longhaul/v1/server.grpc.pb.h"
#include "tests/integration/coordinator/coordinator_fixture.h"

namespace longhaul {
namespace {

class ServerServiceTest : public CoordinatorFixture {
 protected:
  absl::Status Probe(int up, int down, v1::ProbeResponse* response) {
    grpc::ClientContext context;
    v1::ProbeRequest request;
    request.set_payload(std::string(up, 'x'));
    request.set_answer_bytes(down);
    return FromGrpcStatus(Stub()->Probe(&context, request, response));
  }
  std::unique_ptr<v1::ServerService::Stub> Stub() {
    return v1::ServerService::NewStub(MakeChannel({.address = address()}));
  }
};

TEST_F(ServerServiceTest, DescribesTheServer) {
  grpc::ClientContext context;
  v1::DescribeResponse response;
  ASSERT_TRUE(Stub()->Describe(&context, {}, &response).ok());
  EXPECT_NE(response.version(), "");
  EXPECT_EQ(response.now().seconds(), absl::ToUnixSeconds(clock_.Now()));
  EXPECT_LE(response.started_at().seconds(), response.now().seconds());
  EXPECT_EQ(response.not_ready(), "");
  EXPECT_GT(response.disk_free_bytes(), 0);
  EXPECT_EQ(response.http_address(), server_->http_address());
}

TEST_F(ServerServiceTest, ProbesAreBounded) {
  v1::ProbeResponse response;
  EXPECT_TRUE(Probe(1 << 20, 1 << 20, &response).ok());
  EXPECT_EQ(response.payload().size(), 1u << 20);
  for (const auto& [up, down] : {std::pair(0, (1 << 20) + 1), {0, -1}, {(1 << 20) + 1, 0}}) {
    const absl::Status status = Probe(up, down, &response);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u);
  }
}

}  // namespace
}  // namespace longhaul
