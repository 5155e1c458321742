#include "coordinator/access/caller.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "grpc/grpc_security_constants.h"

namespace longhaul::coordinator {
namespace {

std::string FirstOf(const std::vector<grpc::string_ref>& values) {
  return values.empty() ? "" : std::string(values.front().data(), values.front().size());
}

}  // namespace

CertificateNames NamesOf(const grpc::AuthContext& connection) {
  return {FirstOf(connection.FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)),
          FirstOf(connection.FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME))};
}

PoolCaller::PoolCaller(const grpc::ServerContextBase& call, bool certificates)
    : certificates_(certificates) {
  if (!certificates) return;
  const std::shared_ptr<const grpc::AuthContext> connection = call.auth_context();
  if (connection != nullptr) name_ = NamesOf(*connection).dns;
}

absl::Status PoolCaller::MayActFor(absl::string_view pool) const {
  if (!certificates_ || (!name_.empty() && name_ == pool)) return absl::OkStatus();
  return WithErrorInfo(
      absl::PermissionDeniedError(absl::StrCat("the certificate of this caller is that of pool \"",
                                               name_, "\", not of \"", pool, "\"")),
      {"NOT_THIS_POOL",
       {{"hint", absl::StrCat("use a certificate whose first DNS name is ", pool,
                              " (longhaul certs issue pool ", pool, "), or --pool ", name_)}}});
}

absl::Status JobCaller::MayChange(absl::string_view job, absl::string_view owner) const {
  if (any_job || owner.empty() || owner == who) return absl::OkStatus();
  return WithErrorInfo(
      absl::PermissionDeniedError(
          absl::StrCat("job ", job, " was submitted by ", owner, ", not by ", who)),
      {"NOT_YOUR_JOB",
       {{"owner", std::string(owner)},
        {"hint", absl::StrCat("ask ", owner, " for it, or an admin of the coordinator")}}});
}

}  // namespace longhaul::coordinator
