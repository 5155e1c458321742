// A pool of one rank that a test drives by hand, call by call, over real gRPC. Blocking; each
// object is used from one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/blocks/coded_blocks.h"
#include "common/codec/codec.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "longhaul/v1/job.grpc.pb.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "longhaul/v1/sync.grpc.pb.h"

namespace longhaul {

// Only a broken server makes a test wait so long.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(30);

class HandPool {
 public:
  HandPool(const std::string& address, const std::string& name,
           const std::string& incarnation = "0123456789abcdef");

  ~HandPool() { CloseStream(); }

  const std::string& name() const { return name_; }
  // Connects to another coordinator, or to the same one after its restart.
  void Dial(const std::string& address);

  absl::StatusOr<v1::JoinResponse> Join();
  // Joins as another incarnation, in place of this one.
  absl::StatusOr<v1::JoinResponse> JoinAnew(const std::string& incarnation);
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& extra = {});
  absl::Status Leave(absl::Duration return_within = absl::ZeroDuration());

  // Sends heartbeats until one brings this job.
  absl::Status AwaitAssignment(const std::string& job);

  // Opens WatchPlan, and tries again while the job's store is being opened. Returns the first plan.
  absl::StatusOr<v1::Plan> OpenPlan(const std::string& job);
  // The next event of the stream, or the stream's status if it has ended.
  absl::StatusOr<v1::PlanEvent> NextEvent();
  // Skips other events.
  absl::StatusOr<v1::Commit> NextCommit();

  // The content of a push of these values. A test may damage it before it is sent.
  struct Outgoing {
    v1::PushHeader header;
    std::shared_ptr<CodedBlocks> blocks;
  };
  Outgoing Encode(int fragment, int64_t version, v1::RoundKind kind, CodecKind codec,
                  const std::vector<float>& values) const;
  absl::StatusOr<v1::PushResponse> Send(const Outgoing& outgoing, CodecKind codec) const;
  absl::StatusOr<v1::PushResponse> Push(int fragment, int64_t version, v1::RoundKind kind,
                                        CodecKind codec, const std::vector<float>& values) const;
  // Sends these messages unchanged.
  absl::Status SendRaw(const std::vector<v1::PushMessage>& messages) const;
  // The messages that Send would send.
  std::vector<v1::PushMessage> MessagesOf(const Outgoing& outgoing, CodecKind codec) const;

  struct Pulled {
    v1::PullHeader header;
    std::vector<float> values;
  };
  absl::StatusOr<Pulled> Pull(int fragment, int64_t version, bool whole, int64_t elements) const;

 private:
  void CloseStream();
  absl::StatusOr<v1::Plan> TryOpenPlan(const std::string& job);

  std::string name_, incarnation_, replaces_, job_;
  std::shared_ptr<grpc::Channel> control_, bulk_;
  std::unique_ptr<v1::PoolService::Stub> pools_;
  std::unique_ptr<v1::SyncService::Stub> sync_;
  std::unique_ptr<grpc::ClientContext> watch_context_;
  std::unique_ptr<grpc::ClientReader<v1::PlanEvent>> watch_;
  // watch_ has returned its status.
  bool finished_ = false;
};

}  // namespace longhaul
