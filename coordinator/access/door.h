// The coordinator's access control: every call passes it before its handler, also calls of unknown
// methods. It identifies callers by certificate and token, applies the method's rule (methods.h),
// and limits the rate of calls.
//
// It has two stages, since a refusal before gRPC has found the handler can have only a code and a
// message. The first stage (Process) refuses calls that none of our handlers answers: unknown
// methods, health, reflection. The second, an interceptor (MakeGuard), judges calls of declared
// methods. Their handlers call RefusalOf first, and answer with the whole refusal: reason, field,
// hint. If a handler does not call it, the guard cancels the call, so that the handler can send
// nothing.
//
// Who is let in:
//   with tokens     people are known by tokens, pools by certificates
//   without         with a certificate of the server's authority a caller may do everything except
//                   act for another pool
// Handlers also check the pool that the request names (caller.h), since the door does not read
// requests.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/user_tokens.h"
#include "coordinator/access/call_rate.h"
#include "coordinator/access/caller.h"
#include "coordinator/access/methods.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_interceptor.h"

namespace longhaul::coordinator {

// Thread-safe; does not block but for the tokens' file.
class Door : public grpc::AuthMetadataProcessor {
 public:
  struct Options {
    // Null: none. Outlives the door.
    Tokens* tokens = nullptr;
    // Whether the authority has revoked a certificate, in PEM. Null: there is no list. Does not
    // block.
    std::function<bool(const std::string& certificate)> is_revoked;
    // Of each caller; twice as many at once. 0: no limit.
    double calls_per_second = 0;
  };
  explicit Door(const Options& options)
      : options_(options),
        rate_(options.calls_per_second, std::max(1.0, 2 * options.calls_per_second)) {}

  //   UNAUTHENTICATED     the method needs a token (user_tokens.h), or a certificate that names a
  //                       pool or a user (CERTIFICATE_NEEDED), and there is no good one;
  //                       CERTIFICATE_REVOKED: the caller's is revoked
  //   PERMISSION_DENIED   ROLE_TOO_SMALL: the user's role
  //   RESOURCE_EXHAUSTED  TOO_MANY_CALLS: the caller calls too often; RetryInfo
  //   UNIMPLEMENTED       METHOD_UNKNOWN: there is no such method
  absl::Status Admit(absl::string_view method, const CertificateNames& certificate,
                     absl::string_view authorization, absl::Time now);

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* connection,
                       OutputMetadata* consumed, OutputMetadata* response) override;

  // Whether the caller has a certificate that is not revoked, or the token of a user.
  bool Knows(const InputMetadata& metadata, const grpc::AuthContext& connection) const;

  // The interceptor that judges calls of declared methods. The door outlives the server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeGuard();
  // Why the guard refuses this call. Handlers call it before anything else.
  absl::Status RefusalOf(const grpc::ServerContextBase& call) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the calls whose certificate was revoked since they began, or whose token was withdrawn or
  // has another role by now, with UNAUTHENTICATED. To be called about once a second.
  void EndWithdrawn() ABSL_LOCKS_EXCLUDED(mutex_);

  // Which jobs the caller may change.
  JobCaller JobCallerOf(const grpc::ServerContextBase& call) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the rules refuse the call. Unlike RefusalOf, for who answers nothing.
  bool IsRefused(const grpc::ServerContextBase& call) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Who makes the call: "token:NAME", "certificate:NAME" or "anonymous".
  std::string WhoCalls(const grpc::ServerContextBase& call) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Who makes a call. Determined once, at its beginning.
  struct Caller {
    CertificateNames certificate;
    // The token's user, or why the token is refused. Empty: a pool, or a server without tokens.
    std::optional<absl::StatusOr<User>> user;

    std::string who() const;
  };
  // The names, and whether it is revoked.
  CertificateNames CertificateOf(const grpc::AuthContext& connection) const;
  Caller Identify(absl::string_view method, const CertificateNames& certificate,
                  absl::string_view authorization) const;
  absl::Status Judge(absl::string_view method, const Caller& caller, absl::Time now);
  absl::Status AdmitUser(Role least, const Caller& caller) const;

  friend class GuardedCall;
  // What handlers and the audit log need to know of a call in progress.
  struct Known {
    Caller caller;
    absl::Status refusal;
    // Valid as long as the entry is there.
    grpc::ServerContextBase* call = nullptr;
    std::string authorization;
    // RefusalOf was called.
    bool asked = false;
  };
  void Enter(const grpc::ServerContextBase* call, Known known) ABSL_LOCKS_EXCLUDED(mutex_);
  bool WasAsked(const grpc::ServerContextBase* call) const ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const grpc::ServerContextBase* call) ABSL_LOCKS_EXCLUDED(mutex_);
  Caller CallerOf(const grpc::ServerContextBase& call) const ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  CallRate rate_;
  // MakeGuard was called.
  std::atomic<bool> guarded_ = false;
  mutable absl::Mutex mutex_;
  // Guarded calls that are refused, or whose caller has a token or a certificate that may be
  // revoked.
  mutable std::map<const grpc::ServerContextBase*, Known> known_ ABSL_GUARDED_BY(mutex_);
};

// The Authorization header of a call; empty: none, or several.
std::string AuthorizationOf(const grpc::AuthMetadataProcessor::InputMetadata& metadata);

}  // namespace longhaul::coordinator
