#include "coordinator/access/door.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security_constants.h"

namespace longhaul::coordinator {
namespace {

std::string OnlyValue(const grpc::AuthMetadataProcessor::InputMetadata& metadata,
                      const char* name) {
  const auto [begin, end] = metadata.equal_range(name);
  if (begin == end || std::next(begin) != end) return "";
  return std::string(begin->second.data(), begin->second.size());
}

absl::Status AdmitUnrevoked(const CertificateNames& certificate) {
  if (!certificate.revoked) return absl::OkStatus();
  return WithErrorInfo(
      absl::UnauthenticatedError("the certificate of this caller is revoked"),
      {"CERTIFICATE_REVOKED", {{"hint", "ask the coordinator's operator for a new certificate"}}});
}

absl::Status AdmitPool(const CertificateNames& certificate) {
  if (!certificate.dns.empty()) return absl::OkStatus();
  return WithErrorInfo(
      absl::UnauthenticatedError("only pools may call this: use a certificate whose first DNS name "
                                 "is the name of the pool"),
      {"CERTIFICATE_NEEDED",
       {{"hint",
         "give --tls-certificate and --tls-key (longhaul certs issue pool NAME makes them)"}}});
}

// The rule of a method that does not exist: it decides who is told so.
Need NeedOf(const MethodRule* rule) { return rule != nullptr ? rule->need : Need::kViewer; }

// Whether one of our handlers answers the method.
bool IsOurs(const MethodRule* rule) {
  return rule != nullptr && !absl::EndsWith(rule->method, "/");
}

}  // namespace

std::string AuthorizationOf(const grpc::AuthMetadataProcessor::InputMetadata& metadata) {
  return OnlyValue(metadata, "authorization");
}

std::string Door::Caller::who() const {
  if (user.has_value() && user->ok()) return absl::StrCat("token:", (*user)->name);
  const std::string& name = certificate.dns.empty() ? certificate.common : certificate.dns;
  return name.empty() ? "anonymous" : absl::StrCat("certificate:", name);
}

CertificateNames Door::CertificateOf(const grpc::AuthContext& connection) const {
  CertificateNames names = NamesOf(connection);
  if (options_.is_revoked == nullptr) return names;
  for (const grpc::string_ref& pem :
       connection.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME))
    names.revoked |= options_.is_revoked(std::string(pem.data(), pem.size()));
  return names;
}

Door::Caller Door::Identify(absl::string_view method, const CertificateNames& certificate,
                            absl::string_view authorization) const {
  Caller caller{.certificate = certificate};
  const Need need = NeedOf(FindMethod(method));
  if (options_.tokens != nullptr && need != Need::kNothing && need != Need::kPool)
    caller.user = options_.tokens->Authenticate(authorization);
  return caller;
}

absl::Status Door::AdmitUser(Role least, const Caller& caller) const {
  if (!caller.user.has_value()) {
    if (!caller.certificate.dns.empty() || !caller.certificate.common.empty())
      return absl::OkStatus();
    return WithErrorInfo(
        absl::UnauthenticatedError(
            "the client certificate has neither a common name nor a DNS name"),
        {"CERTIFICATE_NEEDED",
         {{"hint", "use one with a common name (longhaul certs issue user NAME makes it)"}}});
  }
  LH_ASSIGN_OR_RETURN(const User user, *caller.user);
  if (user.role >= least) return absl::OkStatus();
  return WithErrorInfo(
      absl::PermissionDeniedError(absl::StrCat(user.name, " is a ", RoleName(user.role),
                                               "; this needs the role ", RoleName(least))),
      {"ROLE_TOO_SMALL",
       {{"field", "authorization"},
        {"role", std::string(RoleName(user.role))},
        {"needs", std::string(RoleName(least))},
        {"hint", absl::StrCat("ask the coordinator's operator for the role ", RoleName(least))}}});
}

absl::Status Door::Admit(absl::string_view method, const CertificateNames& certificate,
                         absl::string_view authorization, absl::Time now) {
  return Judge(method, Identify(method, certificate, authorization), now);
}

absl::Status Door::Judge(absl::string_view method, const Caller& caller, absl::Time now) {
  LH_RETURN_IF_ERROR(AdmitUnrevoked(caller.certificate));
  const MethodRule* const rule = FindMethod(method);
  switch (NeedOf(rule)) {
    case Need::kNothing:
      return absl::OkStatus();
    case Need::kPool:
      LH_RETURN_IF_ERROR(AdmitPool(caller.certificate));
      break;
    case Need::kViewer:
      LH_RETURN_IF_ERROR(AdmitUser(Role::kViewer, caller));
      break;
    case Need::kSubmitter:
      LH_RETURN_IF_ERROR(AdmitUser(Role::kSubmitter, caller));
      break;
    case Need::kAdmin:
      LH_RETURN_IF_ERROR(AdmitUser(Role::kAdmin, caller));
      break;
  }
  if (rule == nullptr) return UnknownMethodError(method);
  if (!rule->counted) return absl::OkStatus();
  const std::string who = caller.who();
  const absl::Duration wait = rate_.Take(who, now);
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  const absl::Duration shown = absl::Ceil(wait, absl::Milliseconds(1));
  return WithRetryDelay(
      WithErrorInfo(absl::ResourceExhaustedError(absl::StrCat(
                        who, " makes more than ", rate_.per_second(),
                        " calls per second (--calls-per-second of the coordinator): try again in ",
                        absl::FormatDuration(shown))),
                    {"TOO_MANY_CALLS", {{"caller", who}}}),
      shown);
}

grpc::Status Door::Process(const InputMetadata& metadata, grpc::AuthContext* connection,
                           OutputMetadata*, OutputMetadata*) {
  const std::string method = OnlyValue(metadata, ":path");
  if (guarded_ && IsOurs(FindMethod(method))) return grpc::Status::OK;
  return ToGrpcStatus(
      Admit(method, CertificateOf(*connection), AuthorizationOf(metadata), SteadyTime()));
}

bool Door::Knows(const InputMetadata& metadata, const grpc::AuthContext& connection) const {
  if (connection.IsPeerAuthenticated()) return !CertificateOf(connection).revoked;
  return options_.tokens != nullptr &&
         options_.tokens->Find(BearerToken(AuthorizationOf(metadata))).has_value();
}

class GuardedCall : public grpc::experimental::Interceptor {
 public:
  GuardedCall(Door* door, grpc::experimental::ServerRpcInfo* info) : door_(door), info_(info) {}
  ~GuardedCall() override {
    if (entered_) door_->Forget(info_->server_context());
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    grpc::ServerContextBase* const call = info_->server_context();
    if (batch->QueryInterceptionHookPoint(Point::POST_RECV_INITIAL_METADATA)) {
      Door::Known known{.call = call, .authorization = AuthorizationOf(call->client_metadata())};
      known.caller = door_->Identify(info_->method(), door_->CertificateOf(*call->auth_context()),
                                     known.authorization);
      known.refusal = door_->Judge(info_->method(), known.caller, SteadyTime());
      refused_ = !known.refusal.ok();
      entered_ = refused_ || known.caller.user.has_value() || door_->options_.is_revoked != nullptr;
      if (entered_) door_->Enter(call, std::move(known));
    }
    if (refused_ && !door_->WasAsked(call)) {
      const bool answers = batch->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA) ||
                           batch->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE) ||
                           batch->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS);
      if (answers) call->TryCancel();
    }
    batch->Proceed();
  }

 private:
  Door* const door_;
  grpc::experimental::ServerRpcInfo* const info_;
  bool refused_ = false, entered_ = false;
};

namespace {

class Guard : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Guard(Door* door) : door_(door) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return IsOurs(FindMethod(info->method())) ? new GuardedCall(door_, info) : nullptr;
  }

 private:
  Door* const door_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Door::MakeGuard() {
  guarded_ = true;
  return std::make_unique<Guard>(this);
}

void Door::Enter(const grpc::ServerContextBase* call, Known known) {
  absl::MutexLock lock(&mutex_);
  known_[call] = std::move(known);
}

bool Door::WasAsked(const grpc::ServerContextBase* call) const {
  absl::MutexLock lock(&mutex_);
  const auto found = known_.find(call);
  return found != known_.end() && found->second.asked;
}

void Door::Forget(const grpc::ServerContextBase* call) {
  absl::MutexLock lock(&mutex_);
  known_.erase(call);
}

void Door::EndWithdrawn() {
  if (options_.tokens == nullptr && options_.is_revoked == nullptr) return;
  // As TryCancel, which has no words for the client.
  const auto end = [](const Known& known, const char* why) {
    (void)grpc_call_cancel_with_status(known.call->c_call(), GRPC_STATUS_UNAUTHENTICATED, why,
                                       nullptr);
  };
  absl::MutexLock lock(&mutex_);
  for (const auto& [_, known] : known_) {
    if (!known.refusal.ok()) continue;
    if (CertificateOf(*known.call->auth_context()).revoked) {
      end(known, "the certificate of this caller is revoked");
      continue;
    }
    const auto& user = known.caller.user;
    if (!user.has_value() || !user->ok()) continue;
    const absl::StatusOr<User> now = options_.tokens->Authenticate(known.authorization);
    if (!now.ok() || *now != **user) end(known, "the token was revoked or its role has changed");
  }
}

absl::Status Door::RefusalOf(const grpc::ServerContextBase& call) const {
  absl::MutexLock lock(&mutex_);
  const auto found = known_.find(&call);
  if (found == known_.end()) return absl::OkStatus();
  found->second.asked = true;
  return found->second.refusal;
}

bool Door::IsRefused(const grpc::ServerContextBase& call) const {
  absl::MutexLock lock(&mutex_);
  const auto found = known_.find(&call);
  return found != known_.end() && !found->second.refusal.ok();
}

// A call without an entry has no token: its caller is a pool, or the server has no tokens.
Door::Caller Door::CallerOf(const grpc::ServerContextBase& call) const {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = known_.find(&call);
    if (found != known_.end()) return found->second.caller;
  }
  return {.certificate = NamesOf(*call.auth_context())};
}

JobCaller Door::JobCallerOf(const grpc::ServerContextBase& call) const {
  const Caller caller = CallerOf(call);
  const auto& user = caller.user;
  const bool any =
      user.has_value() ? user->ok() && (*user)->role == Role::kAdmin : options_.tokens == nullptr;
  return {.who = caller.who(), .any_job = any};
}

std::string Door::WhoCalls(const grpc::ServerContextBase& call) const {
  return CallerOf(call).who();
}

}  // namespace longhaul::coordinator
