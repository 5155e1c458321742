// Which callers are accepted: tests every method of every service that the coordinator's own
// reflection names, and its pages. A new method is tested without a change here.
#include <unistd.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/access/methods.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "longhaul/v1/upload.pb.h"
#include "tests/integration/coordinator/access_fixture.h"

namespace longhaul {
namespace {

using coordinator::FindMethod;
using coordinator::MethodRule;
using coordinator::Need;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A request of the method that names this pool. Empty if the method names no pool.
std::string RequestNaming(const std::string& method, const std::string& pool) {
  using google::protobuf::FieldDescriptor;
  // For a reader, `pool` only says which lines it wants.
  if (method == "/longhaul.v1.LogService/FollowLogs") return "";
  const std::vector<std::string> parts = absl::StrSplit(method.substr(1), '/');
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(parts[0]);
  if (service == nullptr) return "";
  const auto* type = service->FindMethodByName(parts[1])->input_type();
  const std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  google::protobuf::Message* named = request.get();
  if (const FieldDescriptor* header = type->FindFieldByName("header"))
    named = request->GetReflection()->MutableMessage(named, header);
  const auto set = [named](const char* name, const auto& value) {
    const FieldDescriptor* field = named->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return false;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int>) {
      named->GetReflection()->SetInt32(named, field, value);
    } else {
      named->GetReflection()->SetString(named, field, value);
    }
    return true;
  };
  if (!set("pool", pool)) return "";
  set("incarnation", std::string("0123456789abcdef"));
  set("ranks", 1);
  set("job_id", std::string("a-job"));
  if (auto* header = dynamic_cast<v1::PushHeader*>(named)) {
    header->set_version(1);
    header->set_kind(v1::OUTER);
    header->set_codec(v1::FP32);
    header->set_payload_bytes(512);
    header->set_weight(1);
    v1::BlockRange& range = *header->add_blocks();
    range.set_count(1);
  }
  if (auto* pull = dynamic_cast<v1::PullRequest*>(named)) pull->add_blocks()->set_count(1);
  return request->SerializeAsString();
}

TEST_F(AccessTest, EveryMethodIsDeclaredAndEveryDeclarationIsAMethod) {
  const std::vector<std::string> methods = Methods();
  std::set<absl::string_view> used;
  for (const std::string& method : methods) {
    const MethodRule* rule = FindMethod(method);
    ASSERT_NE(rule, nullptr) << method << " is not in coordinator/access/methods.cc";
    used.insert(rule->method);
    const bool names_pool = !RequestNaming(method, "a").empty();
    EXPECT_EQ(rule->need == Need::kPool, names_pool) << method;
    EXPECT_TRUE(rule->need != Need::kNothing || absl::StrContains(method, kHealth)) << method;
  }
  EXPECT_EQ(used.size(), coordinator::MethodRules().size());
  EXPECT_EQ(FindMethod("/longhaul.v1.JobService/Undeclared"), nullptr);
}

TEST_F(AccessTest, WithoutCredentialsEveryMethodIsRefused) {
  const auto anybody = Anybody();
  // forgetful_handler_test shows what this finds.
  EXPECT_THAT(NotRefused(anybody, Methods(), ""),
              ElementsAre(absl::StrCat("/", kHealth, "/Check")));
  for (const std::string& method : Methods()) {
    for (const char* token : {"", kNobodysToken}) {
      const absl::Status status = CallAny(anybody, method, "", token);
      if (absl::StrContains(method, kHealth)) {
        EXPECT_FALSE(IsRefusal(status)) << status;
        continue;
      }
      EXPECT_TRUE(absl::IsUnauthenticated(status)) << method << ": " << status;
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kNobodysToken)));
      // Not a handler of ours.
      if (absl::StrContains(method, kReflection)) continue;
      const bool pool = FindMethod(method)->need == Need::kPool;
      EXPECT_EQ(ReasonOf(status), pool             ? "CERTIFICATE_NEEDED"
                                  : *token == '\0' ? "TOKEN_NEEDED"
                                                   : "TOKEN_UNKNOWN")
          << method;
      EXPECT_FALSE(ErrorInfoOf(status)->metadata.at("hint").empty()) << method;
      EXPECT_EQ(ErrorInfoOf(status)->metadata.contains("field"), !pool) << method;
    }
  }
}

TEST_F(AccessTest, WithATooSmallRoleEveryMethodIsRefused) {
  const auto anybody = Anybody();
  for (const std::string& method : Methods()) {
    const MethodRule* rule = FindMethod(method);
    ASSERT_NE(rule, nullptr);
    const absl::Status viewer = CallAny(anybody, method, "", kViewerToken);
    const absl::Status submitter = CallAny(anybody, method, "", kSubmitterToken);
    switch (rule->need) {
      case Need::kNothing:
      case Need::kViewer:
        EXPECT_FALSE(IsRefusal(viewer)) << method << ": " << viewer;
        EXPECT_FALSE(IsRefusal(submitter)) << method << ": " << submitter;
        break;
      case Need::kSubmitter:
        EXPECT_TRUE(absl::IsPermissionDenied(viewer)) << method << ": " << viewer;
        EXPECT_THAT(std::string(viewer.message()), HasSubstr("needs the role submitter"));
        EXPECT_EQ(ReasonOf(viewer), "ROLE_TOO_SMALL") << method;
        EXPECT_THAT(ErrorInfoOf(viewer)->metadata.at("hint"), HasSubstr("submitter"));
        EXPECT_FALSE(IsRefusal(submitter)) << method << ": " << submitter;
        break;
      case Need::kAdmin:
        EXPECT_TRUE(absl::IsPermissionDenied(viewer)) << method << ": " << viewer;
        EXPECT_TRUE(absl::IsPermissionDenied(submitter)) << method << ": " << submitter;
        break;
      // A token is not a pool's certificate.
      case Need::kPool:
        EXPECT_TRUE(absl::IsUnauthenticated(submitter)) << method << ": " << submitter;
        EXPECT_THAT(std::string(submitter.message()), HasSubstr("certificate"));
    }
  }
}

// The log reads requests, of which some handlers get the bytes: a wrong rule ends the program here.
TEST_F(AccessTest, EveryAuditedMethodHasALine) {
  const auto anybody = Anybody(), site_a = SiteA();
  int audited = 0;
  for (const std::string& method : Methods()) {
    const MethodRule* rule = FindMethod(method);
    if (rule == nullptr || !rule->audited) continue;
    ++audited;
    if (rule->need == Need::kPool) {
      (void)CallAny(site_a, method, RequestNaming(method, "site-a"), "");
    } else {
      (void)CallAny(anybody, method, "", kAdminToken);
    }
    EXPECT_THAT(Audited(), HasSubstr(absl::StrCat("\"", method.substr(1), "\""))) << method;
  }
  EXPECT_GE(audited, 8);
}

TEST_F(AccessTest, APoolActsForItselfAlone) {
  const auto site_a = SiteA();
  int pool_methods = 0;
  for (const std::string& method : Methods()) {
    if (RequestNaming(method, "site-b").empty()) {
      // A certificate of a pool does not make the caller a user.
      if (FindMethod(method)->need != Need::kNothing) {
        EXPECT_TRUE(absl::IsUnauthenticated(CallAny(site_a, method, "", ""))) << method;
      }
      continue;
    }
    ++pool_methods;
    const absl::Status other = CallAny(site_a, method, RequestNaming(method, "site-b"), "");
    EXPECT_TRUE(absl::IsPermissionDenied(other)) << method << ": " << other;
    EXPECT_EQ(ReasonOf(other), "NOT_THIS_POOL") << method;
    EXPECT_THAT(ErrorInfoOf(other)->metadata.at("hint"), HasSubstr("site-b")) << method;
    const absl::Status itself = CallAny(site_a, method, RequestNaming(method, "site-a"), "");
    EXPECT_FALSE(IsRefusal(itself)) << method << ": " << itself;
  }
  EXPECT_GE(pool_methods, 7);
}

TEST_F(AccessTest, AnUnknownMethodIsNamedToThoseWhoAreLetIn) {
  const absl::Status known = CallAny(Anybody(), "/longhaul.v1.JobService/Frob", "", kViewerToken);
  EXPECT_TRUE(absl::IsUnimplemented(known)) << known;
  EXPECT_THAT(std::string(known.message()), HasSubstr("same version"));
  const absl::Status stranger = CallAny(Anybody(), "/longhaul.v1.JobService/Frob", "", "");
  EXPECT_TRUE(absl::IsUnauthenticated(stranger)) << stranger;
}

TEST_F(AccessTest, PagesAreClosedButForProbesAndTheirFrame) {
  const std::set<std::string> open = {"/healthz", "/readyz", "/", "/status.css", "/status.js"};
  std::set<std::string> seen;
  for (const std::string& path : Paths()) {
    seen.insert(path);
    if (open.contains(path)) {
      EXPECT_THAT(Get(path), HasSubstr(" 200 ")) << path;
      continue;
    }
    for (const std::string authorization :
         {"", "Basic YTpi", "Bearer", "Bearer nobody-0123456789abcdef"}) {
      const std::string answer = Get(path, authorization);
      EXPECT_THAT(answer, HasSubstr(" 401 ")) << path << " " << authorization;
      EXPECT_THAT(answer, HasSubstr("WWW-Authenticate: Bearer"));
    }
    // The token of a query counts for nothing.
    EXPECT_THAT(Get(absl::StrCat(path, "?token=", kAdminToken)), HasSubstr(" 401 ")) << path;
    EXPECT_THAT(Get(path, absl::StrCat("Bearer ", kViewerToken)), Not(HasSubstr(" 401 "))) << path;
  }
  EXPECT_THAT(seen, ::testing::IsSupersetOf(open));
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"/metrics", "/api/v1/overview", "/api/v1/job"}));
}

TEST_F(AccessTest, WhatChangesSomethingIsAudited) {
  const auto anybody = Anybody();
  const auto site_a = SiteA();
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = Spec("told");
  const std::string request = submit.SerializeAsString();
  EXPECT_EQ(CallAny(anybody, "/longhaul.v1.JobService/SubmitJob", request, kSubmitterToken),
            absl::OkStatus());
  (void)CallAny(anybody, "/longhaul.v1.JobService/SubmitJob", request, kViewerToken);
  (void)CallAny(site_a, "/longhaul.v1.PoolService/Join",
                RequestNaming("/longhaul.v1.PoolService/Join", "site-b"), "");
  (void)CallAny(anybody, "/longhaul.v1.JobService/ListJobs", "", kViewerToken);
  const auto [begun, lines] = BegunAndEnded();
  ASSERT_EQ(lines.size(), 3u) << Audited();
  EXPECT_THAT(lines[0], HasSubstr(R"("who":"token:bob")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("method":"longhaul.v1.JobService/SubmitJob","job":"told")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("result":"OK")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("peer":"ipv4:127.0.0.1:)"));
  EXPECT_THAT(lines[1], HasSubstr(R"("who":"token:ann")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("job":"told","pool":"","result":"PERMISSION_DENIED")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("peer":"ipv4:127.0.0.1:)"));
  EXPECT_THAT(lines[2], HasSubstr(R"("who":"certificate:site-a")"));
  EXPECT_THAT(lines[2], HasSubstr(R"("pool":"site-b","result":"PERMISSION_DENIED")"));
  // The call that the rules refuse does not begin, and a pool's has one line.
  ASSERT_EQ(begun.size(), 1u) << Audited();
  EXPECT_THAT(begun[0], HasSubstr(R"("who":"token:bob")"));
  EXPECT_THAT(begun[0], HasSubstr(R"("job":"told")"));
  for (const char* token : {kViewerToken, kSubmitterToken}) {
    EXPECT_THAT(Audited(), Not(HasSubstr(token)));
    EXPECT_THAT(log_.str(), Not(HasSubstr(token)));
    EXPECT_THAT(Get("/metrics", absl::StrCat("Bearer ", kViewerToken)), Not(HasSubstr(token)));
  }
}

// Its handler takes serialized messages.
TEST_F(AccessTest, AnUploadIsAuditedWithItsName) {
  const auto anybody = Anybody();
  const std::string method = "/longhaul.v1.UploadService/UploadFile";
  v1::UploadFileRequest first;
  first.set_upload("not-prepared");
  EXPECT_TRUE(
      absl::IsNotFound(CallAny(anybody, method, first.SerializeAsString(), kSubmitterToken)));
  EXPECT_TRUE(absl::IsInvalidArgument(CallAny(anybody, method, "\xff", kSubmitterToken)));
  const auto [begun, lines] = BegunAndEnded();
  ASSERT_EQ(lines.size(), 2u) << Audited();
  EXPECT_THAT(lines[0], HasSubstr(R"("result":"NOT_FOUND")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("upload":"not-prepared")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("result":"INVALID_ARGUMENT")"));
  EXPECT_THAT(lines[1], Not(HasSubstr("\"upload\"")));
  ASSERT_EQ(begun.size(), 2u) << Audited();
  EXPECT_THAT(begun[0], HasSubstr(R"("upload":"not-prepared")"));
}

TEST_F(AccessTest, AJobIsChangedByItsOwnerAndByAdmins) {
  const auto anybody = Anybody();
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = Spec("bobs");
  std::string answer;
  (void)CallAny(anybody, "/longhaul.v1.JobService/SubmitJob", submit.SerializeAsString(),
                kSubmitterToken, &answer);
  v1::SubmitJobResponse submitted;
  ASSERT_TRUE(submitted.ParseFromString(answer));
  EXPECT_EQ(submitted.job().owner(), "token:bob");
  // The other requests have `job` as their first field, too.
  v1::CancelJobRequest request;
  request.set_job("bobs");
  for (const char* method :
       {"CreateCheckpoint", "PauseJob", "ResumeJob", "CancelJob", "DeleteJob"}) {
    const std::string path = absl::StrCat("/longhaul.v1.JobService/", method);
    const absl::Status other = CallAny(anybody, path, request.SerializeAsString(), kOtherToken);
    EXPECT_TRUE(absl::IsPermissionDenied(other)) << method << ": " << other;
    EXPECT_EQ(ReasonOf(other), "NOT_YOUR_JOB") << method;
    EXPECT_EQ(ErrorInfoOf(other)->metadata.at("owner"), "token:bob");
    EXPECT_FALSE(ErrorInfoOf(other)->metadata.at("hint").empty());
  }
  // The report says who paused it.
  (void)CallAny(anybody, "/longhaul.v1.JobService/PauseJob", request.SerializeAsString(),
                kSubmitterToken, &answer);
  v1::PauseJobResponse paused;
  ASSERT_TRUE(paused.ParseFromString(answer));
  EXPECT_EQ(paused.job().state(), v1::PAUSED);
  EXPECT_EQ(paused.job().pause().by(), "token:bob");
  (void)CallAny(anybody, "/longhaul.v1.JobService/ResumeJob", request.SerializeAsString(),
                kAdminToken, &answer);
  v1::ResumeJobResponse resumed;
  ASSERT_TRUE(resumed.ParseFromString(answer));
  EXPECT_EQ(resumed.job().state(), v1::PENDING);
  EXPECT_FALSE(resumed.job().has_pause());
  const std::string cancel = "/longhaul.v1.JobService/CancelJob";
  EXPECT_EQ(CallAny(anybody, cancel, request.SerializeAsString(), kSubmitterToken),
            absl::OkStatus());
  EXPECT_EQ(CallAny(anybody, cancel, request.SerializeAsString(), kAdminToken), absl::OkStatus());
  const std::string remove = "/longhaul.v1.JobService/DeleteJob";
  EXPECT_EQ(CallAny(anybody, remove, request.SerializeAsString(), kAdminToken), absl::OkStatus());
  // A job that is gone belongs to no user.
  EXPECT_EQ(CallAny(anybody, remove, request.SerializeAsString(), kOtherToken), absl::OkStatus());
}

class RateTest : public AccessTest {
 protected:
  // Two calls, then none for a quarter of an hour.
  RateTest() { calls_per_second_ = 0.001; }
};

TEST_F(RateTest, WhoCallsTooOftenIsToldSoAndNobodyElse) {
  const auto anybody = Anybody();
  const std::string method = "/longhaul.v1.JobService/ListJobs";
  absl::Status status;
  for (int i = 0; i < 3; ++i) status = CallAny(anybody, method, "", kViewerToken);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("token:ann makes more than"));
  EXPECT_EQ(ReasonOf(status), "TOO_MANY_CALLS");
  EXPECT_TRUE(RetryDelayOf(status).has_value());
  EXPECT_EQ(CallAny(anybody, method, "", kSubmitterToken), absl::OkStatus());
}

class CertificatesAloneTest : public AccessTest {
 protected:
  CertificatesAloneTest() { with_tokens_ = false; }
};

TEST_F(CertificatesAloneTest, WithoutACertificateNoConnectionIsMade) {
  const auto anybody = Anybody();
  for (const MethodRule& rule : coordinator::MethodRules()) {
    const absl::Status status = CallAny(anybody, std::string(rule.method), "", kViewerToken);
    EXPECT_TRUE(absl::IsUnavailable(status)) << rule.method << ": " << status;
  }
}

TEST_F(CertificatesAloneTest, ACertificateIsAUserAndOnePoolAtMost) {
  const auto site_a = SiteA();
  EXPECT_EQ(CallAny(site_a, "/longhaul.v1.JobService/ListJobs", "", ""), absl::OkStatus());
  const std::string join = "/longhaul.v1.PoolService/Join";
  EXPECT_EQ(CallAny(site_a, join, RequestNaming(join, "site-a"), ""), absl::OkStatus());
  EXPECT_EQ(ReasonOf(CallAny(site_a, join, RequestNaming(join, "site-b"), "")), "NOT_THIS_POOL");
  const auto user = Dial(Load("carol", "email:carol@example.org"));
  EXPECT_EQ(CallAny(user, "/longhaul.v1.JobService/ListJobs", "", ""), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnauthenticated(CallAny(user, join, RequestNaming(join, "carol"), "")));
}

class TokensAndCertificatesTest : public AccessTest {
 protected:
  TokensAndCertificatesTest() { token_only_ = false; }
};

TEST_F(TokensAndCertificatesTest, ATokenAloneIsNotEnoughUnlessTheServerSaysSo) {
  const auto anybody = Anybody();
  for (const MethodRule& rule : coordinator::MethodRules()) {
    const absl::Status status = CallAny(anybody, std::string(rule.method), "", kAdminToken);
    EXPECT_TRUE(absl::IsUnavailable(status)) << rule.method << ": " << status;
  }
  const std::string list = "/longhaul.v1.JobService/ListJobs";
  EXPECT_TRUE(CallAny(SiteA(), list, "", kViewerToken).ok());
  EXPECT_EQ(ReasonOf(CallAny(SiteA(), list, "", "")), "TOKEN_NEEDED");
}

}  // namespace
}  // namespace longhaul
