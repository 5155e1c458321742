#include "coordinator/access/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/file_limit.h"
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

constexpr absl::string_view kPoolMethods = "longhaul.v1.PoolService/";
// The limit of texts that callers write, in bytes.
constexpr size_t kTextMax = 256;
// How many bytes of lines may wait for the disk.
constexpr size_t kWaitingBytesMax = 4 << 20;
// A write that lasts for so long is one of a disk that hangs.
constexpr absl::Duration kStands = absl::Seconds(10);

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

bool EndsWithinALine(int fd) {
  struct stat file;
  char last = '\n';
  return fstat(fd, &file) == 0 && file.st_size > 0 && pread(fd, &last, 1, file.st_size - 1) == 1 &&
         last != '\n';
}

// The file, on the queue's thread.
class AuditFile {
 public:
  AuditFile(int fd, std::string path, Logger log)
      : path_(std::move(path)), log_(std::move(log)), fd_(fd), torn_(EndsWithinALine(fd)) {}
  ~AuditFile() { close(fd_); }
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;

  static int Open(const std::string& path) {
    // Users of group 0 take turns (ShareFilesWithGroupZero).
    const mode_t mode = SharesFilesWithGroupZero() ? 0660 : 0600;
    return open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, mode);
  }

  bool Write(absl::string_view text) {
    ReopenIfMoved();
    const std::string line = absl::StrCat(torn_ ? "\n" : "", text);
    const ssize_t bytes = write(fd_, line.data(), line.size());
    const bool written = bytes == static_cast<ssize_t>(line.size());
    torn_ = !written && (torn_ || bytes > 0);
    if (!written && !failed_)
      log_.Error(absl::StrCat("cannot write the audit log ", path_, ": ",
                              bytes < 0 ? std::strerror(errno) : "the disk took a part of a line"));
    if (written && failed_) log_.Info(absl::StrCat("the audit log ", path_, " is written again"));
    failed_ = !written;
    return written;
  }

 private:
  // Rotation renames a file, or removes it.
  void ReopenIfMoved() {
    struct stat own, named;
    if (fstat(fd_, &own) != 0) return;
    if (stat(path_.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
        own.st_dev == named.st_dev)
      return;
    // Until it can be made, lines go to the file that was moved.
    const int fd = Open(path_);
    if (fd < 0) return;
    close(std::exchange(fd_, fd));
    torn_ = EndsWithinALine(fd_);
  }

  const std::string path_;
  const Logger log_;
  int fd_;
  bool failed_ = false;
  // The file ends with a part of a line: the disk became full within it.
  bool torn_;
};

std::string TimeNow() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
}

class AuditedCall : public interception::Interceptor {
 public:
  AuditedCall(AuditLog* log, const AuditLog::Callers* callers, bool raw,
              interception::ServerRpcInfo* info)
      : log_(log), callers_(callers), raw_(raw), info_(info) {
    entry_.method = std::string(absl::StripPrefix(info->method(), "/"));
    entry_.call = log->NextCall();
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
        const grpc::ServerContextBase& context = *info_->server_context();
        if (!callers_->refused || !callers_->refused(context)) {
          Identify();
          log_->WriteBegun(entry_);
        }
      }
    }
    if (call->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      absl::MutexLock lock(&mutex_);
      const absl::Status status = FromGrpcStatus(call->GetSendStatus());
      Identify();
      entry_.result = absl::StatusCodeToString(status.code());
      entry_.message = std::string(status.message().substr(0, kTextMax));
      log_->Write(entry_);
    }
    call->Proceed();
  }

 private:
  void Identify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    entry_.who = callers_->who(*info_->server_context());
    entry_.peer = info_->server_context()->peer();
  }
  void Describe(const google::protobuf::Message& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    entry_.job = JobOf(request);
    entry_.pool = TextField(request, "pool");
    entry_.upload = TextField(request, "upload");
  }

  AuditLog* const log_;
  const AuditLog::Callers* const callers_;
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
  AuditObserver(AuditLog* log, AuditLog::Callers callers)
      : log_(log), callers_(std::move(callers)) {}

  interception::Interceptor* CreateServerInterceptor(interception::ServerRpcInfo* info) override {
    const MethodRule* rule = FindMethod(info->method());
    if (rule == nullptr || !rule->audited) return nullptr;
    return new AuditedCall(log_, &callers_, rule->raw, info);
  }

 private:
  AuditLog* const log_;
  const AuditLog::Callers callers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path, Logger log) {
  const int fd = AuditFile::Open(path);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("--audit-log ", path, ": ", std::strerror(errno),
                     ": name a file in a folder that exists and that this user may write to"));
  }
  const auto file = std::make_shared<AuditFile>(fd, path, std::move(log));
  return std::unique_ptr<AuditLog>(
      new AuditLog(path, [file](absl::string_view line) { return file->Write(line); }));
}

AuditLog::AuditLog(std::string path, LineQueue::Write write)
    : path_(std::move(path)), lines_(std::move(write), kWaitingBytesMax) {
  lines_.SetNotice([](int64_t dropped) {
    return nlohmann::ordered_json({{"time", TimeNow()}, {"dropped", dropped}}).dump() + "\n";
  });
}

absl::Status AuditLog::Health() const {
  if (const absl::Duration stalled = lines_.stalled_for(); stalled >= kStands) {
    return absl::UnavailableError(
        absl::StrCat("a write of the audit log ", path_, " has not returned for ",
                     absl::FormatDuration(absl::Trunc(stalled, absl::Seconds(1)))));
  }
  if (!lines_.failing()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "the audit log ", path_, " cannot be written: ", lines_.dropped(), " of its lines are lost"));
}

void AuditLog::Write(const AuditEntry& entry) {
  int64_t left_out = 0;
  if (entry.result != absl::StatusCodeToString(absl::StatusCode::kOk)) {
    absl::MutexLock lock(&mutex_);
    const std::optional<int64_t> before = failed_calls_.Take(SteadyTime());
    if (!before.has_value()) return;
    left_out = *before;
  } else if (absl::StartsWith(entry.method, kPoolMethods)) {
    absl::MutexLock lock(&mutex_);
    if (pool_calls_.Take(entry.pool, SteadyTime()) > absl::ZeroDuration()) {
      ++pool_calls_left_out_;
      return;
    }
    left_out = std::exchange(pool_calls_left_out_, 0);
  }
  Append(entry, left_out, kAuditPatience);
}

void AuditLog::WriteBegun(AuditEntry entry) {
  if (absl::StartsWith(entry.method, kPoolMethods)) return;
  {
    absl::MutexLock lock(&mutex_);
    if (!begun_calls_.Take(SteadyTime()).has_value()) return;
  }
  entry.result = "BEGUN";
  Append(entry, /*left_out=*/0, kAuditPatience);
}

void AuditLog::Note(const AuditEntry& entry) {
  Append(entry, /*left_out=*/0, absl::ZeroDuration());
}

void AuditLog::Append(const AuditEntry& entry, int64_t left_out, absl::Duration patience) {
  nlohmann::ordered_json json = {
      {"time", TimeNow()},
      {"who", entry.who},
      // gRPC writes the brackets of an IPv6 address so.
      {"peer", absl::StrReplaceAll(entry.peer, {{"%5B", "["}, {"%5D", "]"}})},
      {"method", entry.method},
      {"job", entry.job},
      {"pool", entry.pool},
      {"result", entry.result},
      {"message", entry.message}};
  if (!entry.upload.empty()) json["upload"] = entry.upload;
  if (entry.call > 0) json["call"] = entry.call;
  if (left_out > 0) json["left_out"] = left_out;
  lines_.AddAndWait(
      absl::StrCat(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
                   "\n"),
      patience);
}

std::unique_ptr<interception::ServerInterceptorFactoryInterface> AuditLog::MakeObserver(
    Callers callers) {
  return std::make_unique<AuditObserver>(this, std::move(callers));
}

}  // namespace longhaul::coordinator
