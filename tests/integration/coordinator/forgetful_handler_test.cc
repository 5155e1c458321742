// A planted fault: handlers that do not ask the door whether their caller may call. The door lets
// nothing of their answers out, and the check that access_test makes of all methods finds them.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "coordinator/access/door.h"
#include "coordinator/service/refused_call.h"
#include "coordinator/service/unary.h"
#include "gmock/gmock.h"
#include "longhaul/v1/logs.grpc.pb.h"
#include "longhaul/v1/server.grpc.pb.h"
#include "tests/integration/coordinator/any_call.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using coordinator::Door;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kDescribe[] = "/longhaul.v1.ServerService/Describe";
constexpr char kProbe[] = "/longhaul.v1.ServerService/Probe";
constexpr char kFollowLogs[] = "/longhaul.v1.LogService/FollowLogs";

// Describe asks; Probe does not.
class HalfForgetful final : public v1::ServerService::CallbackService {
 public:
  explicit HalfForgetful(const Door* door) : door_(door) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest*,
                                     v1::DescribeResponse* response) override {
    LH_RETURN_IF_REFUSED(door_, context);
    response->set_version("asked");
    return coordinator::Answered(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* Probe(grpc::CallbackServerContext* context, const v1::ProbeRequest*,
                                  v1::ProbeResponse* response) override {
    response->set_payload("for nobody's eyes");
    return coordinator::Answered(context, absl::OkStatus());
  }

 private:
  const Door* const door_;
};

class ForgetfulLogs final : public v1::LogService::CallbackService {
 public:
  grpc::ServerWriteReactor<v1::FollowLogsResponse>* FollowLogs(
      grpc::CallbackServerContext*, const v1::FollowLogsRequest*) override {
    class OneLine final : public grpc::ServerWriteReactor<v1::FollowLogsResponse> {
     public:
      OneLine() {
        line_.set_text("for nobody's eyes");
        StartWriteAndFinish(&line_, {}, grpc::Status::OK);
      }
      void OnDone() override { delete this; }

     private:
      v1::FollowLogsResponse line_;
    };
    return new OneLine;
  }
};

TEST(ForgetfulHandlerTest, SendsNothingAndIsFound) {
  const TestAuthority authority("ours");
  const TempDir folder;
  const auto tls = Tls::Load(WriteTlsFiles(folder.path(), authority.certificate(),
                                           authority.Issue("somebody", "DNS:localhost")));
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto ca = Tls::LoadAuthorities(folder.Join("ca.pem"));
  ASSERT_TRUE(ca.ok()) << ca.status();

  const auto door = std::make_shared<Door>(Door::Options{});
  HalfForgetful half(door.get());
  ForgetfulLogs logs;
  const auto server = Server::Start({.tls = *tls,
                                     .client_certificates = ClientCertificates::kOptional,
                                     .door = door,
                                     .interceptors =
                                         [&] {
                                           ServerOptions::Interceptors interceptors;
                                           interceptors.push_back(door->MakeGuard());
                                           return interceptors;
                                         }},
                                    {&half, &logs});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::vector<std::string> methods = {kDescribe, kProbe, kFollowLogs};

  const auto stranger = MakeChannel({.address = (*server)->address(), .tls = *ca});
  EXPECT_THAT(NotRefused(stranger, methods, ""), ElementsAre(kProbe, kFollowLogs));
  for (const char* method : {kProbe, kFollowLogs}) {
    std::string answer;
    EXPECT_TRUE(absl::IsCancelled(CallAny(stranger, method, "", "", &answer))) << method;
    EXPECT_THAT(answer, IsEmpty()) << method;
  }

  // Who may call is answered by all three.
  const auto friends = MakeChannel({.address = (*server)->address(), .tls = *tls});
  EXPECT_THAT(NotRefused(friends, methods, ""), ElementsAre(kDescribe, kProbe, kFollowLogs));
  for (const std::string& method : methods) {
    std::string answer;
    (void)CallAny(friends, method, "", "", &answer);
    EXPECT_THAT(answer, Not(IsEmpty())) << method;
  }
}

}  // namespace
}  // namespace longhaul
