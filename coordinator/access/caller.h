// The caller, as its TLS connection identifies it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/server_context.h"

namespace longhaul::coordinator {

// Names in a verified certificate. Both are empty without one.
struct CertificateNames {
  // The first DNS name. For pools, the pool.
  std::string dns;
  // The common name, to show to people.
  std::string common;
  // Its authority has revoked it.
  bool revoked = false;
};
CertificateNames NamesOf(const grpc::AuthContext& connection);

// Says for which pool a call may act.
class PoolCaller {
 public:
  // `certificates`: whether certificates identify pools (the server has TLS). Otherwise any caller
  // may act for any pool.
  PoolCaller(const grpc::ServerContextBase& call, bool certificates);

  // PERMISSION_DENIED, reason NOT_THIS_POOL: the call names another pool than its certificate's.
  absl::Status MayActFor(absl::string_view pool) const;

 private:
  bool certificates_;
  std::string name_;
};

// Says which jobs a call may change.
struct JobCaller {
  // "token:NAME", "certificate:NAME"; empty: not known.
  std::string who;
  // For admins, and for everybody where there are no roles.
  bool any_job = true;

  // PERMISSION_DENIED, reason NOT_YOUR_JOB: somebody else submitted the job. Everybody may change a
  // job without a known owner (empty).
  absl::Status MayChange(absl::string_view job, absl::string_view owner) const;
};

}  // namespace longhaul::coordinator
