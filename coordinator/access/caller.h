// Who calls, as its TLS connection shows.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/server_context.h"

namespace longhaul::coordinator {

// Of a verified certificate; both empty without one.
struct CertificateNames {
  std::string dns;     // Its first DNS name: the pool, for pools.
  std::string common;  // Its common name: for people.
};
CertificateNames NamesOf(const grpc::AuthContext& connection);

// What of a call says which pool may be meant by it.
class PoolCaller {
 public:
  // `certificates`: whether pools are known by certificates (the server has TLS). Without, any
  // caller may act for any pool.
  PoolCaller(const grpc::ServerContextBase& call, bool certificates);

  // PERMISSION_DENIED, reason NOT_THIS_POOL: the call names another pool than its certificate's.
  absl::Status MayActFor(absl::string_view pool) const;

 private:
  bool certificates_;
  std::string name_;
};

// What of a call says whose jobs it may change.
struct JobCaller {
  std::string who;      // "token:NAME", "certificate:NAME"; empty: not known.
  bool any_job = true;  // Of an admin, and of everybody where there are no roles.

  // PERMISSION_DENIED, reason NOT_YOUR_JOB: somebody else submitted the job. A job whose owner is
  // not known (empty) is everybody's.
  absl::Status MayChange(absl::string_view job, absl::string_view owner) const;
};

}  // namespace longhaul::coordinator
