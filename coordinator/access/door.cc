#include "coordinator/access/door.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"

namespace longhaul::coordinator {
namespace {

// gRPC's own limit of all metadata is larger.
constexpr size_t kMethodShown = 128;

std::string OnlyValue(const grpc::AuthMetadataProcessor::InputMetadata& metadata,
                      const char* name) {
  const auto [begin, end] = metadata.equal_range(name);
  if (begin == end || std::next(begin) != end) return "";
  return std::string(begin->second.data(), begin->second.size());
}

absl::Status AdmitPool(const CertificateNames& certificate) {
  if (!certificate.dns.empty()) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "only pools may call this: show a certificate whose first DNS name is the pool's "
      "(--tls-certificate and --tls-key; longhaul certs issue pool NAME)");
}

}  // namespace

std::string AuthorizationOf(const grpc::AuthMetadataProcessor::InputMetadata& metadata) {
  return OnlyValue(metadata, "authorization");
}

absl::Status Door::AdmitUser(Role least, const CertificateNames& certificate,
                             absl::string_view authorization) const {
  if (options_.tokens == nullptr) {
    if (!certificate.dns.empty() || !certificate.common.empty()) return absl::OkStatus();
    return absl::UnauthenticatedError("the certificate of this caller names nobody");
  }
  LH_ASSIGN_OR_RETURN(const User user, options_.tokens->Authenticate(authorization));
  if (user.role >= least) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(user.name, " is a ", RoleName(user.role),
                                                  "; this needs the role ", RoleName(least),
                                                  ": ask the coordinator's operator for it"));
}

absl::Status Door::Admit(absl::string_view method, const CertificateNames& certificate,
                         absl::string_view authorization, absl::Time now) {
  const MethodRule* const rule = FindMethod(method);
  const Need need = rule != nullptr ? rule->need : Need::kViewer;
  switch (need) {
    case Need::kNothing:
      return absl::OkStatus();
    case Need::kPool:
      LH_RETURN_IF_ERROR(AdmitPool(certificate));
      break;
    case Need::kViewer:
      LH_RETURN_IF_ERROR(AdmitUser(Role::kViewer, certificate, authorization));
      break;
    case Need::kSubmitter:
      LH_RETURN_IF_ERROR(AdmitUser(Role::kSubmitter, certificate, authorization));
      break;
    case Need::kAdmin:
      LH_RETURN_IF_ERROR(AdmitUser(Role::kAdmin, certificate, authorization));
      break;
  }
  if (rule == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("this coordinator has no method ", method.substr(0, kMethodShown),
                     ": bring client and coordinator to the same version"));
  }
  if (!rule->counted) return absl::OkStatus();
  const std::string who = Who(certificate, need == Need::kPool ? "" : authorization);
  const absl::Duration wait = rate_.Take(who, now);
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(who, " makes more than ", rate_.per_second(),
                   " calls a second (--calls-per-second of the coordinator): try again in ",
                   absl::FormatDuration(absl::Ceil(wait, absl::Milliseconds(1)))));
}

grpc::Status Door::Process(const InputMetadata& metadata, grpc::AuthContext* connection,
                           OutputMetadata*, OutputMetadata*) {
  const std::string method = OnlyValue(metadata, ":path");
  const std::string authorization = AuthorizationOf(metadata);
  const CertificateNames certificate = NamesOf(*connection);
  const absl::Status status = Admit(method, certificate, authorization, absl::Now());
  const MethodRule* const rule = status.ok() ? nullptr : FindMethod(method);
  if (rule != nullptr && rule->audited && options_.audit != nullptr) {
    options_.audit->Write({.who = Who(certificate, authorization),
                           .method = method.substr(1),
                           .result = absl::StatusCodeToString(status.code()),
                           .message = std::string(status.message())});
  }
  return ToGrpcStatus(status);
}

std::string Door::Who(const CertificateNames& certificate, absl::string_view authorization) const {
  if (options_.tokens != nullptr && !authorization.empty()) {
    const absl::StatusOr<User> user = options_.tokens->Authenticate(authorization);
    if (user.ok()) return absl::StrCat("token:", user->name);
  }
  const std::string& name = certificate.dns.empty() ? certificate.common : certificate.dns;
  return name.empty() ? "anonymous" : absl::StrCat("certificate:", name);
}

}  // namespace longhaul::coordinator
