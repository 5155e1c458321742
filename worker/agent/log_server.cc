#include "worker/agent/log_server.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/retry.h"
#include "longhaul/v1/logs.grpc.pb.h"

namespace longhaul {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
// Of one stream: a coordinator has at most so many (LogHub::kReadersMax), and forgets some late.
constexpr size_t kLogReadersMax = 256;

}  // namespace

// One stream. A thread reads what is wanted; the other sends.
class LogServer::Call {
 public:
  Call(const Options& options, v1::LogService::Stub& stub) : options_(options) {
    stream_ = stub.ServeLogs(&context_);
    reading_ = std::thread([this] { Listen(); });
  }
  ~Call() {
    context_.TryCancel();
    reading_.join();
    (void)stream_->Finish();
  }

  // Until the stream ends or a stop is asked for.
  void Run(const std::stop_token& stop) {
    const std::stop_callback cancel(stop, [this] { context_.TryCancel(); });
    v1::ServeLogsRequest greeting;
    greeting.set_pool(options_.pool);
    greeting.set_node(options_.node);
    if (!stream_->Write(greeting)) return;
    while (AwaitReaders()) {
      for (const int64_t id : Ids()) {
        if (!SendTo(id)) return;
      }
      // What comes next is gathered: few messages cost the coordinator little.
      WaitFor(options_.gather);
    }
  }

 private:
  struct LogReader {
    v1::FollowLogsRequest demand;
    int64_t next = 0;
  };

  void Listen() {
    for (v1::ServeLogsResponse message; stream_->Read(&message);) {
      absl::MutexLock lock(&mutex_);
      if (message.stop()) {
        readers_.erase(message.reader());
      } else if (readers_.size() < kLogReadersMax) {
        const v1::FollowLogsRequest& demand = message.demand();
        readers_[message.reader()] = {demand,
                                      options_.ring->Before(demand.tail(), demand.job_id())};
      }
    }
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  // False: the stream has ended.
  bool AwaitReaders() {
    absl::MutexLock lock(&mutex_);
    const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ended_ || !readers_.empty();
    };
    mutex_.Await(absl::Condition(&wanted));
    return !ended_;
  }
  void WaitFor(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&ended_), duration);
  }
  std::vector<int64_t> Ids() {
    absl::MutexLock lock(&mutex_);
    std::vector<int64_t> ids;
    for (const auto& [id, reader] : readers_) ids.push_back(id);
    return ids;
  }
  LogReader ReaderOf(int64_t id) {
    absl::MutexLock lock(&mutex_);
    const auto found = readers_.find(id);
    return found == readers_.end() ? LogReader{.next = -1} : found->second;
  }
  void Advance(int64_t id, int64_t next, bool done) {
    absl::MutexLock lock(&mutex_);
    const auto found = readers_.find(id);
    if (found == readers_.end()) return;
    found->second.next = next;
    if (done) readers_.erase(found);
  }

  // All that there is for it now. False: the stream has ended.
  bool SendTo(int64_t id) {
    for (;;) {
      const LogReader reader = ReaderOf(id);
      if (reader.next < 0) return true;  // It is gone.
      LogRing::Chunk chunk = options_.ring->Read(reader.next, reader.demand.job_id(), kChunkBytes);
      const bool more = !chunk.text.empty();
      const bool done = !more && !reader.demand.follow();
      if (more || done || chunk.dropped > 0) {
        v1::ServeLogsRequest message;
        message.set_reader(id);
        message.set_text(std::move(chunk.text));
        message.set_dropped(chunk.dropped);
        message.set_end(done);
        if (!stream_->Write(message)) return false;
      }
      Advance(id, chunk.next, done);
      if (!more) return true;
    }
  }

  const Options& options_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ServeLogsRequest, v1::ServeLogsResponse>> stream_;
  absl::Mutex mutex_;
  std::map<int64_t, LogReader> readers_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread reading_;
};

LogServer::LogServer(Options options)
    : options_(std::move(options)),
      channel_(MakeChannel({.address = options_.coordinator, .tls = options_.tls})),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

LogServer::~LogServer() = default;

void LogServer::Run(const std::stop_token& stop) {
  const auto stub = v1::LogService::NewStub(channel_);
  Random random(static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())));
  for (int attempt = 0; !stop.stop_requested(); ++attempt) {
    const absl::Time begun = absl::Now();
    Call(options_, *stub).Run(stop);
    // One that ends at once is of a coordinator without this call, or one that goes down.
    if (absl::Now() - begun > absl::Seconds(5)) attempt = 0;
    const absl::Duration wait = absl::Milliseconds(500) + FullJitter({}, attempt, random);
    AwaitNextAttempt({&channel_, 1}, wait, stop);
  }
}

}  // namespace longhaul
