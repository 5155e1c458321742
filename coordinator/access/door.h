// The door of the coordinator: every call passes it before its handler, known methods and unknown
// ones. It knows callers by certificate and token, lets in whom the method's rule (methods.h) lets
// in, and counts.
//   with tokens     people are known by tokens, pools by certificates
//   without         a certificate of the server's authority is enough for everything but acting for
//                   another pool
// Handlers check one thing more, which only the request has: the pool that is meant (caller.h).
#pragma once

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/access/audit_log.h"
#include "coordinator/access/call_rate.h"
#include "coordinator/access/caller.h"
#include "coordinator/access/methods.h"
#include "coordinator/access/tokens.h"
#include "grpcpp/security/auth_metadata_processor.h"

namespace longhaul::coordinator {

// Thread-safe; does not block but for the tokens' file.
class Door : public grpc::AuthMetadataProcessor {
 public:
  struct Options {
    Tokens* tokens = nullptr;     // Null: none. Outlives the door, as does
    AuditLog* audit = nullptr;    // this. Null: none.
    double calls_per_second = 0;  // Of each caller; twice as many at once. 0: no limit.
  };
  explicit Door(const Options& options)
      : options_(options),
        rate_(options.calls_per_second, std::max(1.0, 2 * options.calls_per_second)) {}

  //   UNAUTHENTICATED     the method needs a token, or a certificate, and there is no good one
  //   PERMISSION_DENIED   the user's role is too small
  //   RESOURCE_EXHAUSTED  the caller calls too often
  //   UNIMPLEMENTED       there is no such method
  // A grpc::Status of the door has no details: gRPC passes on code and message alone.
  absl::Status Admit(absl::string_view method, const CertificateNames& certificate,
                     absl::string_view authorization, absl::Time now);

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* connection,
                       OutputMetadata* consumed, OutputMetadata* response) override;

  // "token:NAME", "certificate:NAME" or "anonymous".
  std::string Who(const CertificateNames& certificate, absl::string_view authorization) const;

 private:
  absl::Status AdmitUser(Role least, const CertificateNames& certificate,
                         absl::string_view authorization) const;

  const Options options_;
  CallRate rate_;
};

// The Authorization header of a call; empty: none, or several.
std::string AuthorizationOf(const grpc::AuthMetadataProcessor::InputMetadata& metadata);

}  // namespace longhaul::coordinator
