#include "coordinator/access/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/access/methods.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "nlohmann/json.hpp"

namespace longhaul::coordinator {
namespace {

namespace interception = grpc::experimental;

// The limit of texts that callers write, in bytes.
constexpr size_t kTextMax = 256;

std::string TextField(const google::protobuf::Message& message, const std::string& name) {
  const google::protobuf::FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() ||
      field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
    return "";
  }
  return message.GetReflection()->GetString(message, field).substr(0, kTextMax);
}

// The job that a request is about: its field `job`, or the name in its `spec`.
std::string JobOf(const google::protobuf::Message& request) {
  if (std::string job = TextField(request, "job"); !job.empty()) return job;
  const google::protobuf::FieldDescriptor* spec = request.GetDescriptor()->FindFieldByName("spec");
  if (spec == nullptr || spec->is_repeated() || spec->message_type() == nullptr) return "";
  return TextField(request.GetReflection()->GetMessage(request, spec), "name");
}

// A serialized request of this method ("longhaul.v1.UploadService/UploadFile"). Null: malformed.
std::unique_ptr<google::protobuf::Message> Parsed(const std::string& method,
                                                  grpc::ByteBuffer request) {
  const google::protobuf::MethodDescriptor* found =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          absl::StrReplaceAll(method, {{"/", "."}}));
  if (found == nullptr) return nullptr;
  std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(found->input_type())
          ->New());
  grpc::ProtoBufferReader reader(&request);
  const bool parsed = reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
  return parsed ? std::move(message) : nullptr;
}

int OpenLog(const std::string& path) {
  return open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

bool EndsWithinALine(int fd) {
  struct stat file;
  char last = '\n';
  return fstat(fd, &file) == 0 && file.st_size > 0 && pread(fd, &last, 1, file.st_size - 1) == 1 &&
         last != '\n';
}

class AuditedCall : public interception::Interceptor {
 public:
  AuditedCall(AuditLog* log, const AuditLog::Who* who, bool raw, interception::ServerRpcInfo* info)
      : log_(log), who_(who), raw_(raw), info_(info) {
    entry_.method = std::string(absl::StripPrefix(info->method(), "/"));
  }

  void Intercept(interception::InterceptorBatchMethods* call) override {
    using Point = interception::InterceptionHookPoints;
    if (call->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE)) {
      absl::MutexLock lock(&mutex_);
      // The first message of a stream says what it is about.
      if (const void* message = call->GetRecvMessage(); message != nullptr && !seen_) {
        seen_ = true;
        if (raw_) {
          const auto parsed = Parsed(entry_.method, *static_cast<const grpc::ByteBuffer*>(message));
          if (parsed != nullptr) Describe(*parsed);
        } else {
          Describe(*static_cast<const google::protobuf::Message*>(message));
        }
      }
    }
    if (call->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      absl::MutexLock lock(&mutex_);
      const absl::Status status = FromGrpcStatus(call->GetSendStatus());
      entry_.who = (*who_)(*info_->server_context());
      entry_.peer = info_->server_context()->peer();
      entry_.result = absl::StatusCodeToString(status.code());
      entry_.message = std::string(status.message().substr(0, kTextMax));
      log_->Write(entry_);
    }
    call->Proceed();
  }

 private:
  void Describe(const google::protobuf::Message& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    entry_.job = JobOf(request);
    entry_.pool = TextField(request, "pool");
    entry_.upload = TextField(request, "upload");
  }

  AuditLog* const log_;
  const AuditLog::Who* const who_;
  const bool raw_;
  interception::ServerRpcInfo* const info_;
  // A handler may end its stream while gRPC receives a message of it on another thread.
  absl::Mutex mutex_;
  AuditEntry entry_ ABSL_GUARDED_BY(mutex_);
  // The first message.
  bool seen_ ABSL_GUARDED_BY(mutex_) = false;
};

class AuditObserver : public interception::ServerInterceptorFactoryInterface {
 public:
  AuditObserver(AuditLog* log, AuditLog::Who who) : log_(log), who_(std::move(who)) {}

  interception::Interceptor* CreateServerInterceptor(interception::ServerRpcInfo* info) override {
    const MethodRule* rule = FindMethod(info->method());
    if (rule == nullptr || !rule->audited) return nullptr;
    return new AuditedCall(log_, &who_, rule->raw, info);
  }

 private:
  AuditLog* const log_;
  const AuditLog::Who who_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path, Logger log) {
  const int fd = OpenLog(path);
  if (fd >= 0)
    return std::unique_ptr<AuditLog>(new AuditLog(fd, path, EndsWithinALine(fd), std::move(log)));
  return absl::UnavailableError(
      absl::StrCat("--audit-log ", path, ": ", std::strerror(errno),
                   ": name a file in a folder that exists and that this user may write to"));
}

AuditLog::~AuditLog() {
  absl::MutexLock lock(&mutex_);
  close(fd_);
}

// Opens the path again if it is not the open file any more. Without success that one goes on.
void AuditLog::FollowRotation() {
  struct stat named, opened;
  if (fstat(fd_, &opened) != 0) return;
  const bool same = stat(path_.c_str(), &named) == 0 && named.st_dev == opened.st_dev &&
                    named.st_ino == opened.st_ino;
  if (same) return;
  const int fd = OpenLog(path_);
  if (fd < 0) return;
  close(std::exchange(fd_, fd));
  torn_ = EndsWithinALine(fd_);
}

void AuditLog::Write(const AuditEntry& entry) {
  absl::MutexLock lock(&mutex_);
  int64_t left_out = 0;
  if (entry.result != absl::StatusCodeToString(absl::StatusCode::kOk)) {
    const std::optional<int64_t> before = failed_calls_.Take(SteadyTime());
    if (!before.has_value()) return;
    left_out = *before;
  }
  nlohmann::ordered_json json = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone())},
      {"who", entry.who},
      // gRPC writes the brackets of an IPv6 address so.
      {"peer", absl::StrReplaceAll(entry.peer, {{"%5B", "["}, {"%5D", "]"}})},
      {"method", entry.method},
      {"job", entry.job},
      {"pool", entry.pool},
      {"result", entry.result},
      {"message", entry.message}};
  if (!entry.upload.empty()) json["upload"] = entry.upload;
  if (left_out > 0) json["left_out"] = left_out;
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  FollowRotation();
  const std::string line = absl::StrCat(torn_ ? "\n" : "", text, "\n");
  const ssize_t bytes = write(fd_, line.data(), line.size());
  const bool written = bytes == static_cast<ssize_t>(line.size());
  torn_ = !written && (torn_ || bytes > 0);
  if (!written && !failed_)
    log_.Error(absl::StrCat("cannot write the audit log ", path_, ": ", std::strerror(errno)));
  failed_ = !written;
}

std::unique_ptr<interception::ServerInterceptorFactoryInterface> AuditLog::MakeObserver(Who who) {
  return std::make_unique<AuditObserver>(this, std::move(who));
}

}  // namespace longhaul::coordinator
