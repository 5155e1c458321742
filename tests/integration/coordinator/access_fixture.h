// A coordinator with certificates, tokens and an audit log, and clients of each kind.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "openssl/sha.h"
#include "tests/integration/coordinator/any_call.h"
#include "tests/integration/coordinator/coordinator_fixture.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tcp.h"

namespace longhaul {

inline constexpr char kHealth[] = "grpc.health.v1.Health";
inline constexpr char kReflection[] = "grpc.reflection.v1alpha.ServerReflection";
inline constexpr const char* kViewerToken = "viewer-0123456789abcdef";
inline constexpr const char* kSubmitterToken = "submitter-0123456789abcdef";
inline constexpr const char* kOtherToken = "other-0123456789abcdef";
inline constexpr const char* kAdminToken = "admin-0123456789abcdef";
inline constexpr const char* kNobodysToken = "nobody-0123456789abcdef";

inline std::string TokenLine(const std::string& name, const std::string& role,
                             const std::string& token) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::StrCat(name, " ", role, " sha256:", absl::BytesToHexString(digest), "\n");
}

inline bool IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

// Writes a file as ReadSecretFile requires it.
inline void WriteSecret(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms(0600));
}

class AccessTest : public CoordinatorFixture {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = CoordinatorFixture::Options();
    WriteSecret(tokens_, TokenLine("ann", "viewer", kViewerToken) +
                             TokenLine("bob", "submitter", kSubmitterToken) +
                             TokenLine("dan", "submitter", kOtherToken) +
                             TokenLine("root", "admin", kAdminToken));
    options.tls = Load("server", "DNS:localhost,IP:127.0.0.1");
    if (with_tokens_) options.tokens_file = tokens_;
    options.allow_token_only = with_tokens_ && token_only_;
    options.audit_log = audit_;
    options.http_listen = "127.0.0.1:0";
    options.calls_per_second = calls_per_second_;
    return options;
  }
  std::shared_ptr<const Tls> Load(const std::string& name, const std::string& hosts) {
    const std::string folder = files_.Join(name);
    std::filesystem::create_directory(folder);
    const TlsFiles files =
        WriteTlsFiles(folder, authority_.certificate(), authority_.Issue(name, hosts));
    auto tls = Tls::Load(files);
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *std::move(tls);
  }
  std::shared_ptr<grpc::Channel> Dial(std::shared_ptr<const Tls> tls) {
    return MakeChannel({.address = address(), .tls = std::move(tls)});
  }
  // A channel that shows no certificate.
  std::shared_ptr<grpc::Channel> Anybody() {
    const std::string ca = files_.Join("ca-alone.pem");
    std::ofstream(ca) << authority_.certificate();
    return Dial(*Tls::LoadAuthorities(ca));
  }
  std::shared_ptr<grpc::Channel> SiteA() { return Dial(Load("site-a", "DNS:site-a")); }

  // "/service/method" for all services that the server has.
  std::vector<std::string> Methods() {
    const auto services = ListServices(Anybody(), kViewerToken);
    EXPECT_TRUE(services.ok()) << services.status();
    std::vector<std::string> methods;
    for (const std::string& name : services.value_or(std::vector<std::string>())) {
      const auto* service =
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
      // gRPC's own services have no descriptors here.
      if (service == nullptr) {
        EXPECT_TRUE(name == kHealth || name == kReflection) << name;
        methods.push_back(
            absl::StrCat("/", name, name == kHealth ? "/Check" : "/ServerReflectionInfo"));
        continue;
      }
      for (int i = 0; i < service->method_count(); ++i)
        methods.push_back(absl::StrCat("/", name, "/", service->method(i)->name()));
    }
    EXPECT_GE(methods.size(), 16u);
    return methods;
  }

  std::string Get(const std::string& path, const std::string& authorization = "") {
    const std::string at = server_->http_address();
    return HttpGet(std::stoi(at.substr(at.rfind(':') + 1)), path, authorization);
  }
  // All pages of the server, as it names them to a stranger.
  std::vector<std::string> Paths() {
    const std::string answer = Get("/nowhere");
    const size_t here = answer.find("the pages are ");
    EXPECT_NE(here, std::string::npos) << answer;
    return absl::StrSplit(answer.substr(std::min(answer.size(), here + 14)), absl::ByAnyChar(" \n"),
                          absl::SkipEmpty());
  }
  std::string Audited() const {
    std::ostringstream text;
    text << std::ifstream(audit_).rdbuf();
    return text.str();
  }

  // The lines of calls that began, and of those that ended.
  std::pair<std::vector<std::string>, std::vector<std::string>> BegunAndEnded() const {
    std::pair<std::vector<std::string>, std::vector<std::string>> lines;
    const std::string text = Audited();
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
      (absl::StrContains(line, "\"BEGUN\"") ? lines.first : lines.second).emplace_back(line);
    return lines;
  }

  const TestAuthority authority_{"ours"};
  const TempDir files_;
  const std::string tokens_ = files_.Join("tokens"), audit_ = files_.Join("audit.jsonl");
  bool with_tokens_ = true;
  // Most tests call without a certificate: nothing but the door keeps them out then.
  bool token_only_ = true;
  double calls_per_second_ = 0;
};

}  // namespace longhaul
