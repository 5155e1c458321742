#include "worker/collective/tcp_rendezvous_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "worker/collective/rendezvous_round.h"
#include "worker/collective/rendezvous_wire.h"
#include "worker/collective/tcp_socket.h"

namespace longhaul {
namespace {

using Clock = std::chrono::steady_clock;

// For a request to arrive and for a reply to be read. Between the two a rank waits for the others
// as long as it likes: clients have deadlines of their own.
constexpr std::chrono::seconds kTransferTimeout(10);
// Beyond this, newcomers wait in the listener's queue until a connection ends.
constexpr size_t kConnectionsMax = kRendezvousRanksMax + 64;
constexpr size_t kRequestBytesMax = kRendezvousBlobBytesMax + 4096;

struct Connection {
  enum class State { kReading, kWaiting, kReplying };
  FileDescriptor socket;
  State state = State::kReading;
  Clock::time_point deadline;  // of reading and replying
  std::string request;         // so far
  std::shared_ptr<const std::string>
      reply;  // shared by all members of a round: it holds everybody's blob
  size_t sent_bytes = 0;
};

}  // namespace

// The thread polls the listener, the connections and an event that raises commands of other
// threads.
class TcpRendezvousServer::Loop {
 public:
  Loop(Options options, FileDescriptor listener, FileDescriptor event, uint16_t port)
      : token_(std::move(options.token)),
        port_(port),
        listener_(std::move(listener)),
        event_(std::move(event)),
        round_(options.generation, options.size),
        thread_([this] { Run(); }) {}

  ~Loop() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    RaiseEvent();
    thread_.join();
  }

  uint16_t port() const { return port_; }

  void StartGeneration(uint64_t generation, int size) {
    {
      absl::MutexLock lock(&mutex_);
      next_round_.emplace(generation, size);
    }
    RaiseEvent();
  }

 private:
  void Run() {
    while (!TakeCommands()) {
      PollOnce();
      CloseExpired();
    }
  }

  void RaiseEvent() {
    const uint64_t one = 1;
    // Fails only when the counter is full, that is when the event is raised already.
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
  }

  // True when the server is to stop.
  bool TakeCommands() {
    uint64_t count;
    [[maybe_unused]] const ssize_t taken = read(event_.get(), &count, sizeof(count));
    absl::MutexLock lock(&mutex_);
    if (stopping_) return true;
    if (!next_round_.has_value()) return false;
    round_ = *std::move(next_round_);
    next_round_.reset();
    for (auto& [id, connection] : connections_) {
      if (connection.state != Connection::State::kWaiting) continue;
      StartReply(connection,
                 Encode(absl::FailedPreconditionError("rendezvous: a later generation has begun")));
    }
    return false;
  }

  void PollOnce() {
    std::vector<pollfd> polls = {{event_.get(), POLLIN, 0}};
    std::vector<uint64_t> ids;
    for (const auto& [id, connection] : connections_) {
      const bool replies = connection.state == Connection::State::kReplying;
      polls.push_back({connection.socket.get(), static_cast<short>(replies ? POLLOUT : POLLIN), 0});
      ids.push_back(id);
    }
    if (connections_.size() < kConnectionsMax) polls.push_back({listener_.get(), POLLIN, 0});
    if (poll(polls.data(), polls.size(), PollTimeoutMs()) <= 0) return;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (polls[i + 1].revents != 0 && !Serve(ids[i], connections_.at(ids[i]))) Close(ids[i]);
    }
    if (polls.size() > ids.size() + 1 && polls.back().revents != 0) Accept();
  }

  // Until the next transfer expires.
  int PollTimeoutMs() const {
    Clock::duration left = kTransferTimeout;
    for (const auto& [id, connection] : connections_) {
      if (connection.state == Connection::State::kWaiting) continue;
      left = std::min(left, connection.deadline - Clock::now());
    }
    return std::max<int>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }

  void Accept() {
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0)
      return;  // the client has gone, or descriptors are short: poll says when to try again
    Connection connection;
    connection.socket = std::move(socket);
    connection.deadline = Clock::now() + kTransferTimeout;
    connections_.emplace(next_id_++, std::move(connection));
  }

  // Does what the connection's state allows. False: close it.
  bool Serve(uint64_t id, Connection& connection) {
    switch (connection.state) {
      case Connection::State::kReading:
        return ServeReading(id, connection);
      case Connection::State::kWaiting:
        return false;  // nothing more may come: the rank has died or does not keep to the protocol
      case Connection::State::kReplying: {
        const auto sent =
            WriteAvailable(connection.socket.get(), *connection.reply, connection.sent_bytes);
        if (!sent.ok()) return false;
        connection.sent_bytes = *sent;
        return connection.sent_bytes < connection.reply->size();
      }
    }
    return false;
  }

  bool ServeReading(uint64_t id, Connection& connection) {
    const auto ended =
        ReadAvailable(connection.socket.get(), kRequestBytesMax, &connection.request);
    if (!ended.ok() || *ended) return false;
    auto request = DecodeRequest(connection.request, token_);
    if (request.ok() && !request->has_value()) return true;
    const absl::Status joined =
        request.ok() ? round_.Join(id, **std::move(request)) : request.status();
    if (!joined.ok()) {
      StartReply(connection, Encode(joined));
      return true;
    }
    connection.state = Connection::State::kWaiting;
    if (round_.complete()) ReplyToMembers();
    return true;
  }

  // Every waiting connection is a member of the current round.
  void ReplyToMembers() {
    const auto reply = Encode(round_.Blobs());
    for (auto& [id, connection] : connections_) {
      if (connection.state == Connection::State::kWaiting) StartReply(connection, reply);
    }
  }

  static std::shared_ptr<const std::string> Encode(
      const absl::StatusOr<std::vector<std::string>>& reply) {
    return std::make_shared<const std::string>(EncodeReply(reply));
  }

  void StartReply(Connection& connection, std::shared_ptr<const std::string> reply) {
    connection.state = Connection::State::kReplying;
    connection.reply = std::move(reply);
    connection.sent_bytes = 0;
    connection.deadline = Clock::now() + kTransferTimeout;
  }

  void CloseExpired() {
    std::vector<uint64_t> expired;
    for (const auto& [id, connection] : connections_) {
      if (connection.state != Connection::State::kWaiting && Clock::now() >= connection.deadline)
        expired.push_back(id);
    }
    for (const uint64_t id : expired) Close(id);
  }

  void Close(uint64_t id) {
    round_.Leave(id);
    connections_.erase(id);
  }

  const std::string token_;
  const uint16_t port_;
  const FileDescriptor listener_, event_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<RendezvousRound> next_round_ ABSL_GUARDED_BY(mutex_);

  // Of the thread alone.
  RendezvousRound round_;
  std::map<uint64_t, Connection> connections_;
  uint64_t next_id_ = 0;

  std::thread thread_;  // last: everything above is ready when it starts
};

absl::StatusOr<std::unique_ptr<TcpRendezvousServer>> TcpRendezvousServer::Start(Options options) {
  if (options.size < 1 || options.size > static_cast<int>(kRendezvousRanksMax) ||
      options.token.size() > kRendezvousTokenBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rendezvous: ", options.size, " ranks, a token of ", options.token.size(), " bytes"));
  }
  LH_ASSIGN_OR_RETURN(FileDescriptor listener, ListenOn(options.address, options.port));
  LH_ASSIGN_OR_RETURN(const uint16_t port, LocalPort(listener.get()));
  FileDescriptor event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (event.get() < 0) return SystemError("eventfd");
  auto loop =
      std::make_unique<Loop>(std::move(options), std::move(listener), std::move(event), port);
  return std::unique_ptr<TcpRendezvousServer>(new TcpRendezvousServer(std::move(loop)));
}

TcpRendezvousServer::TcpRendezvousServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
TcpRendezvousServer::~TcpRendezvousServer() = default;

uint16_t TcpRendezvousServer::port() const { return loop_->port(); }

void TcpRendezvousServer::StartGeneration(uint64_t generation, int size) {
  loop_->StartGeneration(generation, size);
}

}  // namespace longhaul
