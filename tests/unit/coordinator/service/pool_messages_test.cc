#include "coordinator/service/pool_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/rpc/status_details.h"
#include "grpcpp/server_context.h"

namespace longhaul::coordinator {
namespace {

v1::JoinRequest Join() {
  v1::JoinRequest request;
  request.set_pool("site-a");
  request.set_incarnation("0123456789abcdef");
  request.set_ranks(1);
  request.set_host("gpu-1.example.org");
  request.set_version("0.1.0 (\"a\\b\")");
  return request;
}

TEST(PoolMessagesTest, TextsOfAPoolDriveNoTerminal) {
  const grpc::CallbackServerContext call;
  const PoolCaller caller(call, /*certificates=*/false);
  EXPECT_TRUE(CheckJoin(caller, Join()).ok()) << CheckJoin(caller, Join());
  for (const std::string& bad :
       std::vector<std::string>{"h\x1b[2J", "h\x07", "two\nlines", "tab\t", "\x7f", "\xff",
                                "\xe2\x80\xae", std::string(300, 'x')}) {
    for (const char* field : {"host", "version"}) {
      v1::JoinRequest request = Join();
      const auto* named = v1::JoinRequest::descriptor()->FindFieldByName(field);
      request.GetReflection()->SetString(&request, named, bad);
      const absl::Status status = CheckJoin(caller, request);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << status;
      ASSERT_EQ(FieldViolationsOf(status).size(), 1u);
      EXPECT_EQ(FieldViolationsOf(status)[0].field, field);
    }
  }
}

TEST(PoolMessagesTest, FiguresOfAPoolAreChecked) {
  const grpc::CallbackServerContext call;
  const PoolCaller caller(call, /*certificates=*/false);
  v1::JoinRequest request = Join();
  request.mutable_figures()->set_threads(2);
  request.mutable_figures()->set_ranks(1);
  request.mutable_figures()->add_gemm()->set_dim(96);
  request.mutable_figures()->mutable_gemm(0)->set_gigaflops(50);
  EXPECT_TRUE(CheckJoin(caller, request).ok()) << CheckJoin(caller, request);
  request.mutable_figures()->mutable_gemm(0)->set_gigaflops(-1);
  const absl::Status status = CheckJoin(caller, request);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  ASSERT_EQ(FieldViolationsOf(status).size(), 1u);
  EXPECT_EQ(FieldViolationsOf(status)[0].field, "figures.gemm[0].gigaflops");
}

}  // namespace
}  // namespace longhaul::coordinator
