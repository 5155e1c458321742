#include "worker/agent/log_server.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/retry.h"
#include "longhaul/v1/logs.grpc.pb.h"

namespace longhaul {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
// The limit for one stream. A coordinator has at most so many readers (LogHub::kReadersMax), but
// forgets some of them late.
constexpr size_t kLogReadersMax = 256;

}  // namespace

// One stream. One thread receives what readers want; the other sends.
class LogServer::Call {
 public:
  // Blocks until it is sent or fails: for as long as a connection is tried. A stop request ends the
  // stream at any time.
  Call(const Options& options, int node, v1::LogService::Stub& stub, const std::stop_token& stop)
      : options_(options),
        node_(node),
        cancel_(stop, [this] { context_.TryCancel(); }),
        stream_(stub.ServeLogs(&context_)),
        reading_([this] { Listen(); }) {}
  ~Call() {
    context_.TryCancel();
    reading_.join();
    (void)stream_->Finish();
  }

  // Runs until the stream ends.
  void Run() {
    v1::ServeLogsRequest greeting;
    greeting.set_pool(options_.pool);
    greeting.set_node(node_);
    if (!stream_->Write(greeting)) return;
    while (AwaitReaders()) {
      for (const int64_t id : Ids()) {
        if (!SendTo(id)) return;
      }
      // Further lines are gathered, since few messages cost the coordinator little. A new reader is
      // answered at once.
      WaitFor(options_.gather);
    }
  }

 private:
  struct LogReader {
    v1::FollowLogsRequest demand;
    int64_t next = 0;
    // It was sent something.
    bool told = false;
  };

  void Listen() {
    for (v1::ServeLogsResponse message; stream_->Read(&message);) {
      absl::MutexLock lock(&mutex_);
      if (message.stop()) {
        readers_.erase(message.reader());
      } else if (readers_.size() < kLogReadersMax) {
        LogReader& reader = readers_[message.reader()];
        reader = {.demand = message.demand(), .next = FirstOf(message.demand())};
        reader.demand.clear_positions();
        asked_ = true;
      }
    }
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  // The number of the first line that a reader wants.
  int64_t FirstOf(const v1::FollowLogsRequest& demand) const {
    for (const v1::LogPosition& at : demand.positions()) {
      if (at.pool() == options_.pool && at.node() == node_)
        return options_.ring->GoOnAt(at.ring(), at.next());
    }
    return options_.ring->Before(demand.tail(), demand.job_id());
  }

  // Returns false if the stream has ended.
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
    const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ || asked_; };
    mutex_.AwaitWithTimeout(absl::Condition(&over), duration);
  }
  std::vector<int64_t> Ids() {
    absl::MutexLock lock(&mutex_);
    std::vector<int64_t> ids;
    asked_ = false;
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
    found->second.told = true;
    if (done) readers_.erase(found);
  }

  // Sends all lines that the reader can have now. Returns false if the stream has ended.
  bool SendTo(int64_t id) {
    for (;;) {
      const LogReader reader = ReaderOf(id);
      // The reader is gone.
      if (reader.next < 0) return true;
      LogRing::Chunk chunk = options_.ring->Read(reader.next, reader.demand.job_id(), kChunkBytes);
      const bool more = !chunk.text.empty();
      const bool done = !more && !reader.demand.follow();
      // A reader that follows must know where it is, even before the first line.
      if (more || done || chunk.dropped > 0 || !reader.told) {
        v1::ServeLogsRequest message;
        message.set_reader(id);
        message.set_text(std::move(chunk.text));
        message.set_dropped(chunk.dropped);
        message.set_end(done);
        message.set_ring(options_.ring->id());
        message.set_next(chunk.next);
        if (!stream_->Write(message)) return false;
      }
      Advance(id, chunk.next, done);
      if (!more) return true;
    }
  }

  const Options& options_;
  const int node_;
  grpc::ClientContext context_;
  // Before the stream, whose begin it may have to end.
  std::stop_callback<std::function<void()>> cancel_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::ServeLogsRequest, v1::ServeLogsResponse>>
      stream_;
  absl::Mutex mutex_;
  std::map<int64_t, LogReader> readers_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // A reader came that is not in the last Ids().
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread reading_;
};

LogServer::LogServer(Options options)
    : options_(std::move(options)),
      channel_(MakeChannel(
          {.address = options_.coordinator, .tls = options_.tls, .small_segments = true})),
      node_(options_.node),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

LogServer::~LogServer() = default;

void LogServer::SetNode(int node) {
  absl::MutexLock lock(&mutex_);
  if (node_ == node) return;
  node_ = node;
  call_.request_stop();
}

std::optional<int> LogServer::BeginCall(const std::stop_token& stop, std::stop_token* call) {
  absl::MutexLock lock(&mutex_);
  const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop.stop_requested() || node_.has_value();
  };
  mutex_.Await(absl::Condition(&ready));
  if (stop.stop_requested()) return std::nullopt;
  call_ = std::stop_source();
  *call = call_.get_token();
  return node_;
}

void LogServer::Run(const std::stop_token& stop) {
  const auto stub = v1::LogService::NewStub(channel_);
  Random random(static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())));
  // With the lock, so that what waits for it looks again.
  const std::stop_callback end(stop, [this] {
    absl::MutexLock lock(&mutex_);
    call_.request_stop();
  });
  for (int attempt = 0; !stop.stop_requested(); ++attempt) {
    std::stop_token call;
    const std::optional<int> node = BeginCall(stop, &call);
    if (!node.has_value()) return;
    const absl::Time begun = SteadyTime();
    Call(options_, *node, *stub, call).Run();
    // If a stream ends at once, the coordinator does not have this call, or is shutting down.
    if (SteadyTime() - begun > absl::Seconds(5)) attempt = 0;
    const absl::Duration wait = absl::Milliseconds(500) + FullJitter({}, attempt, random);
    AwaitNextAttempt({&channel_, 1}, wait, stop);
  }
}

}  // namespace longhaul
